"""A broker that is told to stop: what is in its log was answered, and nothing gets there later."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sharegroup.broker.server import Broker
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.by_hand import topic_with_records
from tests.broker.greedy import Greedy, frame
from tests.broker.running import run

PRODUCERS = 4
SENT = 2_000


async def _counted(peer: Greedy, some: asyncio.Event) -> int:
    """How many answers come until the broker closes the connection."""
    count = 0
    while True:
        try:
            await peer.answer()
        except (asyncio.IncompleteReadError, ConnectionError):
            return count
        count += 1
        some.set()


def test_what_was_appended_before_a_stop_was_answered(tmp_path: Path) -> None:
    answered = 0

    async def produce(broker: Broker, port: int) -> None:
        nonlocal answered
        topic_id = await topic_with_records(broker, port, 1)
        batch = encode_batch([(None, b"v")], timestamp_ms=0)
        data = TopicProduceData("jobs", topic_id, [PartitionProduceData(0, batch)])
        request = frame(apis.PRODUCE, 13, ProduceRequest(None, -1, 1000, [data]))
        peers = [await Greedy.connect(port) for _ in range(PRODUCERS)]
        some = asyncio.Event()
        readers = [asyncio.create_task(_counted(peer, some)) for peer in peers]
        for peer in peers:
            peer.send(request * SENT)
        await some.wait()
        await broker.close()
        answered = sum(await asyncio.gather(*readers))
        for peer in peers:
            peer.close()

    async def count(broker: Broker, port: int) -> None:
        log = broker.parts.store.log("jobs", 0)
        assert log.log_end_offset - 1 == answered < PRODUCERS * SENT

    run(tmp_path, produce)
    run(tmp_path, count)
