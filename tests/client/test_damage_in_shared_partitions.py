"""Damage on the broker's disk, in a partition that members of a consumer group share (KIP-X)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup import Consumer, Producer
from sharegroup.client import CorruptRecordBatch
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.ids import TopicPartition
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from sharegroup.wire.batch import parse_headers
from sharegroup.wire.messages.fetch import PartitionData
from tests.client.key_sharing import committed, shared_topic
from tests.client.working import fresh, run, until


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


MAGIC_AT = 16


def damage_header(folder: Path, topic: str, base_offset: int) -> None:
    """Give a batch another magic, in place: the broker has the file open."""
    (log,) = folder.glob(f"**/{topic}-0/*.log")
    at = 0
    for header in parse_headers(log.read_bytes()):
        if header.base_offset == base_offset:
            break
        at += header.length
    with log.open("r+b") as file:
        file.seek(at + MAGIC_AT)
        file.write(b"\x63")


def member(broker: LocalBroker, topic: str, group: str, **shares: bool) -> Consumer:
    return Consumer(
        topic,
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        **shares,
    )


async def polled(consumer: Consumer, read: list[int], failures: list[int]) -> None:
    try:
        read += [record.offset for record in await consumer.poll(100)]
    except CorruptRecordBatch as error:
        failures.append(error.offset)


@pytest.mark.parametrize("shares", ["key_ranges", "cooperative"])
def test_a_damaged_header_costs_its_own_batch_only(shares: str, tmp_path: Path) -> None:
    """Before, the records in front of it were committed, and given to nobody; in turns offsets past
    the log's end were committed, too."""

    async def scenario(broker: LocalBroker) -> None:
        topic, group, read, failures = shared_topic(broker), fresh("group"), [], []
        one, two = (member(broker, topic, group, **{shares: True}) for _ in range(2))
        async with one, two, asyncio.timeout(60):
            by_key = shares == "key_ranges"
            while not all(each.key_ranges if by_key else each.assignment for each in (one, two)):
                await asyncio.gather(one.poll(50), two.poll(50))
            fetching = [each._parts.fetcher._under_way for each in (one, two)]
            await until(lambda: not any(fetching))
            async with Producer(broker.bootstrap) as producer:
                for number in range(22):
                    await producer.send(topic, b"%d" % number)
            damage_header(tmp_path, topic, 20)
            while await committed(broker, topic, group) != 22:
                await asyncio.gather(*(polled(each, read, failures) for each in (one, two)))
                await asyncio.gather(one.commit(), two.commit())
        assert sorted(read) == [*range(20), 21]
        assert failures == ([20, 20] if by_key else [])

    with local_broker(
        data=tmp_path,
        configs={
            "group.consumer.min.assignment.interval.ms": 0,
            "group.consumer.assignment.interval.ms": 0,
        },
    ) as broker:
        run(lambda: scenario(broker))


def test_in_turns_damage_that_the_broker_cannot_pass_commits_nothing(tmp_path: Path) -> None:
    """The member does not know which offset the broker has read."""

    async def scenario(broker: LocalBroker) -> None:
        topic, group = shared_topic(broker), fresh("group")
        consumer = member(broker, topic, group, cooperative=True)
        async with consumer, asyncio.timeout(60):
            fetcher, where = consumer._parts.fetcher, TopicPartition(topic, 0)
            while where not in fetcher._positions.fetchable(()):
                await consumer.poll(50)
            version = fetcher._positions.fetchable(())[where]
            answer = PartitionData(partition_index=0, error_code=CorruptMessage.code)
            fetcher._answered(where, answer, version, fetcher._positions.position(where))
            with pytest.raises(CorruptMessage, match=topic):
                await consumer.poll(50)
            async with Producer(broker.bootstrap) as producer:
                await producer.send(topic, b"0")
            while not (read := await consumer.poll(100)):
                pass
            assert [record.offset for record in read] == [0]
            await consumer.commit()
        assert await committed(broker, topic, group) == 1

    with local_broker(data=tmp_path) as broker:
        run(lambda: scenario(broker))
