"""Acknowledgements in a transaction: results and acknowledgements become visible together, or not
at all (KIP-1289)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sharegroup import sync
from sharegroup.client import (
    AckType,
    Admin,
    Consumer,
    ConsumerRecord,
    Producer,
    Record,
    ShareConsumer,
)
from sharegroup.client.core.handed_over import HandedOver
from sharegroup.client.errors import IllegalState
from sharegroup.model.errors import InvalidRecordState, ProducerFenced, TransactionAbortable
from sharegroup.model.ids import TopicPartition
from sharegroup.share.record_state import RecordState
from sharegroup.testing import broker

JOBS, RESULTS, GROUP, LETTERS = "jobs", "results", "workers", "dlq.jobs"
AT = TopicPartition(JOBS, 0)
Scenario = Callable[[str], Awaitable[None]]


def run_with(scenario: Scenario, **group: object) -> None:
    async def limited(bootstrap: str) -> None:
        async with asyncio.timeout(100):
            await prepare(bootstrap, **group)
            await scenario(bootstrap)

    with broker() as kafka:
        asyncio.run(limited(kafka.bootstrap))


async def prepare(bootstrap: str, **group: object) -> None:
    settings = {"share.auto.offset.reset": "earliest", **group}
    async with Admin(bootstrap) as admin:
        await admin.create_topics(JOBS, RESULTS)
        await admin.create_topics(LETTERS, configs={"errors.deadletterqueue.group.enable": "true"})
        await admin.alter_configs("group", GROUP, {k: str(v) for k, v in settings.items()})


def worker(bootstrap: str, **more: Any) -> ShareConsumer:
    settings: dict[str, Any] = {"acknowledgement_mode": "explicit", **more}
    return ShareConsumer(JOBS, group_id=GROUP, bootstrap_servers=bootstrap, **settings)


@asynccontextmanager
async def working(
    bootstrap: str, count: int, name: str = "tx"
) -> AsyncIterator[tuple[Producer, ShareConsumer, list[Record]]]:
    """A producer of results, and a member that holds this many new jobs."""
    async with Producer(bootstrap) as jobs:
        for number in range(count):
            await jobs.send(JOBS, f"job-{number}")
    async with (
        Producer(bootstrap, transactional_id=name) as producer,
        worker(bootstrap) as consumer,
    ):
        yield producer, consumer, await taken(consumer, count)


async def taken(consumer: ShareConsumer, count: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < count:
        found += await consumer.poll()
    return found


async def results(bootstrap: str, count: int) -> list[bytes | None]:
    return [one.value for one in await read(bootstrap, RESULTS, count)]


async def read(bootstrap: str, topic: str, count: int) -> list[ConsumerRecord]:
    """What the first ``count`` records of a topic are, and those that come with them."""
    found: list[ConsumerRecord] = []
    async with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([(topic, 0)])
        while len(found) < count:
            found += await consumer.poll()
    return found


async def states(bootstrap: str) -> list[tuple[int, int, RecordState, int, str | None]]:
    """Of the records in flight: first and last offset, state, delivery count, who holds them."""
    async with Admin(bootstrap) as admin:
        found = (await admin.describe_record_states(GROUP))[AT]
        return [
            (one.first, one.last, one.state, one.delivery_count, one.member_id)
            for one in found.ranges
        ]


def test_a_commit_acknowledges_what_it_read() -> None:
    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 3) as (producer, consumer, [first, second, third]):
            async with producer.transaction() as transaction:
                await producer.send(RESULTS, b"done")
                transaction.acknowledge(consumer, first, third)
            assert await results(bootstrap, 1) == [b"done"]
            [held, _] = await states(bootstrap)
            assert held[:2] == (1, 1), "only the second is left, and the third behind it is done"
            consumer.release(second)
            [again] = await taken(consumer, 1)
            assert (again.offset, again.delivery_count) == (1, 2)
            consumer.accept(again)
            await consumer.commit()
            assert await states(bootstrap) == []

    run_with(scenario)


def test_a_transaction_that_acknowledges_nothing_is_none() -> None:
    """The broker does not know of it: it would refuse its end, and the producer could not go on."""

    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 1) as (producer, consumer, [record]):
            async with producer.transaction() as transaction:
                transaction.acknowledge(consumer)
            async with producer.transaction() as transaction:
                transaction.acknowledge(consumer)
                transaction.acknowledge(consumer, record)
            assert await states(bootstrap) == []

    run_with(scenario)


def test_a_failed_block_brings_the_records_back() -> None:
    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 1) as (producer, consumer, [record]):

            async def fail() -> None:
                async with producer.transaction() as transaction:
                    transaction.acknowledge(consumer, record)
                    await producer.send(RESULTS, b"never seen")
                    raise LookupError

            with pytest.raises(LookupError):
                await fail()
            [again] = await taken(consumer, 1)
            assert again.delivery_count == 2
            async with producer.transaction() as transaction:
                await producer.send(RESULTS, b"seen")
                transaction.acknowledge(consumer, again)
            assert await results(bootstrap, 1) == [b"seen"]
            assert await states(bootstrap) == []

    run_with(scenario)


def test_nobody_else_gets_what_an_open_transaction_holds() -> None:
    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 2) as (producer, consumer, [first, second]):
            block = producer.transaction()
            await block.begin()
            await producer.send(RESULTS, b"done")
            block.acknowledge(consumer, first)
            await block.hold()
            consumer.accept(second)
            await consumer.commit()
            await consumer.close()  # the end of its session releases what the member holds
            [(*place, holder), _] = await states(bootstrap)
            assert place == [0, 0, RecordState.ACQUIRED, 1]
            assert holder is not None
            assert holder.startswith("the open transaction of producer")
            async with worker(bootstrap) as other:
                assert not await other.poll(500)
                await block.abort()
                [again] = await taken(other, 1)
                assert (again.offset, again.delivery_count) == (0, 2)

    run_with(scenario)


def test_a_second_producer_brings_back_what_the_first_held() -> None:
    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 1) as (old, consumer, [record]):
            block = old.transaction()
            await block.begin()
            await old.send(RESULTS, b"never seen")
            block.acknowledge(consumer, record)
            await block.hold()
            async with Producer(bootstrap, transactional_id="tx"):
                [again] = await taken(consumer, 1)
            assert again.delivery_count == 2
            with pytest.raises(ProducerFenced):
                await block.commit()
            consumer.accept(again)

    run_with(scenario)


def test_a_transaction_that_takes_too_long_brings_its_records_back() -> None:
    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 1) as (_, consumer, [record]):
            slow = Producer(bootstrap, transactional_id="slow", transaction_timeout_ms=1_000)
            async with slow:
                block = slow.transaction()
                await block.begin()
                block.acknowledge(consumer, record)
                await block.hold()
                [again] = await taken(consumer, 1)
                assert again.delivery_count == 2
                consumer.accept(again)
                with pytest.raises(TransactionAbortable):
                    await block.commit()

    run_with(scenario)


def test_a_lost_lock_aborts_the_transaction() -> None:
    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 1) as (producer, consumer, [record]):
            async with Admin(bootstrap) as admin:
                await admin.release_records(GROUP, AT, 0, 0)

            async def work() -> None:
                async with producer.transaction() as transaction:
                    await producer.send(RESULTS, b"never seen")
                    transaction.acknowledge(consumer, record)

            with pytest.raises(InvalidRecordState):
                await work()
            async with producer.transaction():
                await producer.send(RESULTS, b"seen")
            assert await results(bootstrap, 1) == [b"seen"]

    run_with(scenario)


def test_an_operator_leaves_what_a_transaction_holds() -> None:
    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 2) as (producer, consumer, [first, second]):
            block = producer.transaction()
            await block.begin()
            block.acknowledge(consumer, first)
            await block.hold()
            async with Admin(bootstrap) as admin:
                decided = await admin.archive_records(GROUP, AT, 0, 1)
            assert decided.records == 1
            await block.commit()
            assert await states(bootstrap) == []
            assert second.offset == 1

    run_with(scenario)


def test_what_is_rejected_is_dead_with_the_commit() -> None:
    letters = {"errors.deadletterqueue.topic.name": LETTERS}

    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 1) as (producer, consumer, [record]):
            member = consumer.member_id
            async with producer.transaction() as transaction:
                await producer.send(RESULTS, b"reported")
                transaction.reject(consumer, record, reason="no such customer: \udcff")
            [letter] = await read(bootstrap, LETTERS, 1)
            said = dict(letter.headers)
            assert said["__dlq.errors.message"] == rb"no such customer: \udcff"
            assert member.encode() in said.values()

    run_with(scenario, **letters)


def test_with_order_per_key_it_is_refused() -> None:
    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 1) as (producer, consumer, [record]):
            async with producer.transaction() as transaction:
                with pytest.raises(IllegalState, match="order per key"):
                    transaction.acknowledge(consumer, record)
            consumer.accept(record)

    run_with(scenario, **{"share.ordering": "key"})


def test_wrong_use_is_refused_before_anything_is_sent() -> None:
    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 2) as (producer, consumer, [first, second]):
            consumer.accept(first)
            await consumer.commit()
            async with producer.transaction() as transaction:
                with pytest.raises(IllegalState, match="was acknowledged before"):
                    transaction.acknowledge(consumer, second, first)
                transaction.acknowledge(consumer, second)
                with pytest.raises(IllegalState, match="is in a transaction"):
                    consumer.accept(second)
            assert await states(bootstrap) == []
            with pytest.raises(IllegalState):
                transaction.acknowledge(consumer, second)

    run_with(scenario)


def test_a_reason_of_the_wrong_kind_is_refused_before_anything_is_handed_over() -> None:
    error: Any = ValueError("bad job")

    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 1) as (producer, consumer, [record]):
            async with producer.transaction() as transaction:
                await producer.send(RESULTS, b"done")
                with pytest.raises(TypeError, match=r"write reason=str\(error\)"):
                    transaction.reject(consumer, record, reason=error)
                transaction.reject(consumer, record, reason=str(error))
            assert await states(bootstrap) == []

    run_with(scenario)


class Careless:
    """A user's own consumer, which says of its records what no request can carry."""

    def __init__(self, inner: ShareConsumer) -> None:
        self._inner = inner

    def hand_over(
        self,
        *records: Record[Any, Any],
        kind: AckType = AckType.ACCEPT,
        reason: str | None = None,
    ) -> HandedOver:
        handed = self._inner.hand_over(*records, kind=kind)
        handed.reason = b"no text"  # type: ignore[assignment]
        return handed


