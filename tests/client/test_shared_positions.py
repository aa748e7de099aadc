"""Positions that jump, in a partition that members of a consumer group share by key (KIP-X)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from sharegroup import Admin, Consumer, Producer
from sharegroup.client import ConsumerRecord
from sharegroup.client.errors import RecordDeserializationError
from sharegroup.model.ids import TopicPartition
from sharegroup.testing import LocalBroker
from tests.client.key_sharing import (
    Member,
    broker_that_assigns_at_once,
    committed,
    is_shared_out,
    shared_topic,
    values,
    write,
)
from tests.client.working import eventually, fresh, run, until

COUNT = 100


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with broker_that_assigns_at_once() as broker:
        yield broker


def consumer_of(broker: LocalBroker, group: str, *topics: str, **settings: Any) -> Consumer:
    """A member that commits nothing by itself."""
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    return Consumer(
        *topics,
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        key_ranges=True,
        fetch_max_wait_ms=50,
        **defaults | settings,
    )


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while len(found) < count:
        found += await consumer.poll()
    return found


@pytest.mark.parametrize("policy", ["earliest", "by_duration:PT1H"])
def test_what_is_committed_does_not_come_again_where_the_log_has_lost_what_is_before_it(
    broker: LocalBroker, policy: str
) -> None:
    """The log's start passes the group's committed offset; ranges behind both are committed."""

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, COUNT)
        async with consumer_of(broker, group, topic) as first:
            records = await read(first, COUNT)
            await first.commit([*records[50:55], *records[70:80]])
        async with Admin(broker.bootstrap) as admin:
            await admin.delete_records({TopicPartition(topic, 0): 60})
        members = [Member(broker, topic, group, auto_offset_reset=policy) for _ in range(3)]
        await until(lambda: set(values(members)) >= {*range(60, 70), *range(80, COUNT)})
        for member in members:
            await member.stop()
        assert sorted(set(values(members))) == [*range(60, 70), *range(80, COUNT)]
        if policy == "earliest":
            assert await committed(broker, topic, group) == COUNT

    run(scenario)


# --- seek -----------------------------------------------------------------------------------------

REFUSED = (7, 20, 21, 57, COUNT - 1)


def not_refused(value: bytes) -> bytes:
    if int(value) in REFUSED:
        raise ValueError("not this one")
    return value


class Skipper(Member):
    """A member that seeks past each record that its deserializer refuses, as Kafka's documentation
    says. It commits when it leaves, unless a setting says more."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.skipped: list[int] = []
        rarely = {"auto_commit_interval_ms": 3_600_000}
        super().__init__(*args, **rarely | settings, value_deserializer=not_refused)

    async def _run(self) -> None:
        async with self.consumer:
            self.started.set()
            while True:
                try:
                    async for record in self.consumer:
                        self.read.append(record)
                except RecordDeserializationError as refusal:
                    self.skipped.append(refusal.offset)
                    self.consumer.seek(*refusal.partition, refusal.offset + 1)
                else:
                    return


@pytest.mark.parametrize("count", [1, 3])
def test_records_that_members_seek_past_do_not_hold_up_the_committed_offset(
    broker: LocalBroker, count: int
) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        members = [Skipper(broker, topic, group) for _ in range(count)]
        await until(lambda: is_shared_out(members, 1) and all(one.parts for one in members))
        await write(broker, topic, COUNT)
        good = set(range(COUNT)) - set(REFUSED)
        await until(lambda: set(values(members)) == good)
        await until(lambda: {at for one in members for at in one.skipped} == set(REFUSED))
        assert sorted(values(members)) == sorted(good), "each record once"
        for member in members:
            await member.stop()
        assert await committed(broker, topic, group) == COUNT

    run(scenario)


def test_automatic_commits_pass_what_was_sought_past(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, COUNT)
        member = Skipper(broker, topic, group, auto_commit_interval_ms=50)

        async def at() -> int:
            return await committed(broker, topic, group)

        assert await eventually(at, lambda offset: offset == COUNT) == COUNT
        await member.stop()

    run(scenario)


def test_an_aborted_record_before_a_refused_one_does_not_hold_up_the_committed_offset(
    broker: LocalBroker,
) -> None:
    """One fetch has both, because the aborted transaction ends last."""

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        often = {"auto_commit_interval_ms": 50, "isolation_level": "read_committed"}
        members = [Skipper(broker, topic, group, **often) for _ in range(2)]
        await until(lambda: is_shared_out(members, 1) and all(one.parts for one in members))
        async with (
            Producer(broker.bootstrap, transactional_id=fresh("tx")) as aborting,
            Producer(broker.bootstrap, transactional_id=fresh("tx")) as committing,
        ):
            with suppress(OSError):
                async with aborting.transaction():
                    await aborting.send(topic, b"0", key=b"same")
                    async with committing.transaction():
                        for value in (b"1", b"%d" % REFUSED[0], b"2"):
                            await committing.send(topic, value, key=b"same")
                    raise OSError("aborts it")

        async def at() -> int:
            return await committed(broker, topic, group)

        async with asyncio.timeout(20):
            await eventually(at, lambda offset: offset == 6)  # behind the two markers
        assert values(members) == [1, 2]
        assert [at for one in members for at in one.skipped] == [2]
        for member in members:
            await member.stop()

    run(scenario)


