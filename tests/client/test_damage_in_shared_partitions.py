"""Damage on the broker's disk, in a partition that members of a consumer group share (KIP-X)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sharegroup import Consumer, Producer
from sharegroup.client import CorruptRecordBatch
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from tests.client.test_shared_partitions import committed, shared_topic
from tests.client.working import fresh, run


def damage(folder: Path, topic: str) -> None:
    (log,) = folder.glob(f"**/{topic}-0/*.log")
    log.write_bytes(log.read_bytes().replace(b"damaged", b"Damaged"))


def test_a_damaged_record_does_not_hold_up_the_committed_offset(tmp_path: Path) -> None:
    async def scenario(broker: LocalBroker) -> None:
        topic, group, read, failures = shared_topic(broker), fresh("group"), [], []
        async with Producer(broker.bootstrap) as producer:
            for value in (b"before", b"damaged", b"after"):
                await producer.send(topic, value)
        damage(tmp_path, topic)
        consumer = Consumer(
            topic,
            group_id=group,
            bootstrap_servers=broker.bootstrap,
            key_ranges=True,
            auto_offset_reset="earliest",
        )
        async with consumer, asyncio.timeout(60):
            while len(read) < 2:
                try:
                    read += [record.value for record in await consumer.poll(100)]
                except CorruptRecordBatch as error:
                    failures.append(error)
            await consumer.commit()
        assert read == [b"before", b"after"]
        assert len(failures) == 1
        assert await committed(broker, topic, group) == 3

    with local_broker(data=tmp_path) as broker:
        run(lambda: scenario(broker))
