"""A pool that handles many keys at once, against real brokers."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from sharegroup import Admin, Consumer, Producer, sync
from sharegroup.client import Backoff, ConsumerRecord, KeyRange, Reject
from sharegroup.client.errors import HandlerFailed, IllegalState
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicPartition
from sharegroup.model.limits import POOL_RECORDS_MAX
from tests.client.working import eventually, fresh, run
from tests.servers.running import RunningServer

COUNT, KEYS = 400, 17


async def filled(broker: RunningServer, *, partitions: int = 2, count: int = COUNT) -> str:
    """A new topic with the values 0, 1, …, whose key is the value modulo ``KEYS``."""
    topic = fresh("keys")
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topics(topic, partitions=partitions)
    async with Producer(broker.bootstrap) as producer:
        for number in range(count):
            await producer.enqueue(topic, str(number), key=str(number % KEYS))
        await producer.flush()
    return topic


def consumer(broker: RunningServer, topic: str, group: str, **settings: Any) -> Consumer:
    return Consumer(
        topic,
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        **settings,
    )


async def committed(broker: RunningServer, topic: str, group: str) -> int:
    """The sum of the committed offsets of both partitions."""
    async with consumer(broker, topic, group) as one:
        found = await one.committed((topic, 0), (topic, 1))
    return sum(0 if at is None else at.offset for at in found.values())


class Witness:
    """Handles records with random failures, and notes what it sees."""

    def __init__(self, *, failures: float = 0.0, count: int = COUNT) -> None:
        self.draws = random.Random(13)
        self.failures = failures
        self.count = count
        self.done: list[int] = []
        self.busy: set[bytes | None] = set()
        self.most = 0

    async def handle(self, record: ConsumerRecord) -> None:
        assert record.key not in self.busy, "two records of a key at once"
        self.busy.add(record.key)
        self.most = max(self.most, len(self.busy))
        try:
            await asyncio.sleep(self.draws.random() * 0.002)
            if self.draws.random() < self.failures:
                raise OSError("by chance")
            self.done.append(int(record.value or b""))
        finally:
            self.busy.remove(record.key)

    def check_order(self) -> None:
        """The first completions of each key are in the log's order, and none is missing."""
        first = list(dict.fromkeys(self.done))
        assert sorted(first) == list(range(self.count))
        by_key = defaultdict(list)
        for number in first:
            by_key[number % KEYS].append(number)
        assert all(mine == sorted(mine) for mine in by_key.values())


def test_partitions_get_their_turn(group_broker: RunningServer) -> None:
    """A key that comes often is in one partition: it bounds the others if they wait for theirs."""

    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("group")
        async with (
            consumer(group_broker, topic, group, max_poll_records=20) as one,
            one.by_key(workers=5) as pool,
        ):
            seen: list[int] = []

            async def handle(record: ConsumerRecord) -> None:
                seen.append(record.partition)
                if len(seen) == COUNT:
                    pool.stop()

            await pool.run(handle)
        assert sum(a != b for a, b in pairwise(seen)) > COUNT // 20 // 2

    run(scenario)


def test_keys_run_at_once_and_each_in_order(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("group")
        witness = Witness(failures=0.1)
        retry = Backoff(first_s=0.001, max_s=0.01, attempts=100)
        async with (
            consumer(group_broker, topic, group) as one,
            one.by_key(workers=8, retry=retry) as pool,
        ):

            async def handle(record: ConsumerRecord) -> None:
                await witness.handle(record)
                if len(witness.done) == COUNT:
                    pool.stop()

            await pool.run(handle)
        assert len(witness.done) == COUNT
        witness.check_order()
        assert 4 < witness.most <= 8
        assert await committed(group_broker, topic, group) == COUNT

    run(scenario)


def test_a_failure_ends_the_run_and_nothing_behind_it_is_committed(
    group_broker: RunningServer,
) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker, partitions=1), fresh("group")
        done: list[int] = []

        async def handle(record: ConsumerRecord) -> None:
            if record.offset == 40:
                raise Reject("hopeless")
            done.append(record.offset)

        async with consumer(group_broker, topic, group) as one:
            with pytest.raises(HandlerFailed, match=f"offset 40 of {topic}-0 failed") as caught:
                async with one.by_key(workers=4) as pool:
                    await pool.run(handle)
            assert (caught.value.partition, caught.value.offset) == (TopicPartition(topic, 0), 40)
            assert set(done) >= set(range(40 - KEYS, 40)) - {40}
            found = await one.committed((topic, 0))
            at = found[TopicPartition(topic, 0)]
            assert at is not None
            assert at.offset <= 40
            assert await one.position(topic, 0) == at.offset  # the consumer goes on there
            assert (await one.poll(10_000))[0].offset == at.offset

    run(scenario)


