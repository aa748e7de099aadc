"""Members of a consumer group that read a partition in turns (KIP-X, "Cooperative Fetch")."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sharegroup import Admin, Consumer, Producer
from sharegroup.client.errors import IllegalState, RecordDeserializationError
from sharegroup.model.errors import (
    ConfigError,
    InconsistentGroupProtocol,
    TopicRangeFetchNotAllowed,
    UnsupportedVersion,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.share.turns import TURN_RECORDS
from sharegroup.storage import checkpoints
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from tests.apache_kafka.broker import KafkaBroker
from tests.client.key_sharing import (
    COUNT,
    Member,
    come_and_go,
    committed,
    shared_topic,
    values,
    write,
)
from tests.client.working import eventually, fresh, run, until
from tests.storage.test_damage_at_rest import sealed
from tests.storage.test_gaps import cleaned_until, cut

IN_TURNS: dict[str, Any] = {"key_ranges": False, "cooperative": True}
AHEAD = 3 * TURN_RECORDS
"""What a member may hold: what it works on, what waits for it, and what is on its way."""


FAST_GROUPS: dict[str, object] = {
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 2000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with local_broker(configs=FAST_GROUPS) as broker:
        yield broker


def consumer_of(broker: LocalBroker, topic: str, group: str, **settings: Any) -> Consumer:
    defaults = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 100}
    return Consumer(
        topic,
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        fetch_max_wait_ms=50,
        **defaults | IN_TURNS | settings,
    )


def taker(broker: LocalBroker, topic: str, group: str, **settings: Any) -> Member:
    return Member(broker, topic, group, **IN_TURNS | settings)


async def all_have_partitions(members: list[Member]) -> None:
    await until(lambda: all(member.consumer.assignment for member in members))


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_each_record_comes_to_one_member(
    broker: LocalBroker, partitions: int, isolation: str
) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker, partitions), fresh("group")
        members = [taker(broker, topic, group, isolation_level=isolation) for _ in range(5)]
        await all_have_partitions(members)
        assert all(not member.consumer.key_ranges for member in members)
        await write(broker, topic)
        await until(lambda: len(values(members)) >= COUNT)
        assert sorted(values(members)) == list(range(COUNT)), "each record once"
        assert sum(bool(member.read) for member in members) > partitions
        for member in members:
            await member.stop()
        assert await committed(broker, topic, group, partitions) == COUNT

    run(scenario)


def test_one_key_is_no_bound(broker: LocalBroker) -> None:
    """With key ranges all of these records would be with one member."""

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        members = [taker(broker, topic, group, work_s=0.001) for _ in range(3)]
        await all_have_partitions(members)
        async with Producer(broker.bootstrap) as producer:
            for number in range(COUNT):
                await producer.enqueue(topic, b"%d" % number, key=b"same")
                if number % 50 == 49:
                    await producer.flush()
        await until(lambda: len(values(members)) >= COUNT)
        assert sorted(values(members)) == list(range(COUNT))
        assert all(member.read for member in members)
        for member in members:
            await member.stop()

    run(scenario)


def test_members_come_and_go(broker: LocalBroker) -> None:
    """Some in order and some without a word: nothing is missing, and all is committed."""

    async def scenario() -> None:
        topic, group = shared_topic(broker, 2), fresh("group")
        members, _ = await come_and_go(broker, topic, group, **IN_TURNS)
        for member in members:
            await member.stop()
        assert await committed(broker, topic, group, 2) == COUNT

    run(scenario)


def test_a_join_and_a_leave_give_no_record_twice(broker: LocalBroker) -> None:
    """Members get a new epoch while they work and fetch ahead, and keep their turns."""

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        # A busy machine may stop this process for longer than this broker's session time-out.
        broker.configure_group(group, consumer_session_timeout_ms=45_000)
        members = [taker(broker, topic, group, work_s=0.001) for _ in range(2)]
        await all_have_partitions(members)
        writing = asyncio.create_task(write(broker, topic, pause_s=0.02))
        for _ in range(3):
            await until(lambda: all(member.read for member in members))
            members.append(taker(broker, topic, group, work_s=0.001))
        await until(lambda: all(member.read for member in members))
        await members[0].stop()
        await writing
        await until(lambda: len(values(members)) >= COUNT)
        for member in members[1:]:
            await member.stop()
        assert sorted(values(members)) == list(range(COUNT))
        assert await committed(broker, topic, group) == COUNT

    run(scenario)


def test_what_a_killed_member_held_comes_to_another(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        first = consumer_of(broker, topic, group, enable_auto_commit=False)
        other = taker(broker, topic, group)
        while not (first.assignment and other.consumer.assignment):
            assert not await first.poll(50)
        await write(broker, topic)
        held = {record.offset for record in await first.poll(5_000)}
        await until(lambda: len(other.read) >= COUNT - AHEAD)
        assert not held & set(values([other])), "two members have a record"
        first._parts.cut()
        await until(lambda: len(other.read) >= COUNT)
        assert sorted(values([other])) == list(range(COUNT))
        await other.stop()
        assert await committed(broker, topic, group) == COUNT
        await first.close()

    run(scenario)


def test_single_records_are_committed_in_any_order(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, 100)
        async with consumer_of(broker, topic, group, enable_auto_commit=False) as one:
            records = await one.poll(5_000)
            kept = [record for record in records if record.offset % 2]
            await one.commit(kept[::-1])
        async with consumer_of(broker, topic, group, enable_auto_commit=False) as other:
            again = await other.poll(5_000)
        assert {record.offset for record in again} == set(range(100)) - {
            record.offset for record in kept
        }

    run(scenario)


def test_it_goes_on_behind_what_was_committed(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, 500)
        first = taker(broker, topic, group)
        await until(lambda: len(first.read) == 500)
        await first.stop()
        await write(broker, topic, 500)
        second = taker(broker, topic, group)
        await until(lambda: len(second.read) == 500)
        await second.stop()
        assert await committed(broker, topic, group) == 1_000

    run(scenario)


def test_markers_do_not_hold_up_the_committed_offset(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        async with Producer(broker.bootstrap, transactional_id=fresh("tx")) as producer:
            for number in range(20):
                with suppress(OSError):
                    async with producer.transaction():
                        await producer.send(topic, b"%d" % number)
                        if number % 4 == 0:
                            raise OSError("aborts it")
        members = [taker(broker, topic, group, isolation_level="read_committed") for _ in "ab"]
        await until(lambda: len(values(members)) == 15)
        await until_committed(broker, topic, group, 40)
        for member in members:
            await member.stop()

    run(scenario)


async def until_committed(broker: LocalBroker, topic: str, group: str, offset: int) -> None:
    await eventually(lambda: committed(broker, topic, group), lambda found: found == offset)


def test_offsets_that_kafka_has_cleaned_away_do_not_hold_it_up(tmp_path: Path) -> None:
    """Kafka's cleaner leaves the ends of segments out, here also that of the log."""
    configs = FAST_GROUPS | {"log.cleaner.enable": False}
    with local_broker(configs=configs, data=tmp_path) as kafka:
        kafka.create_topic(
            "t", cleanup_policy="compact", segment_bytes=1 << 20, accept_range_fetch=True
        )
        for number in range(40):
            kafka.produce("t", [(b"%d" % number, bytes(1 << 17))])
    data = tmp_path / "sharegroup"
    active = max(int(log.stem) for log in (data / "t-0").glob("*.log"))
    lost = cut(data, active, 40 - active) | cut(data, sealed(data)[-1], 2) | cut(data, 0, 1)
    cleaned_until(data, active)
    for name in (checkpoints.CLEAN_MARKER, checkpoints.RECOVERY_POINTS):
        (data / name).unlink()  # Kafka's say that the log ends there, as do its snapshots
    for snapshot in (data / "t-0").glob("*.snapshot"):
        snapshot.unlink()
    left = sorted(set(range(active)) - lost)

    async def scenario() -> None:
        members = [taker(kafka, "t", "group") for _ in range(2)]
        await until(lambda: sum(len(member.read) for member in members) >= len(left))
        assert sorted(r.offset for member in members for r in member.read) == left
        await until_committed(kafka, "t", "group", active)
        async with Admin(kafka.bootstrap) as admin:
            [end] = (await admin.list_offsets([TopicPartition("t", 0)])).values()
        assert end.offset == active
        for member in members:
            await member.stop()

    with local_broker(configs=configs, data=tmp_path) as kafka:
        run(scenario)