@pytest.mark.parametrize(
    ("target", "ranges"),
    [
        (4, ()),  # what comes again is not done
        (10, ()),
        (60, ((60, COUNT - 1),)),  # nobody has handled what lies between
    ],
)
def test_a_commit_covers_what_was_read_before_a_seek_and_does_not_come_again(
    broker: LocalBroker, target: int, ranges: Any
) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        where = TopicPartition(topic, 0)
        await write(broker, topic, COUNT)
        async with consumer_of(broker, group, topic, max_poll_records=10) as consumer:
            assert len(await consumer.poll(5_000)) == 10
            consumer.seek(topic, 0, target)
            await consumer.commit()
            assert (await consumer.committed())[where] == (min(target, 10), -1, "", ())
            assert [one.offset for one in await read(consumer, COUNT - target)] == [
                *range(target, COUNT)
            ]
            await consumer.commit()
            at = COUNT if target <= 10 else 10
            assert (await consumer.committed())[where] == (at, -1, "", ranges)

    run(scenario)


@pytest.mark.parametrize("how", ["poll", "loop"])
def test_a_seek_makes_no_record_in_work_done(broker: LocalBroker, how: str) -> None:
    """Only the next poll says that. Here the application fails before it."""

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, COUNT)
        consumer = consumer_of(broker, group, topic, enable_auto_commit=True, max_poll_records=5)

        async def fail() -> None:
            async with consumer:
                assert len(await consumer.poll(5_000)) == 5
                if how == "poll":
                    assert len(await consumer.poll(5_000)) == 5
                else:
                    await anext(aiter(consumer))
                consumer.seek(topic, 0, 50)
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        assert await committed(broker, topic, group) == 5

    run(scenario)


def test_a_way_forward_leaves_out_what_is_committed_and_a_way_back_does_not(
    broker: LocalBroker,
) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, COUNT)
        async with consumer_of(broker, group, topic) as first:
            await first.commit((await read(first, COUNT))[50:60])
        async with consumer_of(broker, group, topic, max_poll_records=10) as second:
            await second.poll(5_000)
            second.seek(topic, 0, 45)
            ahead = [one.offset for one in await read(second, COUNT - 55)]
            assert ahead == [*range(45, 50), *range(60, COUNT)]
            second.seek(topic, 0, 45)
            again = [one.offset for one in await read(second, COUNT - 45)]
            assert again == list(range(45, COUNT))

    run(scenario)


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("how", ["offset", "end"])
def test_a_group_that_has_committed_nothing_begins_where_a_member_seeks(
    broker: LocalBroker, how: str, reads: bool
) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        where = TopicPartition(topic, 0)
        await write(broker, topic, COUNT)
        consumer = consumer_of(broker, group, auto_offset_reset="none")
        sought = asyncio.Event()

        def seek(_: object) -> None:
            if how == "offset":
                consumer.seek(topic, 0, 30)
            else:
                consumer.seek_to_end()
            consumer.pause(where)  # so that the poll below returns no records
            sought.set()

        consumer.subscribe(topic, on_assigned=seek)
        async with consumer:
            while not sought.is_set():
                await consumer.poll(50)
            at = await consumer.position(topic, 0)
            if reads:
                await write(broker, topic, 10)
                consumer.resume(where)
                await read(consumer, COUNT + 10 - at)
                at = COUNT + 10
            await consumer.commit()
            assert (await consumer.committed())[where] == (at, -1, "", ())

    run(scenario)


def test_what_was_read_first_counts_where_a_member_seeks_twice(broker: LocalBroker) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        where = TopicPartition(topic, 0)
        await write(broker, topic, COUNT)
        consumer = consumer_of(broker, group, max_poll_records=5)
        consumer.subscribe(topic, on_assigned=lambda _: consumer.seek(topic, 0, 30))
        async with consumer:
            await read(consumer, 5)
            consumer.seek(topic, 0, 60)
            await read(consumer, 5)
            await consumer.commit()
            assert (await consumer.committed())[where] == (35, -1, "", ((60, 64),))

    run(scenario)


@pytest.mark.parametrize("reads", [False, True])
def test_the_beginning_and_the_end(broker: LocalBroker, reads: bool) -> None:
    """They are looked up. Meanwhile the application may commit."""

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, COUNT)
        async with consumer_of(broker, group, topic, value_deserializer=not_refused) as consumer:
            await read(consumer, 7)
            with pytest.raises(RecordDeserializationError):
                await consumer.poll()
            consumer.seek_to_beginning()
            await consumer.position(topic, 0)
            await consumer.commit()
            assert await committed(broker, topic, group) == 0, "all comes again"
            if reads:
                await read(consumer, 7)
                with pytest.raises(RecordDeserializationError):
                    await consumer.poll()
            consumer.seek_to_end()
            await consumer.position(topic, 0)
            await consumer.commit()
            assert await committed(broker, topic, group) == (8 if reads else 0)

    run(scenario)


def test_a_refused_record_that_the_group_is_done_with_is_not_told_again(
    broker: LocalBroker,
) -> None:
    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, 20)
        settings = {"value_deserializer": not_refused, "max_poll_records": 1}
        async with consumer_of(broker, group, topic, **settings) as first:
            await read(first, 1)
            first.seek(topic, 0, 5)
            await read(first, 2)
            with pytest.raises(RecordDeserializationError):
                await first.poll()
            first.seek(topic, 0, 8)
            await read(first, 12)
            await first.commit()
            [found] = (await first.committed()).values()
            assert (found.offset, found.ranges) == (1, ((5, 19),))
        async with consumer_of(broker, group, topic, **settings) as second:
            assert [one.offset for one in await read(second, 4)] == [*range(1, 5)]
            assert not await second.poll(500)
            await second.commit()
        assert await committed(broker, topic, group) == 20

    run(scenario)