def test_what_is_given_up_goes_to_the_application(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("group")
        seen: list[int] = []
        given_up: list[tuple[int, str]] = []

        async def handle(record: ConsumerRecord) -> None:
            number = int(record.value or b"")
            if number % 100 == 7:
                raise ValueError(str(number))
            seen.append(number)
            if len(seen) == COUNT - 4:
                pool.stop()

        async def on_failure(record: ConsumerRecord, error: Exception) -> None:
            given_up.append((int(record.value or b""), str(error)))

        async with (
            consumer(group_broker, topic, group, enable_auto_commit=False) as one,
            one.by_key(
                workers=5, retry=Backoff(first_s=0.001, attempts=2), on_failure=on_failure
            ) as pool,
        ):
            await pool.run(handle)
        assert sorted(given_up) == [(n, str(n)) for n in (7, 107, 207, 307)]
        assert await committed(group_broker, topic, group) == COUNT

    run(scenario)


def test_a_handler_that_awaits_what_was_cancelled(group_broker: RunningServer) -> None:
    """It has failed, as after any other exception. Nobody has cancelled the pool."""

    async def scenario() -> None:
        topic, group = await filled(group_broker, partitions=1, count=20), fresh("group")
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        tried: list[int] = []
        given_up: list[str] = []

        async def handle(record: ConsumerRecord) -> None:
            tried.append(record.offset)
            if record.offset == 3:
                await cancelled

        async def on_failure(record: ConsumerRecord, error: Exception) -> None:
            given_up.append(str(error))
            await cancelled

        async with consumer(group_broker, topic, group) as one:
            with pytest.raises(HandlerFailed, match="on_failure cancelled itself"):
                async with one.by_key(
                    workers=1, retry=Backoff(first_s=0.001, attempts=2), on_failure=on_failure
                ) as pool:
                    await pool.run(handle)
        assert tried.count(3) == 2
        assert given_up == ["the handler cancelled itself"]

    run(scenario)


def test_no_more_is_taken_than_there_is_room_for(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("group")
        gate = asyncio.Event()
        witness = Witness()

        async def handle(record: ConsumerRecord) -> None:
            await gate.wait()
            await witness.handle(record)
            assert pool.in_flight <= 12
            if len(witness.done) == COUNT:
                pool.stop()

        async with (
            consumer(group_broker, topic, group) as one,
            one.by_key(workers=3, max_in_flight=12) as pool,
        ):

            async def full() -> bool:
                await asyncio.sleep(0)
                return pool.in_flight == 12

            task = asyncio.create_task(pool.run(handle))
            await eventually(full, bool)
            gate.set()
            await task
        witness.check_order()

    run(scenario)


def test_keys_that_are_not_hashable_end_the_run(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("group")

        async def handle(record: ConsumerRecord) -> None:
            raise AssertionError(f"{record} has no lane")

        async with consumer(group_broker, topic, group, key_deserializer=list) as one:
            with pytest.raises(TypeError, match="unhashable"):
                async with one.by_key(workers=4, max_in_flight=2 * COUNT) as pool:
                    await pool.run(handle)
        assert await committed(group_broker, topic, group) == 0

    run(scenario)


def test_what_does_not_end_in_time_is_not_committed(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker, partitions=1), fresh("group")
        cancelled: list[int] = []

        async def handle(record: ConsumerRecord) -> None:
            if record.offset == 21:
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.append(record.offset)
            if record.offset == 60:
                pool.stop()

        async with consumer(group_broker, topic, group) as one:
            async with one.by_key(workers=4, drain_s=0.05) as pool:
                await pool.run(handle)
            assert cancelled == [21]
            found = await one.committed((topic, 0))
            assert [at.offset for at in found.values() if at is not None] == [21]

    run(scenario)


def test_two_pools_share_the_partitions(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("group")
        witness = Witness()
        pools = []
        joined = asyncio.Event()

        async def handle(record: ConsumerRecord) -> None:
            if len(witness.done) >= COUNT // 4:
                await joined.wait()  # the second one takes a partition while records run
            await witness.handle(record)
            if len(set(witness.done)) == COUNT:
                for pool in pools:
                    pool.stop()

        async def work(one: Consumer) -> None:
            async with one, one.by_key(workers=4, drain_s=0.2) as pool:
                pools.append(pool)
                await pool.run(handle)

        first, second = (consumer(group_broker, topic, group) for _ in range(2))

        async def assigned() -> tuple[int, int]:
            await asyncio.sleep(0)
            return len(first.assignment), len(second.assignment)

        async def quarter() -> int:
            await asyncio.sleep(0)
            return len(witness.done)

        tasks = [asyncio.create_task(work(first))]
        await eventually(quarter, lambda count: count >= COUNT // 4)
        tasks.append(asyncio.create_task(work(second)))
        await eventually(assigned, lambda found: found == (1, 1))
        joined.set()
        await asyncio.gather(*tasks)
        assert set(witness.done) == set(range(COUNT))
        assert await committed(group_broker, topic, group) == COUNT

    run(scenario)


def test_handlers_on_threads(group_broker: RunningServer) -> None:
    topic, group = asyncio.run(filled(group_broker)), fresh("group")
    lock, done, busy = threading.Lock(), [], set[bytes | None]()
    threads = set()

    def handle(record: ConsumerRecord) -> None:
        with lock:
            assert record.key not in busy
            busy.add(record.key)
            threads.add(threading.current_thread().name)
        with lock:
            busy.remove(record.key)
            done.append(int(record.value or b""))
            if len(done) == COUNT:
                pool.stop()

    with (
        sync.Consumer(
            topic,
            group_id=group,
            bootstrap_servers=group_broker.bootstrap,
            auto_offset_reset="earliest",
        ) as one,
        one.by_key(workers=4) as pool,
    ):
        pool.run(handle)
    witness = Witness()
    witness.done = done
    witness.check_order()
    assert len(threads) > 1
    assert asyncio.run(committed(group_broker, topic, group)) == COUNT


def test_a_pool_takes_no_key_ranges(group_broker: RunningServer) -> None:
    """What it left out would be committed as done."""

    async def main() -> None:
        topic = await filled(group_broker, count=1)
        one = Consumer(group_id=fresh("group"), bootstrap_servers=group_broker.bootstrap)
        async with one:
            one.assign({(topic, 0): [KeyRange.part(1, 2)]})
            async with one.by_key(4) as pool:
                with pytest.raises(IllegalState, match="without key ranges"):
                    await pool.run(Witness().handle)

    run(main)


def test_the_limits_of_a_pool() -> None:
    one = Consumer("t", group_id="g")
    one.by_key(workers=POOL_RECORDS_MAX)
    one.by_key(workers=1, max_in_flight=POOL_RECORDS_MAX)
    for wrong in (
        {"workers": 0},
        {"workers": POOL_RECORDS_MAX + 1},
        {"workers": 1, "max_in_flight": POOL_RECORDS_MAX + 1},
        {"workers": 2, "max_in_flight": 1},
        {"workers": 1, "commit_interval_s": 0},
        {"workers": 1, "drain_s": -1},
    ):
        with pytest.raises(ConfigError):
            one.by_key(**wrong)
    with pytest.raises(IllegalState):
        Consumer().by_key(workers=1)