def test_a_record_that_cannot_be_read_is_told_once_and_passed_over(broker: LocalBroker) -> None:
    def number_of(value: bytes) -> int:
        if value == b"7":
            raise ValueError("no seven")
        return int(value)

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, 50)
        found: list[object] = []
        errors = 0
        async with (
            consumer_of(broker, topic, group, value_deserializer=number_of) as one,
            asyncio.timeout(120),
        ):
            while len(found) < 49:
                try:
                    found += [record.value for record in await one.poll(100)]
                except RecordDeserializationError:
                    errors += 1
            await one.poll(0)
            await until_committed(broker, topic, group, 50)
        assert errors == 1
        assert found == [number for number in range(50) if number != 7]

    run(scenario)


def test_a_commit_before_a_refused_record_covers_only_what_was_given(broker: LocalBroker) -> None:
    """The poll ends just before a marker, so the position is at no record of the turn."""

    def not_eight(value: bytes) -> bytes:
        if value == b"8":
            raise ValueError("not this one")
        return value

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        async with Producer(broker.bootstrap, transactional_id=fresh("tx")) as producer:
            for values_of_one in (range(5), range(6, 10)):
                async with producer.transaction():
                    for value in values_of_one:
                        await producer.enqueue(topic, b"%d" % value)
        settings = {"enable_auto_commit": False, "value_deserializer": not_eight}
        async with consumer_of(broker, topic, group, max_poll_records=5, **settings) as first:
            assert [record.offset for record in await first.poll(5_000)] == [*range(5)]
            await first.commit()
        assert await committed(broker, topic, group) == 6
        async with consumer_of(broker, topic, group, **settings) as second:
            assert [record.offset for record in await second.poll(5_000)] == [6, 7]
            with pytest.raises(RecordDeserializationError):
                await second.poll(5_000)
            await second.commit()
            [found] = (await second.committed()).values()
            assert found is not None
            assert found.offset == 8, "the refused record is passed with the next poll"
            assert [record.offset for record in await second.poll(5_000)] == [9]
            await second.commit()
        assert await committed(broker, topic, group) >= 10

    run(scenario)


