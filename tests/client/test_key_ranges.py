"""A consumer that reads key ranges of partitions, on a real broker."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from sharegroup import sync
from sharegroup.client import Admin, Consumer, KeyRange, Producer
from sharegroup.client.core.key_ranges import ranges_of
from sharegroup.client.errors import IllegalState
from sharegroup.cooperative.hash_split import HASH_MAX
from sharegroup.model.errors import TopicRangeFetchNotAllowed, UnsupportedVersion
from sharegroup.model.ids import TopicPartition
from sharegroup.model.limits import KEY_RANGES_MAX
from sharegroup.records.key_hashes import hash_of_key, hash_of_offset
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from tests.apache_kafka.broker import KafkaBroker
from tests.client.working import fresh
from tests.servers.running import RunningServer

RECORDS = 600
PARTS = 3
WHERE = TopicPartition("orders", 0)
Row = tuple[int, bytes | None]


def key_of(number: int) -> bytes | None:
    return None if number % 7 == 0 else b"customer-%d" % (number % 50)


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalBroker]:
    with local_broker() as kafka:
        kafka.create_topic("orders", 1, **{"accept.range.fetch": "true"})
        kafka.create_topic("whole", 1)

        async def fill() -> None:
            async with Producer(kafka.bootstrap, compression="gzip") as producer:
                for topic in ("orders", "whole"):
                    for number in range(RECORDS):
                        value = b"%d" % number
                        await producer.enqueue(topic, value, key=key_of(number), partition=0)
                    await producer.flush()

        asyncio.run(fill())
        yield kafka


def expected(*ranges: KeyRange) -> list[Row]:
    found = []
    for number in range(RECORDS):
        key = key_of(number)
        one = hash_of_offset(number) if key is None else hash_of_key(key)
        if any(first <= one <= last for first, last in ranges):
            found.append((number, key))
    return found


def consumer_of(kafka: LocalBroker, **settings: object) -> Consumer:
    defaults = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    return Consumer(bootstrap_servers=kafka.bootstrap, **defaults | settings)  # type: ignore[arg-type]


async def read_to_end(consumer: Consumer) -> list[Row]:
    """All records up to the end of the log, which the position tells."""
    found: list[Row] = []
    async with asyncio.timeout(120):
        while await consumer.position(*WHERE) < RECORDS:
            found += [(one.offset, one.key) for one in await consumer.poll(100)]
    return found


def test_the_parts_of_the_space() -> None:
    for count in (1, 2, 3, 7):
        parts = [KeyRange.part(n, count) for n in range(1, count + 1)]
        assert parts[0].first == 0
        assert parts[-1].last == HASH_MAX
        for one, following in itertools.pairwise(parts):
            assert following.first == one.last + 1
    for number in (0, 4):
        with pytest.raises(ValueError, match="no part"):
            KeyRange.part(number, 3)


def test_ranges_are_checked() -> None:
    assert ranges_of([(5, 9), (0, 4), (11, 12)]) == (KeyRange(0, 9), KeyRange(11, 12))
    for bad in ((-1, 0), (1, 0), (0, HASH_MAX + 1)):
        with pytest.raises(ValueError, match="no key range"):
            ranges_of([bad])
    ranges_of([(2 * n, 2 * n) for n in range(KEY_RANGES_MAX)])
    with pytest.raises(ValueError, match="there may be"):
        ranges_of([(2 * n, 2 * n) for n in range(KEY_RANGES_MAX + 1)])


@pytest.mark.parametrize("fetch_bytes", [1_048_576, 600])
def test_consumers_share_a_partition(kafka: LocalBroker, fetch_bytes: int) -> None:
    async def scenario() -> None:
        everything: list[Row] = []
        for number in range(1, PARTS + 1):
            part = KeyRange.part(number, PARTS)
            async with consumer_of(kafka, max_partition_fetch_bytes=fetch_bytes) as consumer:
                consumer.assign({WHERE: [part]})
                found = await read_to_end(consumer)
            assert found == expected(part)
            everything += found
        assert len(everything) == RECORDS
        assert sorted(at for at, _ in everything) == list(range(RECORDS))

    asyncio.run(scenario())


def test_no_ranges_mean_the_whole_partition(kafka: LocalBroker) -> None:
    async def scenario() -> None:
        async with consumer_of(kafka) as consumer:
            consumer.assign({WHERE: []})
            assert len(await read_to_end(consumer)) == RECORDS
            with pytest.raises(ValueError, match="no key range"):
                consumer.assign({WHERE: [KeyRange(3, 2)]})

    asyncio.run(scenario())


def test_ranges_change_where_the_consumer_is(kafka: LocalBroker) -> None:
    async def scenario() -> None:
        low, high = KeyRange.part(1, 2), KeyRange.part(2, 2)
        async with consumer_of(kafka, max_poll_records=10) as consumer:
            consumer.assign({WHERE: [low]})
            first: list[Row] = []
            async with asyncio.timeout(120):
                while not first:
                    first = [(one.offset, one.key) for one in await consumer.poll(100)]
            at = await consumer.position(*WHERE)
            consumer.assign({WHERE: [high]})
            assert await consumer.position(*WHERE) == at
            rest = await read_to_end(consumer)
            assert first == expected(low)[:10]
            assert rest == [row for row in expected(high) if row[0] >= at]

    asyncio.run(scenario())


def test_arrow_batches_of_a_range(kafka: LocalBroker) -> None:
    async def scenario() -> None:
        part = KeyRange.part(2, PARTS)
        async with consumer_of(kafka) as consumer:
            consumer.assign({WHERE: [part]})
            found: list[Row] = []
            at = 0
            while at < RECORDS:
                async for batch in consumer.arrow_batches(idle_timeout_ms=500):
                    columns = batch.column("offset").to_pylist(), batch.column("key").to_pylist()
                    found += zip(*columns, strict=True)
                at = await consumer.position(*WHERE)
            assert found == expected(part)
            assert at == RECORDS

    asyncio.run(scenario())


def test_a_blocking_consumer(kafka: LocalBroker) -> None:
    part = KeyRange.part(1, PARTS)
    with sync.Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign({WHERE: [part]})
        found: list[Row] = []
        while len(found) < len(expected(part)):
            found += [(one.offset, one.key) for one in consumer.poll(1_000)]
        assert found == expected(part)


def test_a_topic_that_is_not_shared_by_key(kafka: LocalBroker) -> None:
    async def scenario() -> None:
        async with consumer_of(kafka) as consumer:
            consumer.assign({TopicPartition("whole", 0): [KeyRange.part(1, 2)]})
            with pytest.raises(TopicRangeFetchNotAllowed, match=r"whole-0.*accept\.range\.fetch"):
                await consumer.poll(20_000)

    asyncio.run(scenario())


def test_an_idle_range_does_not_spin(kafka: LocalBroker) -> None:
    """Behind the last record of its range, a fetch waits at the broker as any other."""

    async def scenario() -> None:
        async with consumer_of(kafka, fetch_max_wait_ms=200) as consumer:
            consumer.assign({WHERE: [KeyRange(5, 5)]})
            assert await read_to_end(consumer) == []
            before = consumer.metrics()["consumer-fetch-manager-metrics", "fetch-total"]
            assert not await consumer.poll(1_000)
            after = consumer.metrics()["consumer-fetch-manager-metrics", "fetch-total"]
            assert after - before <= 6

    asyncio.run(scenario())


def test_a_subscription_takes_no_ranges(kafka: LocalBroker) -> None:
    async def scenario() -> None:
        async with consumer_of(kafka, group_id="subscribed") as consumer:
            consumer.subscribe("orders")
            with pytest.raises(IllegalState):
                consumer.assign({WHERE: [KeyRange.part(1, 2)]})

    asyncio.run(scenario())


def test_a_broker_that_cannot(broker: RunningServer) -> None:
    """Apache Kafka answers with all records; the consumer returns none of them."""
    cannot = isinstance(broker, KafkaBroker)
    error = UnsupportedVersion if cannot else TopicRangeFetchNotAllowed

    async def scenario() -> None:
        topic = fresh("unsplit")
        async with Admin(broker.bootstrap) as admin:
            await admin.create_topics(topic, partitions=1)
        async with Producer(broker.bootstrap) as producer:
            await producer.send(topic, "value", key="key")
        async with Consumer(
            bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign({TopicPartition(topic, 0): [KeyRange.part(1, 2)]})
            with pytest.raises(error, match=f"{topic}-0"):
                await consumer.poll(20_000)
            consumer.assign({TopicPartition(topic, 0): []})
            assert [one.value for one in await consumer.poll(20_000)] == [b"value"]

    asyncio.run(scenario())
