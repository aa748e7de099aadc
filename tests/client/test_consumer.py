"""The consumer against real brokers, by both group protocols."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from sharegroup import Admin, Consumer, Producer, TopicPartition
from sharegroup.client.errors import IllegalState, NoOffsetForPartition, Wakeup
from sharegroup.model.errors import FencedInstanceId, RebalanceInProgress, UnreleasedInstanceId
from tests.client.working import eventually, fresh, run
from tests.servers.running import RunningServer

Protocol = Literal["consumer", "classic"]
both = pytest.mark.parametrize("protocol", ["consumer", "classic"])


async def filled(
    broker: RunningServer, *, partitions: int = 2, each: int = 5, name: str | None = None
) -> str:
    """A new topic with records "0", "1", … in each partition."""
    topic = name or fresh("read")
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topics(topic, partitions=partitions)
    await fill(broker, topic, partitions=partitions, each=each)
    return topic


async def fill(broker: RunningServer, topic: str, *, partitions: int, each: int) -> None:
    async with Producer(broker.bootstrap) as producer:
        for number in range(each):
            for partition in range(partitions):
                await producer.enqueue(topic, str(number), partition=partition)
        await producer.flush()


def consumer(
    broker: RunningServer, *topics: str, protocol: Protocol = "consumer", **settings: Any
) -> Consumer:
    defaults: dict[str, Any] = {"group_id": fresh("group"), "auto_offset_reset": "earliest"}
    return Consumer(
        *topics, bootstrap_servers=broker.bootstrap, group_protocol=protocol, **defaults | settings
    )


async def read(one: Consumer, count: int) -> list[tuple[int, int]]:
    """(partition, offset) of the next records."""
    found: list[tuple[int, int]] = []
    while len(found) < count:
        found += [(record.partition, record.offset) for record in await one.poll()]
    return found


def places(partitions: int, offsets: Sequence[int]) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(partitions) for offset in offsets]


@both
def test_a_group_goes_on_where_it_stopped(group_broker: RunningServer, protocol: Protocol) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("group")
        async with consumer(group_broker, topic, group_id=group, protocol=protocol) as one:
            assert sorted(await read(one, 10)) == places(2, range(5))
            assert one.group_protocol == protocol
            assert one.assignment == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
            assert await one.position(topic, 0) == 5
        await fill(group_broker, topic, partitions=2, each=1)
        async with consumer(group_broker, topic, group_id=group, protocol=protocol) as two:
            committed = await two.committed((topic, 0), (topic, 1))
            assert [one and one.offset for one in committed.values()] == [5, 5]
            assert sorted(await read(two, 2)) == places(2, [5])

    run(scenario)


@both
def test_the_record_in_work_is_not_done(group_broker: RunningServer, protocol: Protocol) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker, partitions=1), fresh("group")

        async def fail_at(offset: int) -> None:
            async with consumer(group_broker, topic, group_id=group, protocol=protocol) as one:
                async for record in one:
                    if record.offset == offset:
                        raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail_at(3)
        async with consumer(group_broker, topic, group_id=group, protocol=protocol) as two:
            assert await read(two, 2) == [(0, 3), (0, 4)]

    run(scenario)


def test_commit_in_a_loop_includes_the_record_in_work(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1)
        async with consumer(group_broker, topic, enable_auto_commit=False) as one:
            async for record in one:
                if record.offset == 2:
                    await one.commit()
                    break
            [committed] = (await one.committed()).values()
            assert committed is not None
            assert committed.offset == 3
            assert await read(one, 2) == [(0, 3), (0, 4)]  # what the loop had not given out
            await one.commit({TopicPartition(topic, 0): 1})
            [committed] = (await one.committed()).values()
            assert committed is not None
            assert committed.offset == 1

    run(scenario)


@pytest.mark.parametrize("form", ["loop", "poll"])
def test_an_automatic_commit_does_not_undo_one_of_the_application(
    group_broker: RunningServer, form: str
) -> None:
    """The close behind an exception commits what is done, as the timer does."""

    async def scenario() -> None:
        topic, group = await filled(group_broker, partitions=1), fresh("group")

        async def fail_behind_a_commit(one: Consumer) -> None:
            async with one:
                if form == "poll":
                    await read(one, 5)
                    await one.commit()
                    raise ZeroDivisionError
                async for record in one:
                    if record.offset == 2:
                        await one.commit()
                        raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail_behind_a_commit(consumer(group_broker, topic, group_id=group))
        async with consumer(group_broker, topic, group_id=group) as two:
            [committed] = (await two.committed((topic, 0))).values()
            assert committed is not None
            assert committed.offset == (3 if form == "loop" else 5)

    run(scenario)


@pytest.mark.parametrize(
    ("protocol", "strategies"),
    [
        ("consumer", ["range"]),
        ("classic", ["range"]),
        ("classic", ["roundrobin", "range"]),
        ("classic", ["sticky"]),
        ("classic", ["cooperative-sticky"]),
    ],
)
def test_a_second_member_gets_its_part_and_gives_it_back(
    group_broker: RunningServer, protocol: Protocol, strategies: list[str]
) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker, partitions=4, each=3), fresh("group")
        settings: dict[str, Any] = {
            "group_id": group,
            "protocol": protocol,
            "partition_assignment_strategy": strategies,
            "heartbeat_interval_ms": 200,
        }
        held: dict[str, set[TopicPartition]] = {"one": set(), "two": set()}

        def note(name: str) -> dict[str, Any]:
            def gained(wheres: list[TopicPartition]) -> None:
                assert not held["one" if name == "two" else "two"] & set(wheres)
                held[name] |= set(wheres)

            async def gone(wheres: list[TopicPartition]) -> None:
                await asyncio.sleep(0)
                held[name] -= set(wheres)

            return {"on_assigned": gained, "on_revoked": gone}

        one = consumer(group_broker, **settings)
        one.subscribe(topic, **note("one"))
        async with one:
            assert sorted(await read(one, 12)) == places(4, range(3))
            two = consumer(group_broker, **settings)
            two.subscribe(topic, **note("two"))
            async with two:
                while len(held["one"]) != 2 or len(held["two"]) != 2:
                    assert not await one.poll(50)
                    assert not await two.poll(50)  # the first had committed what it gave up
                assert set(one.assignment) == held["one"]
                await fill(group_broker, topic, partitions=4, each=1)
                assert len(await read(one, 2) + await read(two, 2)) == 4
            assert not held["two"]
            while len(held["one"]) != 4:
                assert not await one.poll(50)
        assert not held["one"]

    run(scenario)


@both
def test_a_pattern_follows_the_topics(group_broker: RunningServer, protocol: Protocol) -> None:
    async def scenario() -> None:
        word = fresh("pattern")
        await filled(group_broker, partitions=1, each=1, name=f"{word}-a")
        one = consumer(group_broker, protocol=protocol, metadata_max_age_ms=300)
        one.subscribe(pattern=f"{word}-.*" if protocol == "classic" else re.compile(f"{word}-.*"))
        async with one:
            assert await read(one, 1) == [(0, 0)]
            await filled(group_broker, partitions=1, each=1, name=f"{word}-b")
            assert await read(one, 1) == [(0, 0)]
            assert [where.topic for where in one.assignment] == [f"{word}-a", f"{word}-b"]

    run(scenario)


def test_the_broker_applies_an_expression_of_re2(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        word = fresh("pattern")
        await filled(group_broker, partitions=1, each=1, name=f"{word}-a")
        one = consumer(group_broker)
        one.subscribe(pattern=f"{word}-.*")
        async with one:
            assert await read(one, 1) == [(0, 0)]

    run(scenario)


@both
def test_new_partitions_are_found(group_broker: RunningServer, protocol: Protocol) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1, each=1)
        async with consumer(
            group_broker,
            topic,
            protocol=protocol,
            metadata_max_age_ms=200,
            heartbeat_interval_ms=200,
        ) as one:
            assert await read(one, 1) == [(0, 0)]
            async with Admin(group_broker.bootstrap) as admin:
                await admin.create_partitions(topic, 2)
                # Apache Kafka answers before its brokers know.
                while len((await admin.describe_topics(topic))[topic].partitions) < 2:
                    continue
            async with Producer(group_broker.bootstrap, request_timeout_ms=5_000) as producer:
                await producer.send(topic, "new", partition=1)
            assert await read(one, 1) == [(1, 0)]

    run(scenario)


def test_chosen_partitions_need_no_group(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, each=3)
        async with consumer(group_broker, group_id=None, max_poll_records=2) as one:
            with pytest.raises(IllegalState, match="nothing to read"):
                await one.poll()
            one.assign([(topic, 1)])
            assert await read(one, 3) == [(1, 0), (1, 1), (1, 2)]
            one.seek(topic, 1, 2)
            assert await read(one, 1) == [(1, 2)]
            one.seek_to_beginning()
            assert await one.position(topic, 1) == 0
            one.seek_to_end()
            assert await one.position(topic, 1) == 3
            one.pause((topic, 1))
            one.seek(topic, 1, 0)
            assert not await one.poll(50)
            assert one.paused == one.assignment
            one.resume((topic, 1))
            assert await read(one, 1) == [(1, 0), (1, 1)]
            assert await one.end_offsets((topic, 0)) == {TopicPartition(topic, 0): 3}
            assert await one.beginning_offsets((topic, 0)) == {TopicPartition(topic, 0): 0}
            [first] = (await one.offsets_for_times({TopicPartition(topic, 0): 1})).values()
            assert first is not None
            assert first.offset == 0
            [none] = (await one.offsets_for_times({TopicPartition(topic, 0): 2**50})).values()
            assert none is None
            with pytest.raises(IllegalState, match="group_id"):
                await one.commit()

    run(scenario)


def test_without_a_reset_policy_a_partition_needs_an_offset(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1)
        async with consumer(group_broker, topic, auto_offset_reset="none") as one:
            with pytest.raises(NoOffsetForPartition) as raised:
                await read(one, 1)
            one.seek(*raised.value.partitions[0], 4)
            assert await read(one, 1) == [(0, 4)]

    run(scenario)


def test_an_offset_out_of_range_is_reset(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1)
        async with consumer(group_broker, group_id=None) as one:
            one.assign([(topic, 0)])
            one.seek(topic, 0, 1_000)
            assert (await read(one, 5))[0] == (0, 0)

    run(scenario)


def test_wakeup_and_cancellation_lose_nothing(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1)
        async with consumer(group_broker, topic) as one:
            one.wakeup()
            with pytest.raises(Wakeup):
                await one.poll()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await one.poll()
            assert await read(one, 5) == places(1, range(5))

    run(scenario)


@both
def test_a_static_member_keeps_its_partitions(
    group_broker: RunningServer, protocol: Protocol
) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker, partitions=1), fresh("group")
        settings: dict[str, Any] = {"group_id": group, "protocol": protocol}
        async with consumer(group_broker, topic, group_instance_id="a", **settings) as one:
            await read(one, 5)
            before = one.group_metadata()
            assert before.group_instance_id == "a"
        await fill(group_broker, topic, partitions=1, each=1)
        async with consumer(group_broker, topic, group_instance_id="a", **settings) as again:
            assert await read(again, 1) == [(0, 5)]
            if protocol == "classic":
                assert again.group_metadata().generation_id == before.generation_id
                async with consumer(group_broker, topic, group_instance_id="a", **settings):
                    with pytest.raises(FencedInstanceId):
                        await read(again, 1)
            else:
                other = consumer(group_broker, topic, group_instance_id="a", **settings)
                with pytest.raises(UnreleasedInstanceId):
                    await read(other, 1)
                await other.close()

    run(scenario)


@both
def test_a_member_that_does_not_poll_loses_its_partitions(
    group_broker: RunningServer, protocol: Protocol
) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1)
        lost: list[TopicPartition] = []
        one = consumer(
            group_broker, protocol=protocol, max_poll_interval_ms=300, enable_auto_commit=False
        )
        one.subscribe(topic, on_lost=lost.extend)
        async with one:
            await read(one, 5)
            await eventually(one.committed, lambda _: one.group_metadata().generation_id < 0)
            with pytest.raises(RebalanceInProgress):
                await one.commit()
            assert await read(one, 5) == places(1, range(5))
            # On a slow machine the second membership may run out as well, before its first poll.
            assert set(lost) == {TopicPartition(topic, 0)}

    run(scenario)


def test_arrow_batches_go_on_where_they_stopped(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker, each=4), fresh("group")
        async with consumer(group_broker, topic, group_id=group) as one:
            rows: list[Any] = []
            while len(rows) < 8:
                async for batch in one.arrow_batches(max_records=3, idle_timeout_ms=500):
                    assert batch.num_rows <= 3
                    rows += batch.select(["partition", "offset", "value"]).to_pylist()
            assert sorted((row["partition"], row["offset"]) for row in rows) == places(2, range(4))
            assert {row["value"] for row in rows} == {b"0", b"1", b"2", b"3"}
            with pytest.raises(IllegalState, match="gives Arrow batches"):
                await one.poll()
        async with consumer(group_broker, topic, group_id=group) as two:
            committed = await two.committed((topic, 0), (topic, 1))
            assert [at and at.offset for at in committed.values()] == [4, 4]

    run(scenario)