def test_arrow_batches(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic)
        found: list[int] = []

        async def read() -> None:
            async with consumer_of(broker, topic, group) as one:
                async for rows in one.arrow_batches():
                    found.extend(map(int, rows.column("value").to_pylist()))

        tasks = [asyncio.create_task(read()) for _ in "ab"]
        await until(lambda: len(found) >= COUNT)
        assert sorted(found) == list(range(COUNT))
        await until_committed(broker, topic, group, COUNT)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    run(scenario)


def test_members_share_in_one_way(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        first = taker(broker, topic, group)
        await all_have_partitions([first])
        async with Consumer(
            topic, group_id=group, bootstrap_servers=broker.bootstrap, key_ranges=True
        ) as other:
            with pytest.raises(InconsistentGroupProtocol, match="in turns"):
                await other.poll(5_000)
        await first.stop()

    run(scenario)


def test_describe_shows_whole_partitions(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        members = [taker(broker, topic, group) for _ in "abc"]
        await all_have_partitions(members)
        async with Admin(broker.bootstrap) as admin:
            found = await admin.describe_consumer_groups([group])
        described = found[group].members
        assert [len(member.assignment) for member in described] == [1, 1, 1]
        assert not any(member.key_ranges for member in described)
        for member in members:
            await member.stop()

    run(scenario)


def test_wrong_use(broker: LocalBroker) -> None:
    with pytest.raises(ConfigError, match="group_id"):
        Consumer(cooperative=True)
    with pytest.raises(ConfigError, match="leave one of them out"):
        Consumer("t", group_id="g", cooperative=True, key_ranges=True)
    with pytest.raises(ConfigError, match="group_protocol"):
        Consumer("t", group_id="g", cooperative=True, group_protocol="classic")

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, 10)
        async with consumer_of(broker, topic, group) as one:
            assert await one.poll(5_000)
            with pytest.raises(IllegalState, match="turns"):
                one.seek(topic, 0, 0)
            with pytest.raises(IllegalState, match="turns"):
                await one.commit({(topic, 0): 5})
            async with one.by_key(workers=2) as pool:

                async def handle(_: object) -> None:
                    raise AssertionError

                with pytest.raises(IllegalState, match="key_ranges=True"):
                    await pool.run(handle)
        broker.create_topic(whole := fresh("whole"), 1)
        await write(broker, whole, 10)
        async with consumer_of(broker, whole, fresh("group")) as one:
            with pytest.raises(TopicRangeFetchNotAllowed):
                await one.poll(5_000)

    run(scenario)


@pytest.mark.kafka
def test_a_broker_without_turns(tmp_path: Any) -> None:
    async def scenario(server: str) -> None:
        consumer = Consumer("t", group_id="g", bootstrap_servers=server, cooperative=True)
        with pytest.raises(UnsupportedVersion, match="fetch in turns"):
            await consumer.start()
        await consumer.close()

    with KafkaBroker(tmp_path) as kafka:
        asyncio.run(scenario(kafka.bootstrap))
