"""The transactional producer against real brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from sharegroup import Admin, Consumer, Producer, TopicPartition, sync, testing
from sharegroup.client.errors import IllegalState, TransactionAborted
from sharegroup.client.producer import transactions
from sharegroup.model.errors import (
    InvalidTopic,
    KafkaError,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionAbortable,
)
from tests.client.working import fresh, run
from tests.servers.running import RunningServer


async def created(broker: RunningServer, *words: str) -> list[str]:
    topics = [fresh(word) for word in words]
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topics(*topics, partitions=2)
    return topics


def transactional(broker: RunningServer, name: str | None = None, **settings: Any) -> Producer:
    return Producer(broker.bootstrap, transactional_id=name or fresh("tx"), **settings)


async def values(
    broker: RunningServer, topic: str, *, count: int, isolation: Any = "read_committed"
) -> list[bytes | None]:
    """The next ``count`` values from the beginning, sorted, and those that come with them."""
    found: list[bytes | None] = []
    async with Consumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level=isolation
    ) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        while len(found) < count:
            found += [record.value for record in await consumer.poll()]
    return sorted(found, key=lambda value: value or b"")


async def spoilt(producer: Producer, work: Coroutine[Any, Any, None]) -> None:
    """A transaction whose block raises at its end."""
    async with producer.transaction():
        await work
        raise LookupError


VERSIONS = [transactions.FEATURE, "not there: transaction version 1"]


@pytest.mark.parametrize("feature", VERSIONS)
def test_a_commit_shows_all_and_an_abort_none(
    group_broker: RunningServer, feature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "FEATURE", feature)

    async def scenario() -> None:
        [topic] = await created(group_broker, "tx")
        async with transactional(group_broker) as producer:

            async def spoil(number: int) -> None:
                await producer.send(topic, f"bad-{number}", partition=number % 2)
                producer.send(topic, "dropped, or aborted", partition=0)

            for number in range(4):
                with pytest.raises(LookupError):
                    await spoilt(producer, spoil(number))
                async with producer.transaction():
                    for partition in (0, 1):
                        await producer.enqueue(topic, f"good-{number}", partition=partition)
            async with producer.transaction():
                pass  # nothing in it
        expected = sorted(f"good-{n}".encode() for n in range(4) for _ in (0, 1))
        assert await values(group_broker, topic, count=8) == expected
        everything = await values(group_broker, topic, count=12, isolation="read_uncommitted")
        assert b"bad-0" in everything

    run(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_nothing_joins_a_transaction_that_ends(group_broker: RunningServer, commit: bool) -> None:
    """Java's producer refuses it, too: nobody would wait for it before the end."""

    async def scenario() -> None:
        [topic] = await created(group_broker, "tx")
        async with transactional(group_broker) as producer:
            transaction = producer.transaction()
            await transaction.begin()
            before = producer.send(topic, "before", partition=0)
            end = transaction.commit if commit else transaction.abort
            ending = asyncio.create_task(end())
            await asyncio.sleep(0)  # it has begun, and waits
            with pytest.raises(IllegalState, match="committed or aborted"):
                producer.send(topic, "late", partition=1)
            with pytest.raises(IllegalState, match="committed or aborted"):
                await producer.enqueue(topic, "late", partition=0)
            with pytest.raises(IllegalState, match="a transaction is open"):
                await producer.transaction().begin()
            await ending
            if not commit:
                with pytest.raises(TransactionAborted):
                    await before
            async with producer.transaction():
                await producer.send(topic, "next", partition=1)
        expected = [b"before", b"next"] if commit else [b"next"]
        assert await values(group_broker, topic, count=len(expected)) == expected

    run(scenario)


