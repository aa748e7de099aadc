"""A loop that is left releases what it has in work; what it is done with stays accepted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from sharegroup import sync
from sharegroup.client import Admin, IllegalState, Producer, Record, ShareConsumer
from sharegroup.model.ids import TopicPartition
from tests.client.working import WAIT_S, fresh, poll_until, run, topic_with
from tests.servers.running import RunningServer

COUNT = 6
BAD = 2
"""The offset whose work fails the first time."""
Seen = list[tuple[int, int]]
"""Offsets with their delivery counts."""


class WorkFailed(Exception):
    pass


def consumer_of(broker: RunningServer, topic: str, group: str, **settings: Any) -> ShareConsumer:
    return ShareConsumer(topic, group_id=group, bootstrap_servers=broker.bootstrap, **settings)


async def lag_becomes(broker: RunningServer, group: str, wanted: int) -> None:
    async with Admin(broker.bootstrap) as admin, asyncio.timeout(WAIT_S):
        while True:
            offsets = await admin.list_share_group_offsets(group)
            if sum(one.lag or 0 for one in offsets.values()) == wanted:
                return


async def one_batch(broker: RunningServer, count: int) -> tuple[str, str]:
    """A new topic whose records are in one record batch, and a group that begins at its start."""
    topic, group = await topic_with(broker.bootstrap, 0)
    async with Producer(broker.bootstrap, linger_ms=60_000, batch_size=1 << 20) as producer:
        for number in range(count):
            await producer.enqueue(topic, b"%d" % number)
        await producer.flush()
    return topic, group


def test_a_record_that_nobody_was_given_comes_next(broker: RunningServer) -> None:
    """``wait_for`` with no time left cancels the call before it has run."""

    async def scenario() -> None:
        topic, group = await one_batch(broker, COUNT)
        async with consumer_of(broker, topic, group) as consumer:
            records = aiter(consumer)
            seen = [(await anext(records)).offset]
            for _ in range(COUNT - 1):
                with contextlib.suppress(TimeoutError):
                    seen.append((await asyncio.wait_for(anext(records), 0)).offset)
                seen.append((await anext(records)).offset)
                if len(seen) == COUNT:
                    break
            assert seen == list(range(COUNT))

    run(scenario)


# --- how a loop over records is left --------------------------------------------------------------


async def raises(consumer: ShareConsumer, seen: Seen) -> None:
    with contextlib.suppress(WorkFailed):
        async for record in consumer:
            seen.append((record.offset, record.delivery_count))
            if record.offset == BAD:
                raise WorkFailed


async def breaks(consumer: ShareConsumer, seen: Seen) -> None:
    async for record in consumer:
        seen.append((record.offset, record.delivery_count))
        if record.offset == BAD:
            break


async def times_out(consumer: ShareConsumer, seen: Seen) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None) as limit:
            async for record in consumer:
                seen.append((record.offset, record.delivery_count))
                if record.offset == BAD:
                    limit.reschedule(0)
                    await asyncio.Event().wait()


async def is_cancelled(consumer: ShareConsumer, seen: Seen) -> None:
    at_work = asyncio.Event()

    async def work() -> None:
        async for record in consumer:
            seen.append((record.offset, record.delivery_count))
            if record.offset == BAD:
                at_work.set()
                await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await at_work.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


async def through_a_generator(consumer: ShareConsumer, seen: Seen) -> None:
    async def records() -> AsyncIterator[Record]:
        async for record in consumer:
            yield record

    with contextlib.suppress(WorkFailed):
        async for record in records():
            seen.append((record.offset, record.delivery_count))
            if record.offset == BAD:
                raise WorkFailed


async def and_commits(consumer: ShareConsumer, seen: Seen) -> None:
    """The commit comes after the loop: nothing is in work any more that it could accept."""
    await raises(consumer, seen)
    assert await consumer.commit() == {TopicPartition(consumer.subscription[0], 0): None}


async def and_commits_around_a_generator(consumer: ShareConsumer, seen: Seen) -> None:
    await through_a_generator(consumer, seen)
    await consumer.commit()


async def and_polls(consumer: ShareConsumer, seen: Seen) -> None:
    records = aiter(consumer)
    while True:
        record = await anext(records)
        seen.append((record.offset, record.delivery_count))
        if record.offset == BAD:
            break
    for record in await consumer.poll():
        seen.append((record.offset, record.delivery_count))
    with pytest.raises(IllegalState, match="this loop is over"):
        await anext(records)


async def and_another_begins_within(consumer: ShareConsumer, seen: Seen) -> None:
    with contextlib.suppress(IllegalState):
        async for record in consumer:
            seen.append((record.offset, record.delivery_count))
            if record.offset == BAD:
                await breaks_at_the_end(consumer, seen)
        raise AssertionError("the outer loop has ended without an error")


async def and_another_task_begins(consumer: ShareConsumer, seen: Seen) -> None:
    loop = aiter(consumer)
    while (record := await anext(loop)).offset < BAD:
        seen.append((record.offset, record.delivery_count))
    seen.append((record.offset, record.delivery_count))
    others = asyncio.create_task(breaks_at_the_end(consumer, seen))
    await others
    with pytest.raises(IllegalState, match="one loop at a time"):
        await anext(loop)


async def breaks_at_the_end(consumer: ShareConsumer, seen: Seen) -> None:
    async for record in consumer:
        seen.append((record.offset, record.delivery_count))
        if record.offset == COUNT - 1:
            await consumer.commit()
            break


WAYS: list[Callable[[ShareConsumer, Seen], Awaitable[None]]] = [
    raises,
    breaks,
    times_out,
    is_cancelled,
    through_a_generator,
    and_commits,
    and_commits_around_a_generator,
    and_polls,
    and_another_begins_within,
    and_another_task_begins,
]


def test_only_the_record_in_work_is_redelivered(broker: RunningServer) -> None:
    async def scenario(leave: Callable[[ShareConsumer, Seen], Awaitable[None]]) -> None:
        topic, group = await one_batch(broker, COUNT)
        seen: Seen = []
        async with consumer_of(broker, topic, group) as consumer, asyncio.timeout(WAIT_S):
            await leave(consumer, seen)
            async for record in consumer:
                seen.append((record.offset, record.delivery_count))
                if (BAD, 2) in seen and len(seen) == COUNT + 1:
                    await consumer.commit()
                    break
        once = [(offset, 1) for offset in range(COUNT)]
        assert sorted(seen) == sorted([*once, (BAD, 2)]), leave.__name__
        await lag_becomes(broker, group, 0)

    for leave in WAYS:
        run(lambda leave=leave: scenario(leave))  # type: ignore[misc]


def test_only_the_failing_record_of_a_loop_is_given_up(broker: RunningServer) -> None:
    """One record fails at each of its deliveries: it is given up at the limit, and it alone."""

    async def scenario() -> None:
        topic, group = await one_batch(broker, 20)
        failed, done = 0, set()
        async with consumer_of(broker, topic, group) as consumer, asyncio.timeout(WAIT_S):
            while failed < 5 or len(done) < 19:
                try:
                    async for record in consumer:
                        if record.offset == 0:
                            raise WorkFailed
                        done.add(record.offset)
                        if failed == 5 and len(done) == 19:
                            await consumer.commit()
                            break
                except WorkFailed:
                    failed += 1
        assert done == set(range(1, 20))
        assert failed == 5
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_other_consumers_get_the_records_of_an_abandoned_loop(broker: RunningServer) -> None:
    """Both the record in work and those after it, and not only when their locks end."""

    async def scenario() -> None:
        topic, group = await one_batch(broker, COUNT)
        async with Admin(broker.bootstrap) as admin:
            settings = {"share.record.lock.duration.ms": "60000"}
            await admin.alter_configs("group", group, settings)
        async with consumer_of(broker, topic, group) as leaving:
            await breaks(leaving, [])
            async with consumer_of(broker, topic, group) as other:
                records = await poll_until(other, COUNT - BAD)
                await other.commit()
        assert {record.offset for record in records} == set(range(BAD, COUNT))
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_a_timeout_of_a_waiting_loop_releases_nothing(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await one_batch(broker, 3)
        seen: Seen = []
        async with consumer_of(broker, topic, group) as consumer:
            records = aiter(consumer)
            seen += [((await anext(records)).offset, 1) for _ in range(3)]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(records), 0.01)
            del records
            await consumer.commit()
        await lag_becomes(broker, group, 0)

    run(scenario)


# --- commit ---------------------------------------------------------------------------------------


def test_a_commit_in_the_body_accepts_the_record_in_work(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await one_batch(broker, 4)
        partition = TopicPartition(topic, 0)
        async with consumer_of(broker, topic, group) as consumer:
            records = aiter(consumer)
            await asyncio.wait_for(anext(records), WAIT_S)
            assert await consumer.commit() == {partition: None}
            await lag_becomes(broker, group, 3)
            await anext(records)
            assert await asyncio.wait_for(consumer.commit(), WAIT_S) == {partition: None}
            await lag_becomes(broker, group, 2)
            await anext(records)
            consumer.commit_async()
            await lag_becomes(broker, group, 1)

    run(scenario)


def test_a_commit_by_another_task_leaves_the_record_in_work_out(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await one_batch(broker, COUNT)

        async def commit() -> None:
            await consumer.commit()

        async with consumer_of(broker, topic, group) as consumer:
            async for record in consumer:
                if record.offset == BAD:
                    await asyncio.create_task(commit())
                    await lag_becomes(broker, group, COUNT - BAD)
                    break
        await lag_becomes(broker, group, COUNT - BAD)

    run(scenario)


# --- batches --------------------------------------------------------------------------------------


def offsets_of(batch: Any) -> list[int]:
    if isinstance(batch, list):
        return [record.offset for record in batch]
    return batch["offset"].to_pylist()  # type: ignore[no-any-return]


LOOPS: dict[str, Callable[[Any], Any]] = {
    "batches": lambda consumer: consumer.batches(),
    "arrow_batches": lambda consumer: consumer.arrow_batches(max_records=4),
}


@pytest.mark.parametrize("form", LOOPS)
def test_the_batch_in_work_is_redelivered(broker: RunningServer, form: str) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0)
        async with Producer(broker.bootstrap) as producer:
            for number in range(3):  # each in a batch of its own
                await producer.send(topic, b"%d" % number)
        seen: list[int] = []
        accepted: list[int] = []
        settings = {"max_poll_records": 1, "acquire_mode": "record_limit"}
        if form == "arrow_batches":
            settings = {"acquire_mode": "record_limit"}
        async with consumer_of(broker, topic, group, **settings) as consumer:
            loop = LOOPS[form]
            async for batch in loop(consumer):
                seen += offsets_of(batch)
                break
            assert set((await consumer.commit()).values()) == {None}, "the release was sent"
            async with asyncio.timeout(WAIT_S):
                async for batch in loop(consumer):
                    accepted += offsets_of(batch)
                    if set(accepted) == {0, 1, 2}:
                        await consumer.commit()
                        break
        assert set(seen) <= set(accepted)
        await lag_becomes(broker, group, 0)

    run(scenario)


# --- explicit mode --------------------------------------------------------------------------------


def test_in_explicit_mode_an_abandoned_loop_does_not_block_the_next(broker: RunningServer) -> None:
    """What it left undecided waits for an answer until records are asked for again."""

    async def scenario() -> None:
        topic, group = await one_batch(broker, COUNT)
        answered: Seen = []
        async with (
            consumer_of(broker, topic, group, acknowledgement_mode="explicit") as consumer,
            asyncio.timeout(WAIT_S),
        ):
            while len(answered) < COUNT:
                try:
                    async for record in consumer:
                        late = record
                        if record.delivery_count == 1 and record.offset in (1, BAD):
                            raise WorkFailed
                        consumer.accept(record)
                        answered.append((record.offset, record.delivery_count))
                        if len(answered) == COUNT:
                            break
                except WorkFailed:
                    if late.offset == 1:
                        consumer.accept(late)
                        answered.append((late.offset, late.delivery_count))
            await consumer.commit()
        assert sorted(answered) == [(n, 2 if n == BAD else 1) for n in range(COUNT)]
        await lag_becomes(broker, group, 0)

    run(scenario)


# --- without asyncio ------------------------------------------------------------------------------


def in_the_body(consumer: sync.ShareConsumer, error: type[BaseException], seen: Seen) -> None:
    for record in consumer:
        seen.append((record.offset, record.delivery_count))
        if record.offset == BAD:
            raise error


def in_a_generator(consumer: sync.ShareConsumer, error: type[BaseException], seen: Seen) -> None:
    def records() -> Iterator[Record]:
        yield from consumer

    for record in records():
        seen.append((record.offset, record.delivery_count))
        if record.offset == BAD:
            raise error


@pytest.mark.parametrize("error", [WorkFailed, KeyboardInterrupt])
@pytest.mark.parametrize("way", [in_the_body, in_a_generator])
def test_the_blocking_loop_releases_the_record_in_work(
    broker: RunningServer,
    way: Callable[[sync.ShareConsumer, type[BaseException], Seen], None],
    error: type[BaseException],
) -> None:
    topic, group = asyncio.run(one_batch(broker, COUNT))
    seen: Seen = []
    with sync.ShareConsumer(topic, group_id=group, bootstrap_servers=broker.bootstrap) as consumer:
        with pytest.raises(error):
            way(consumer, error, seen)
        consumer.commit()
        for record in consumer:
            seen.append((record.offset, record.delivery_count))
            if len(seen) == COUNT + 1:
                consumer.commit()
                break
    once = [(offset, 1) for offset in range(COUNT)]
    assert sorted(seen) == sorted([*once, (BAD, 2)])
    asyncio.run(lag_becomes(broker, group, 0))


def test_the_blocking_loops_end_when_another_begins(broker: RunningServer) -> None:
    topic, group = asyncio.run(one_batch(broker, COUNT))
    with sync.ShareConsumer(topic, group_id=group, bootstrap_servers=broker.bootstrap) as consumer:
        first, batches = iter(consumer), consumer.batches()
        assert next(first).offset == 0
        assert [record.offset for record in next(batches)] == list(range(1, COUNT))
        with pytest.raises(IllegalState, match="this loop is over"):
            next(first)
        batches.close()
        assert list(batches) == []
        again = []
        while len(again) < COUNT:
            again += [(one.offset, one.delivery_count) for one in consumer.poll()]
    assert sorted(again) == [(offset, 2) for offset in range(COUNT)]


def test_other_consumers_get_the_records_of_an_abandoned_blocking_loop(
    broker: RunningServer,
) -> None:
    topic, group = asyncio.run(one_batch(broker, COUNT))
    settings: dict[str, Any] = {"group_id": group, "bootstrap_servers": broker.bootstrap}
    with sync.ShareConsumer(topic, **settings) as consumer, contextlib.ExitStack() as stack:
        with pytest.raises(WorkFailed):
            in_the_body(consumer, WorkFailed, [])
        other = stack.enter_context(sync.ShareConsumer(topic, **settings))
        got: set[int] = set()
        while len(got) < COUNT - BAD:
            got |= {record.offset for record in other.poll()}
    assert got == set(range(BAD, COUNT))


def test_a_loop_of_a_closed_consumer_has_no_records() -> None:
    async def scenario() -> None:
        consumer = ShareConsumer(fresh("topic"), group_id="g")
        await consumer.close()
        assert [record async for record in consumer] == []
        assert [batch async for batch in consumer.batches()] == []

    asyncio.run(scenario())
