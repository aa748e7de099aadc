"""Produce requests with acks=0: nobody waits for their answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.server import Broker
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.api_versions import ApiVersionsRequest
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.greedy import Greedy, frame
from tests.broker.running import run
from tests.broker.share_wire import new_topic, until
from tests.broker.test_tls_connections import LOOPS, Listener, listening

MANY = 400


def unanswered(topic: str, partition: int = 0) -> bytes:
    batch = encode_batch([(b"k", b"v")], timestamp_ms=0)
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])
    return frame(apis.PRODUCE, 9, ProduceRequest(None, 0, 1_000, [data]))


def test_what_cannot_be_written_ends_the_connection(tmp_path: Path) -> None:
    """Its client looks up the topic and its leader again, as with Apache Kafka."""

    async def scenario(broker: Broker, port: int) -> None:
        await new_topic(broker, port, 1, "jobs")
        peer = await Greedy.connect(port)
        peer.send(unanswered("jobs") + frame(apis.API_VERSIONS, 0, ApiVersionsRequest()))
        assert await peer.answer()
        for refused in (unanswered("jobs", 7), unanswered("nothing")):
            other = await Greedy.connect(port)
            other.send(refused)
            assert await other.closed()
            other.close()
        peer.send(frame(apis.API_VERSIONS, 0, ApiVersionsRequest()))
        assert await peer.answer()
        peer.close()

    run(tmp_path, scenario)


@pytest.mark.parametrize("loop", LOOPS)
def test_what_came_before_the_end_of_tls_is_written(
    tmp_path: Path, loop: Callable[[], Any]
) -> None:
    async def scenario(listener: Listener) -> None:
        await new_topic(listener.broker, listener.plain_port, 1, "jobs")
        _, writer = await listener.stream()
        writer.write(unanswered("jobs") * MANY)
        writer.close()
        log = listener.broker.parts.topics.log("jobs", 0)
        await until(lambda: log.high_watermark == MANY)

    listening(tmp_path, loop, scenario)
