"""Members of a consumer group that share a partition by the keys of its records (KIP-X)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sharegroup import Admin, Consumer, Producer
from sharegroup.client import ConsumerRecord
from sharegroup.cooperative.hash_split import WHOLE
from sharegroup.cooperative.intervals import normal
from sharegroup.model.errors import (
    ConfigError,
    IndividualCommitNotAllowed,
    TopicRangeFetchNotAllowed,
    UnsupportedVersion,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from tests.apache_kafka.broker import KafkaBroker
from tests.client.key_sharing import (
    COUNT,
    KEYS,
    Member,
    broker_that_assigns_at_once,
    check_order,
    come_and_go,
    committed,
    is_shared_out,
    shared_topic,
    values,
    write,
)
from tests.client.working import eventually, fresh, run, until


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with broker_that_assigns_at_once() as broker:
        yield broker


WAYS: list[dict[str, Any]] = [
    {},
    *(
        {"group_protocol": "classic", "partition_assignment_strategy": [name]}
        for name in ("range", "roundrobin", "sticky")
    ),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())) or "modern")
@pytest.mark.parametrize("partitions", [1, 2])
def test_more_members_than_partitions(
    broker: LocalBroker, partitions: int, way: dict[str, Any]
) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker, partitions), fresh("group")
        members = [Member(broker, topic, group, **way) for _ in range(5)]
        # The first to join has all of it for a moment.
        await until(lambda: sum(bool(member.parts) for member in members) > partitions)
        await until(lambda: is_shared_out(members, partitions))
        await write(broker, topic)
        await until(lambda: len(values(members)) >= COUNT)
        assert sorted(values(members)) == list(range(COUNT)), "each record once"
        check_order(members)
        assert sum(bool(member.read) for member in members) > partitions
        for member in members:
            await member.stop()
        assert await committed(broker, topic, group, partitions) == COUNT

    run(scenario)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_members_come_and_go(broker: LocalBroker, protocol: str) -> None:
    """Some in order and some without a word: nothing is missing, and what comes twice is what was
    read and not committed."""

    async def scenario() -> None:
        topic, group = shared_topic(broker, 2), fresh("group")
        members, everybody = await come_and_go(
            broker, topic, group, group_protocol=protocol, heartbeat_interval_ms=100
        )
        check_order(everybody)
        await until(lambda: is_shared_out(members, 2))
        for member in members:
            await member.stop()
        assert await committed(broker, topic, group, 2) == COUNT

    run(scenario)


def test_single_records_are_committed_in_any_order(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, 100)
        settings: dict[str, Any] = {
            "group_id": group,
            "bootstrap_servers": broker.bootstrap,
            "key_ranges": True,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
        }
        async with Consumer(topic, **settings) as one:
            records: list[ConsumerRecord] = []
            while len(records) < 100:
                records += await one.poll()
            await one.commit(records[50])
            await one.commit([*records[52:55], records[10]])
            await one.commit(records[0])
            found = await one.committed()
            assert found[TopicPartition(topic, 0)].offset == 1
            assert found[TopicPartition(topic, 0)].ranges == ((10, 10), (50, 50), (52, 54))
        async with Consumer(topic, **settings) as two:
            again: list[ConsumerRecord] = []
            while len(again) < 100 - 6:
                again += await two.poll()
            done = {0, 10, 50, 52, 53, 54}
            assert [one.offset for one in again] == [at for at in range(100) if at not in done]
            await two.commit()  # the gaps between what was committed
            assert (await two.committed())[TopicPartition(topic, 0)] == (100, -1, "", ())

    run(scenario)


@pytest.mark.parametrize("how", ["key_ranges", "cooperative"])
def test_offsets_without_records_hold_up_nothing(broker: LocalBroker, how: str) -> None:
    """Markers of transactions, and records of aborted ones."""

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        read = {"isolation_level": "read_committed", "key_ranges": False} | {how: True}
        members = [Member(broker, topic, group, **read) for _ in range(3)]
        await until(lambda: how == "cooperative" or is_shared_out(members, 1))
        async with Producer(broker.bootstrap, transactional_id=fresh("txn")) as producer:
            for number in range(20):
                try:
                    async with producer.transaction():
                        for at in range(10):
                            await producer.send(topic, b"%d" % number, key=b"key-%d" % at)
                        if number % 3 == 0:
                            raise LookupError
                except LookupError:
                    continue
        await until(lambda: len(values(members)) >= 130)
        assert len(values(members)) == 130

        async def at() -> int:
            return await committed(broker, topic, group)

        assert await eventually(at, lambda offset: offset == 220) == 220
        for member in members:
            await member.stop()

    run(scenario)


def test_the_end_of_the_log_is_one_place_for_all(broker: LocalBroker) -> None:
    """Members that begin at the end while it moves begin at one offset."""

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, 100)
        writing = asyncio.create_task(write(broker, topic, 500, pause_s=0.01))
        members = [Member(broker, topic, group, auto_offset_reset="latest") for _ in range(4)]
        await writing
        await until(lambda: is_shared_out(members, 1))
        await write(broker, topic, 100)

        async def at() -> int:
            return await committed(broker, topic, group)

        assert await eventually(at, lambda offset: offset == 700) == 700
        offsets = sorted(record.offset for member in members for record in member.read)
        assert offsets == list(range(offsets[0], 700))
        assert offsets[0] >= 100
        for member in members:
            await member.stop()

    run(scenario)


def test_many_ranges_are_committed_at_once(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        often = {"auto_commit_interval_ms": 3_600_000, "max_num_ranges_to_commit": 50}
        members = [Member(broker, topic, group, **often) for _ in range(2)]
        await until(lambda: is_shared_out(members, 1))
        await write(broker, topic)
        await until(lambda: len(values(members)) == COUNT)

        async def at() -> int:
            return await committed(broker, topic, group)

        await eventually(at, lambda offset: offset > COUNT // 2)
        for member in members:
            await member.stop()

    run(scenario)


def test_a_topic_that_is_not_shared_by_key(broker: LocalBroker) -> None:
    """KIP-X, failure row 2a: the client stops with the error."""

    async def scenario() -> None:
        topic, group = fresh("plain"), fresh("group")
        broker.create_topic(topic, 1)
        members = [Member(broker, topic, group) for _ in range(2)]
        done, _ = await asyncio.wait(
            [one.task for one in members], timeout=120, return_when=asyncio.FIRST_COMPLETED
        )
        errors = [task.exception() for task in done]
        assert any(isinstance(error, TopicRangeFetchNotAllowed) for error in errors), errors
        for member in members:
            await member.consumer.close()

    run(scenario)


def test_a_broker_that_does_not_take_ranges_of_offsets() -> None:
    """KIP-X, failure row 1a: the client stops with the error."""

    async def scenario() -> None:
        with local_broker(configs={"accept.individual.commit": "false"}) as broker:
            topic = shared_topic(broker)
            await write(broker, topic, 10)
            member = Member(broker, topic, fresh("group"))
            with pytest.raises(IndividualCommitNotAllowed):
                await member.task

    run(scenario)


@pytest.mark.kafka
def test_a_broker_without_key_ranges(tmp_path: Path) -> None:
    async def scenario(bootstrap: str) -> None:
        consumer = Consumer("topic", group_id="group", bootstrap_servers=bootstrap, key_ranges=True)
        with pytest.raises(UnsupportedVersion, match=r"no feature cooperative\.consumption"):
            await consumer.start()
        await consumer.close()

    with KafkaBroker(tmp_path) as kafka:
        run(lambda: scenario(kafka.bootstrap))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"group_id": "g", "partition_assignment_strategy": ["cooperative-sticky"]},
            "range, roundrobin or sticky",
        ),
        ({}, "needs a group_id"),
        ({"group_id": "g", "max_num_ranges_to_commit": 0}, "max_num_ranges_to_commit"),
    ],
)
def test_wrong_use(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Consumer(key_ranges=True, **settings)


def test_callbacks_see_the_key_ranges(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        where = TopicPartition(topic, 0)
        seen: list[tuple[str, Any]] = []
        one = Consumer(group_id=group, bootstrap_servers=broker.bootstrap, key_ranges=True)
        one.subscribe(
            topic,
            on_assigned=lambda _: seen.append(("has", one.key_ranges.get(where, WHOLE))),
            on_revoked=lambda _: seen.append(("had", one.key_ranges.get(where, WHOLE))),
        )

        async def assigned() -> int:
            await one.poll(50)
            return len(seen)

        async with one:
            await eventually(assigned, bool)
            two = Member(broker, topic, group)
            await eventually(assigned, lambda count: count == 3)
            await until(lambda: bool(two.parts))
            assert [what for what, _ in seen] == ["has", "had", "has"]
            assert seen[0][1] == seen[1][1] == WHOLE
            (mine,) = seen[2][1]
            assert normal([mine, *two.consumer.key_ranges[where]]) == WHOLE
            await two.stop()

    run(scenario)


def test_pools_of_members_that_share_a_partition(broker: LocalBroker) -> None:
    """Each key with one member, and many keys at once in each: in order per key."""

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        done: list[int] = []
        pools: list[Any] = []

        async def handle(record: ConsumerRecord) -> None:
            await asyncio.sleep(0.001 * (record.offset % 3))
            done.append(int(record.value or b""))
            if len(set(done)) == COUNT:
                for pool in pools:
                    pool.stop()

        async def member() -> None:
            consumer = Consumer(
                topic,
                group_id=group,
                bootstrap_servers=broker.bootstrap,
                key_ranges=True,
                auto_offset_reset="earliest",
            )
            async with consumer, consumer.by_key(8, commit_interval_s=0.1) as pool:
                pools.append(pool)
                await pool.run(handle, signals=())

        await write(broker, topic)
        await asyncio.gather(*(member() for _ in range(3)))
        by_key = defaultdict(list)
        for number in dict.fromkeys(done):
            by_key[number % KEYS].append(number)
        assert all(mine == sorted(mine) for mine in by_key.values())
        assert await committed(broker, topic, group) == COUNT

    run(scenario)


def test_records_that_the_log_has_lost_do_not_hold_up_the_committed_offset(
    broker: LocalBroker,
) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        where = TopicPartition(topic, 0)
        async with Admin(broker.bootstrap) as admin:
            await admin.alter_consumer_group_offsets(group, {where: 0})
            await write(broker, topic, 100)
            await admin.delete_records({where: 60})
        members = [Member(broker, topic, group) for _ in range(3)]
        await until(lambda: len(values(members)) >= 40)
        assert sorted(values(members)) == list(range(60, 100))

        async def at() -> int:
            return await committed(broker, topic, group)

        assert await eventually(at, lambda offset: offset == 100) == 100
        for member in members:
            await member.stop()

    run(scenario)


def test_arrow_batches_of_a_shared_partition(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        settings: dict[str, Any] = {
            "group_id": group,
            "bootstrap_servers": broker.bootstrap,
            "key_ranges": True,
            "auto_offset_reset": "earliest",
        }
        await write(broker, topic)
        async with Consumer(topic, **settings, enable_auto_commit=False) as one:
            records: list[ConsumerRecord] = []
            while len(records) <= 150:
                records += await one.poll()
            await one.commit(records[150])
        read: list[int] = []

        async def member() -> None:
            async with Consumer(topic, **settings, auto_commit_interval_ms=100) as two:
                async for rows in two.arrow_batches(idle_timeout_ms=3_000):
                    read.extend(rows.column("offset").to_pylist())

        await asyncio.gather(*(member() for _ in range(3)))
        assert sorted(set(read)) == [at for at in range(COUNT) if at != 150]
        assert await committed(broker, topic, group) == COUNT

    run(scenario)
