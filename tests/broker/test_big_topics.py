"""A topic of thousands of partitions is made and deleted while others are served."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.app.descriptors import descriptor_limit
from sharegroup.broker.server import Broker
from sharegroup.model.limits import CONNECTIONS_RESERVED, DESCRIPTORS_RESERVED
from sharegroup.storage.descriptors import CACHED_MAX
from sharegroup.storage.partition_folders import SLICE
from sharegroup.wire.batch import encode_batch
from tests.broker.by_hand import Member, connect, produce, topic_with_records
from tests.broker.running import run
from tests.broker.test_full_disk import Client

PARTITIONS = 1_500


def test_other_requests_are_answered_while_a_topic_is_created_and_deleted(tmp_path: Path) -> None:
    if descriptor_limit() < PARTITIONS + DESCRIPTORS_RESERVED + CACHED_MAX + CONNECTIONS_RESERVED:
        pytest.skip("this process may not have as many file descriptors")

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        member = await Member.join(port, "m1")
        connection = await connect(port)
        busy, other = Client(await connect(port)), Client(connection)
        batch = encode_batch([(b"k", b"v")], timestamp_ms=0)
        for change in (busy.create("big", PARTITIONS), busy.delete("big")):
            task = asyncio.ensure_future(change)
            # The work is done in slices; how many were done at each answer is seen on the disk.
            seen = set()
            while not task.done():
                seen.add(len(broker.store._disk.list(broker.store.path)))
                assert set(await other.topics()) <= {"big", "jobs"}
                if broker.topics.find("big") is not None:  # then all of it can be used
                    for partition in (0, PARTITIONS - 1):
                        assert broker.topics.log("big", partition).failure is None
                assert await produce(connection, topic_id, batch) == 0
                for first, last, _ in await member.fetch(topic_id):
                    assert await member.acknowledge(topic_id, first, last, kind=1) == 0
            assert task.result() == 0
            assert len(seen) > PARTITIONS // SLICE // 2
        assert await other.topics() == ["jobs"]

    run(tmp_path, scenario)
