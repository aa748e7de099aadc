"""What a share group costs a Python program: our share consumer and plain consumers on one topic.

Records of 100 B in 4 partitions; the value of every record is read. The share consumer polls,
iterates (`async for`, and the blocking `for`), accepts each record individually in explicit mode,
or takes Arrow batches: in implicit mode, and in explicit mode with an array of answers, one per
record, of which one in a hundred is a rejection. For Arrow batches the group has the highest record
lock limit of the broker: 1,000,000 in a partition on ours, 4,000 on Apache Kafka. The plain
consumers read the same topic with Fetch, without a group: our own decoder, aiokafka's consumer, and
librdkafka's through confluent-kafka. The rate runs from the first batch to the last. CPU is that of
the client's process, all threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import uvloop
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition

from benchmarks.benchmark import Bench, Benchmark, Row
from sharegroup import Consumer as GroupConsumer
from sharegroup import sync
from sharegroup.client import AckType, Admin, Record, ShareConsumer
from sharegroup.client.core.fetched import FetchedPartition, Lease, LockedRange
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.connection import Connection
from sharegroup.client.network.versions import CLIENT_VERSIONS
from sharegroup.client.records.decode import decode_all
from sharegroup.model.errors import InvalidConfig
from sharegroup.records.batches import bounds_of
from sharegroup.wire.apis import FETCH
from sharegroup.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.servers.admin import SILENT

RECORDS = 1_000_000
PARTITIONS = range(4)
POLL_RECORDS = 500
ARROW_RECORDS = 100_000
REJECTED_OF = 100
FETCH_VERSION = 13
PARTITION_BYTES = 1_048_576  # max.partition.fetch.bytes of Kafka's clients


class Meter:
    """Counts batches; the rate and the CPU run from the first to the last."""

    def __init__(self, records: int) -> None:
        self.records = records
        self.seen = 0
        self._first = 0
        self._began = self._cpu_began = 0.0

    def batch(self, count: int) -> bool:
        """Count a batch; returns whether it was the last one."""
        if not self.seen:
            self._first = count
            self._began, self._cpu_began = time.perf_counter(), time.process_time()
        self.seen += count
        return self.seen >= self.records

    def result(self) -> tuple[float, float]:
        """Records per second, and µs of CPU per record."""
        count = self.seen - self._first
        seconds = time.perf_counter() - self._began
        return count / seconds, (time.process_time() - self._cpu_began) / count * 1e6


Drain = Callable[[str, str, str, Meter], Coroutine[Any, Any, None]]


async def poll(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    async with ShareConsumer(topic, group_id=group, bootstrap_servers=bootstrap) as consumer:
        done = False
        while not done:
            records = await consumer.poll()
            look(records)
            done = meter.batch(len(records))


async def explicit(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    async with ShareConsumer(
        topic, group_id=group, bootstrap_servers=bootstrap, acknowledgement_mode="explicit"
    ) as consumer:
        done = False
        while not done:
            records = await consumer.poll()
            look(records)
            consumer.accept(*records)
            done = meter.batch(len(records))


async def iterate(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    async with ShareConsumer(topic, group_id=group, bootstrap_servers=bootstrap) as consumer:
        seen = 0
        async for record in consumer:
            assert record.value is not None
            seen += 1
            if seen % POLL_RECORDS == 0 and meter.batch(POLL_RECORDS):
                break


async def iterate_blocking(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    def drain() -> None:
        with sync.ShareConsumer(topic, group_id=group, bootstrap_servers=bootstrap) as consumer:
            for seen, record in enumerate(consumer, 1):
                assert record.value is not None
                if seen % POLL_RECORDS == 0 and meter.batch(POLL_RECORDS):
                    return

    await asyncio.to_thread(drain)


async def arrow(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    await widen(bootstrap, group)
    async with ShareConsumer(topic, group_id=group, bootstrap_servers=bootstrap) as consumer:
        async for batch in consumer.arrow_batches(max_records=ARROW_RECORDS):
            assert batch["value"].null_count == 0
            if meter.batch(batch.num_rows):
                break


async def arrow_answers(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    await widen(bootstrap, group)
    async with ShareConsumer(
        topic, group_id=group, bootstrap_servers=bootstrap, acknowledgement_mode="explicit"
    ) as consumer:
        async for batch in consumer.arrow_batches(max_records=ARROW_RECORDS):
            rejected = batch["offset"].to_numpy() % REJECTED_OF == 0
            consumer.acknowledge(batch, np.where(rejected, AckType.REJECT, AckType.ACCEPT))
            if meter.batch(batch.num_rows):
                break


async def widen(bootstrap: str, group: str) -> None:
    """Set the group's record lock limit to the highest that the broker allows."""
    async with Admin(bootstrap) as admin:
        try:
            await admin.alter_configs(
                "group", group, {"share.partition.wide.record.locks": "1000000"}
            )
        except InvalidConfig:
            await admin.alter_configs("group", group, {"share.partition.max.record.locks": "4000"})