def test_a_commit_that_fails_in_an_unknown_way_aborts() -> None:
    """Otherwise the transaction stays open, and the producer cannot begin another."""

    async def scenario(bootstrap: str) -> None:
        async with working(bootstrap, 1) as (producer, consumer, [record]):

            async def work() -> None:
                async with producer.transaction() as transaction:
                    await producer.send(RESULTS, b"never seen")
                    transaction.reject(Careless(consumer), record)

            with pytest.raises(AttributeError):
                await work()
            async with producer.transaction():
                await producer.send(RESULTS, b"seen")
            assert await results(bootstrap, 1) == [b"seen"]
            await consumer.commit()
            [again] = await taken(consumer, 1)
            assert (again.offset, again.delivery_count) == (0, 2)

    run_with(scenario)


def test_the_blocking_twin() -> None:
    with broker() as kafka:
        asyncio.run(prepare(kafka.bootstrap))
        with (
            sync.Producer(kafka.bootstrap) as jobs,
            sync.Producer(kafka.bootstrap, transactional_id="tx") as producer,
            sync.ShareConsumer(
                JOBS,
                group_id=GROUP,
                bootstrap_servers=kafka.bootstrap,
                acknowledgement_mode="explicit",
            ) as consumer,
        ):
            jobs.send(JOBS, b"job")
            while not (records := consumer.poll()):
                continue
            with producer.transaction() as transaction:
                producer.enqueue(RESULTS, b"done")
                transaction.acknowledge(consumer, *records)
        assert asyncio.run(results(kafka.bootstrap, 1)) == [b"done"]
        assert asyncio.run(states(kafka.bootstrap)) == []