@pytest.mark.parametrize("feature", VERSIONS)
def test_what_is_accepted_beside_a_commit_is_part_of_it(
    group_broker: RunningServer, feature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another task sends at any point of the commit: its record is refused, or committed."""
    monkeypatch.setattr(transactions, "FEATURE", feature)

    async def scenario() -> None:
        [topic] = await created(group_broker, "tx")
        async with transactional(group_broker, linger_ms=100) as producer:

            async def beside(turns: int) -> bytes | None:
                for _ in range(turns):
                    await asyncio.sleep(0)
                try:
                    delivery = producer.send(topic, f"beside-{turns}", partition=1)
                except IllegalState:
                    return None
                await delivery
                return f"beside-{turns}".encode()

            expected: list[bytes] = []
            for turns in range(0, 40, 2):
                async with producer.transaction():
                    await producer.enqueue(topic, "main", partition=0)
                    task = asyncio.create_task(beside(turns))
                expected.append(b"main")
                if (sent := await task) is not None:
                    expected.append(sent)
            async with producer.transaction():
                await producer.enqueue(topic, "main", partition=1)
            expected.append(b"main")
        found = await values(group_broker, topic, count=len(expected))
        assert found == sorted(expected)

    run(scenario)


def test_an_open_transaction_is_not_read(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        [topic] = await created(group_broker, "tx")
        async with (
            transactional(group_broker) as producer,
            Consumer(
                bootstrap_servers=group_broker.bootstrap,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
            ) as consumer,
        ):
            consumer.assign([(topic, 0)])
            async with producer.transaction():
                await producer.send(topic, "a", partition=0)
                assert not await consumer.poll(100)
                assert await consumer.end_offsets((topic, 0)) == {TopicPartition(topic, 0): 0}
            assert [record.value for record in await consumer.poll(10_000)] == [b"a"]

    run(scenario)


def test_a_second_producer_fences_the_first(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        [topic] = await created(group_broker, "tx")
        name = fresh("tx")
        async with transactional(group_broker, name) as old:

            async def overtake() -> None:
                async with old.transaction():
                    await old.send(topic, "old", partition=0)
                    async with transactional(group_broker, name) as new, new.transaction():
                        await new.send(topic, "new", partition=0)

            with pytest.raises(ProducerFenced):
                await overtake()
            with pytest.raises(ProducerFenced):
                async with old.transaction():
                    pass
        assert await values(group_broker, topic, count=1) == [b"new"]

    run(scenario)


def test_a_send_of_a_fenced_producer_says_so(group_broker: RunningServer) -> None:
    """The partition's leader knows the old epoch only: why it is old, the coordinator says."""

    async def scenario() -> None:
        [topic] = await created(group_broker, "tx")
        name = fresh("tx")
        async with transactional(group_broker, name) as old:
            async with old.transaction():
                await old.send(topic, "old", partition=0)
            async with transactional(group_broker, name) as new, new.transaction():
                await new.send(topic, "new", partition=0)

            async def go_on() -> None:
                async with old.transaction():
                    await old.send(topic, "fenced", partition=0)

            with pytest.raises(ProducerFenced, match="a newer producer"):
                await go_on()
        assert await values(group_broker, topic, count=2) == [b"new", b"old"]

    run(scenario)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_read_process_write_is_exactly_once(group_broker: RunningServer, protocol: Any) -> None:
    async def scenario() -> None:
        source, target = await created(group_broker, "source", "target")
        group = fresh("group")
        async with Producer(group_broker.bootstrap) as producer:
            for number in range(10):
                await producer.enqueue(source, str(number), partition=number % 2)
        done = 0
        async with transactional(group_broker) as producer:
            while done < 10:
                async with Consumer(
                    source,
                    group_id=group,
                    auto_offset_reset="earliest",
                    bootstrap_servers=group_broker.bootstrap,
                    max_poll_records=3,
                    enable_auto_commit=False,
                    group_protocol=protocol,
                ) as consumer:
                    records = await consumer.poll(10_000)
                    async with producer.transaction():
                        for record in records:
                            await producer.enqueue(target, record.value)
                        offsets: dict[TopicPartition, int] = {
                            record.topic_partition: record.offset + 1 for record in records
                        }
                        await producer.send_offsets(offsets, consumer.group_metadata())
                    done += len(records)
        found = await values(group_broker, target, count=10)
        assert found == sorted(str(number).encode() for number in range(10))

    run(scenario)


def from_the_start(broker: RunningServer, topic: str) -> Consumer[Any, Any]:
    """A consumer of a new group, which commits nothing by itself."""
    return Consumer(
        topic,
        group_id=fresh("group"),
        auto_offset_reset="earliest",
        bootstrap_servers=broker.bootstrap,
        enable_auto_commit=False,
    )


def test_offsets_of_an_aborted_transaction_are_not_committed(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        [source] = await created(group_broker, "source")
        where = TopicPartition(source, 0)
        async with (
            transactional(group_broker) as producer,
            from_the_start(group_broker, source) as consumer,
        ):
            async with producer.transaction():
                await producer.send(source, "a", partition=0)
            assert len(await consumer.poll(10_000)) == 1
            member = consumer.group_metadata()
            with pytest.raises(LookupError):
                await spoilt(producer, producer.send_offsets({where: 1}, member))
            assert await consumer.committed(where) == {where: None}
            stranger = consumer.group_metadata()._replace(generation_id=77)
            with pytest.raises(KafkaError):
                async with producer.transaction():
                    await producer.send_offsets({where: 1}, stranger)
            async with producer.transaction():
                await producer.send_offsets({where: 1}, consumer.group_metadata())
            [committed] = (await consumer.committed(where)).values()
            assert committed is not None
            assert committed.offset == 1

    run(scenario)


@pytest.mark.parametrize("feature", VERSIONS)
def test_a_commit_waits_for_offsets_that_another_task_sends(
    group_broker: RunningServer, feature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "FEATURE", feature)

    async def scenario() -> None:
        [source] = await created(group_broker, "source")
        where = TopicPartition(source, 0)
        async with (
            transactional(group_broker) as producer,
            from_the_start(group_broker, source) as consumer,
        ):
            async with producer.transaction():
                await producer.send(source, "a", partition=0)
            assert len(await consumer.poll(10_000)) == 1
            member = consumer.group_metadata()
            async with producer.transaction():
                sending = asyncio.create_task(producer.send_offsets({where: 1}, member))
                await asyncio.sleep(0)  # it has begun
            await sending
            [committed] = (await consumer.committed(where)).values()
            assert committed is not None
            assert committed.offset == 1

    run(scenario)


def test_a_transaction_of_no_offsets_needs_no_broker(group_broker: RunningServer) -> None:
    """The broker does not know of such a transaction: it would refuse its end, for good."""

    async def scenario() -> None:
        source, target = await created(group_broker, "source", "target")
        async with (
            transactional(group_broker) as producer,
            Consumer(
                source, group_id=fresh("group"), bootstrap_servers=group_broker.bootstrap
            ) as consumer,
        ):
            async with producer.transaction():
                await producer.send_offsets({}, consumer.group_metadata())
            with pytest.raises(LookupError):
                await spoilt(producer, producer.send_offsets({}, consumer.group_metadata()))
            async with producer.transaction():
                await producer.send(target, "a", partition=0)
        assert await values(group_broker, target, count=1) == [b"a"]

    run(scenario)


def test_what_is_dropped_says_so(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        [topic] = await created(group_broker, "tx")
        async with transactional(group_broker, linger_ms=60_000) as producer:
            with pytest.raises(IllegalState, match="within a transaction"):
                producer.send(topic, "a")
            deliveries = []

            async def enqueue() -> None:
                deliveries.append(await producer.enqueue(topic, "a", partition=0))
                raise asyncio.CancelledError

            with pytest.raises(asyncio.CancelledError):
                await spoilt(producer, enqueue())
            with pytest.raises(TransactionAborted):
                await deliveries[0]
            async with producer.transaction():
                await producer.enqueue(topic, "b", partition=0)
        assert await values(group_broker, topic, count=1) == [b"b"]

    run(scenario)


@pytest.mark.parametrize("feature", VERSIONS)
def test_a_topic_that_is_refused_ends_its_transaction_only(
    feature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "FEATURE", feature)

    def spoil(producer: sync.Producer) -> None:
        with producer.transaction():
            producer.send("__consumer_offsets", b"1", partition=0)

    with (
        testing.broker(topics={"jobs": 1}) as kafka,
        sync.Consumer("jobs", group_id="g", bootstrap_servers=kafka.bootstrap) as consumer,
        sync.Producer(kafka.bootstrap, transactional_id="worker") as producer,
    ):
        consumer.committed(("jobs", 0))  # the group's topic is made
        with producer.transaction():
            producer.send("jobs", b"before")
        for _ in range(2):
            with pytest.raises((TopicAuthorizationFailed, InvalidTopic)):
                spoil(producer)
        with producer.transaction():
            producer.send("jobs", b"after")
        assert kafka.values("jobs") == [b"before", b"after"]


def test_the_blocking_producer_has_transactions_too(group_broker: RunningServer) -> None:
    topic = fresh("tx")
    with sync.Admin(group_broker.bootstrap) as admin:
        admin.create_topics(topic, partitions=2)
    with sync.Producer(group_broker.bootstrap, transactional_id=fresh("tx")) as producer:
        with producer.transaction():
            producer.enqueue(topic, "a", partition=0)
            producer.send(topic, "b", partition=1)

        def spoil() -> None:
            with producer.transaction():
                producer.enqueue(topic, "c", partition=0)
                raise LookupError

        with pytest.raises(LookupError):
            spoil()

    async def scenario() -> None:
        assert await values(group_broker, topic, count=2) == [b"a", b"b"]

    run(scenario)


def test_a_commit_after_the_time_out_is_refused_and_the_producer_goes_on() -> None:
    with (
        testing.broker(topics={"jobs": 1}) as kafka,
        sync.Producer(kafka.bootstrap, transactional_id="worker") as producer,
    ):

        def too_slow() -> None:
            with producer.transaction():
                producer.send("jobs", b"late")
                kafka.advance(seconds=120)

        with pytest.raises(TransactionAbortable):
            too_slow()
        with producer.transaction():
            producer.send("jobs", b"in time")
        with sync.Consumer(
            bootstrap_servers=kafka.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            consumer.assign([("jobs", 0)])
            assert [record.value for record in consumer.poll(20_000)] == [b"in time"]