def look(records: Sequence[Record]) -> None:
    for record in records:
        assert record.value is not None


# --- plain consumers ------------------------------------------------------------------------------


async def own(bootstrap: str, topic: str, _group: str, meter: Meter) -> None:
    """Our connection and decoder; the next Fetch is sent before a response is decoded."""
    async with Cluster(bootstrap) as cluster:
        info = await cluster.topic(topic)
        async for fetched in plain_fetches(cluster, info.topic_id):
            for delivery in decode_all(fetched):
                look(delivery.records)
                done = meter.batch(len(delivery.records))
                delivery.forget_records()
                if done:
                    return


async def plain_fetches(cluster: Cluster, topic_id: UUID) -> AsyncIterator[list[FetchedPartition]]:
    node = next(iter(cluster.metadata.nodes.values()))
    connection = await Connection.open(
        *node.address,
        client_id="bench",
        timeout_ms=10_000,
        versions=CLIENT_VERSIONS | {FETCH: (FETCH_VERSION, FETCH_VERSION)},
    )
    offsets = dict.fromkeys(PARTITIONS, 0)

    def ask() -> asyncio.Future[Any]:
        partitions = [
            FetchPartition(partition=p, fetch_offset=at, partition_max_bytes=PARTITION_BYTES)
            for p, at in offsets.items()
        ]
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=50 * PARTITION_BYTES,
            topics=[FetchTopic(topic_id=topic_id, partitions=partitions)],
        )
        return connection.post(FETCH, request)

    waiting = ask()
    try:
        while True:
            response = await waiting
            fetched = [
                one
                for answer in response.responses
                for data in answer.partitions
                if (one := plain_fetched(topic_id, data, offsets)) is not None
            ]
            waiting = ask()
            yield fetched
    finally:
        connection.close()


def plain_fetched(topic_id: UUID, data: Any, offsets: dict[int, int]) -> FetchedPartition | None:
    bounds = list(bounds_of(memoryview(data.records or b"")))  # Kafka may truncate the last batch
    if not bounds:
        return None
    first, last = max(bounds[0].first, offsets[data.partition_index]), bounds[-1].last
    offsets[data.partition_index] = last + 1
    return FetchedPartition(
        topic="",
        topic_id=topic_id,
        partition=data.partition_index,
        records=bytes(data.records),
        acquired=[LockedRange(first, last, 1)],
        error=None,
        lease=Lease(),
        lock_deadline=0.0,
    )


async def consumer(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    """Our Consumer, as a member of a group."""
    async with group_consumer(bootstrap, topic, group) as one:
        done = False
        while not done:
            records = await one.poll()
            for record in records:
                assert record.value is not None
            done = bool(records) and meter.batch(len(records))


async def consumer_iterate(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    async with group_consumer(bootstrap, topic, group) as one:
        seen = 0
        async for record in one:
            assert record.value is not None
            seen += 1
            if seen % POLL_RECORDS == 0 and meter.batch(POLL_RECORDS):
                break


async def consumer_arrow(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    async with group_consumer(bootstrap, topic, group) as one:
        async for batch in one.arrow_batches(max_records=ARROW_RECORDS):
            assert batch["value"].null_count == 0
            if meter.batch(batch.num_rows):
                break


def group_consumer(bootstrap: str, topic: str, group: str) -> GroupConsumer:
    return GroupConsumer(
        topic, group_id=group, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    )


async def aiokafka(bootstrap: str, topic: str, _group: str, meter: Meter) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        await consumer._client.force_metadata_update()  # assign() does not wait for it
        consumer.assign([AiokafkaPartition(topic, partition) for partition in PARTITIONS])
        await consumer.seek_to_beginning()
        done = False
        while not done:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                for record in records:
                    assert record.value is not None
                done = meter.batch(len(records))
    finally:
        await consumer.stop()


async def confluent(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    await asyncio.to_thread(lambda: confluent_drain(bootstrap, topic, group, meter))


def confluent_drain(bootstrap: str, topic: str, group: str, meter: Meter) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**settings, **SILENT})
    consumer.assign([ConfluentPartition(topic, partition, 0) for partition in PARTITIONS])
    done = False
    while not done:
        messages = consumer.consume(POLL_RECORDS, 1.0)
        for message in messages:
            assert message.value() is not None
        done = bool(messages) and meter.batch(len(messages))
    consumer.close()


# --- the benchmark --------------------------------------------------------------------------------

SHARE: dict[str, Drain] = {
    "poll": poll,
    "for": iterate,
    "blocking-for": iterate_blocking,
    "explicit": explicit,
    "arrow": arrow,
    "arrow-answers": arrow_answers,
}
PLAIN_DRAINS: dict[str, Drain] = {
    "own": own,
    "consumer": consumer,
    "consumer-for": consumer_iterate,
    "consumer-arrow": consumer_arrow,
    "aiokafka": aiokafka,
    "confluent": confluent,
}


def run(bench: Bench) -> dict[str, float]:
    records = bench.scale.records(RECORDS)
    topic = bench.loaded_topic(records)
    found: dict[str, float] = {}
    for name, drain in {**SHARE, **PLAIN_DRAINS}.items():
        meter = Meter(records)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(drain(bench.bootstrap, topic, bench.new_group(), meter))
        found[f"client-{name}"], found[f"client-{name}-cpu"] = meter.result()
    for name in PLAIN_DRAINS:
        found[f"client-ratio-{name}"] = found["client-poll"] / found[f"client-{name}"]
    return found


TITLES = {
    "poll": "share drain, our client, poll",
    "for": "share drain, our client, async for",
    "blocking-for": "share drain, our blocking client, for",
    "explicit": "share drain, our client, explicit per record",
    "arrow": "share drain, our client, Arrow batches",
    "arrow-answers": "share drain, our client, Arrow batches, an answer per record",
    "own": "plain drain, our decoder over Fetch",
    "consumer": "plain drain, our Consumer in a group, poll",
    "consumer-for": "plain drain, our Consumer in a group, async for",
    "consumer-arrow": "plain drain, our Consumer in a group, Arrow batches",
    "aiokafka": "plain drain, aiokafka",
    "confluent": "plain drain, confluent-kafka",
}


TARGETS = {"poll": "≥ 500,000", "for": "≥ 500,000", "arrow-answers": "≥ 1,000,000"}


def rows() -> Iterator[Row]:
    for name, title in TITLES.items():
        yield Row(
            key=f"client-{name}",
            title=title,
            unit="records/s",
            higher_is_better=True,
            target=TARGETS.get(name, ""),
        )
        yield Row(key=f"client-{name}-cpu", title=f"{title}: client CPU per record", unit="µs")
    for name in PLAIN_DRAINS:
        yield Row(
            key=f"client-ratio-{name}",
            title=f"our share poll ÷ {TITLES[name]}",
            unit="×",
            higher_is_better=True,
            target="≥ 0.9" if name == "own" else "",
        )


BENCHMARK = Benchmark(name="client", rows=tuple(rows()), run=run)
