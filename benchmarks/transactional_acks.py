"""Transactions that read 100 jobs of a share group, write 100 results of 100 B, and acknowledge the
jobs: how many per second, by our own producer and consumer, beside the same without a transaction.

There is one worker, and one transaction is open at a time. The first tenth is a warm-up that does
not count. Apache Kafka has no such acknowledgements.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.benchmark import Bench, Benchmark, Row
from sharegroup import Producer, ShareConsumer
from sharegroup.client import Records

ROUNDS, RECORDS, RECORD_BYTES, PARTITIONS = 1_000, 100, 100, 4
TRANSACTIONAL, PLAIN = "transactional-acks", "transactional-acks-plain"


def run(bench: Bench) -> dict[str, float]:
    """Measures our broker only."""
    if bench.server.name != "sharegroup":
        return {}
    rounds = max(50, int(ROUNDS * bench.scale.factor))
    return {key: asyncio.run(_rate(bench, key, rounds)) for key in (TRANSACTIONAL, PLAIN)}


async def _rate(bench: Bench, key: str, rounds: int) -> float:
    """Rounds of RECORDS jobs in a second; a poll may return fewer, so the jobs are counted."""
    jobs, results = bench.new_topic(PARTITIONS), bench.new_topic(PARTITIONS)
    group, wanted = bench.new_group(), rounds * RECORDS
    bench.tools.produce(jobs, wanted, record_bytes=RECORD_BYTES)
    work = _transactional if key == TRANSACTIONAL else _plain
    done = counted_from = 0
    began = 0.0
    async with (
        Producer(
            bench.bootstrap, transactional_id=bench.new_name() if key == TRANSACTIONAL else None
        ) as producer,
        ShareConsumer(
            jobs,
            group_id=group,
            bootstrap_servers=bench.bootstrap,
            acknowledgement_mode="explicit",
            acquire_mode="record_limit",
            max_poll_records=RECORDS,
        ) as consumer,
    ):
        while done < wanted:
            records = await consumer.poll()
            if records:
                await work(producer, consumer, results, records)
            done += len(records)
            if not counted_from and done >= wanted // 10:
                counted_from, began = done, time.perf_counter()
    rate = (done - counted_from) / (time.perf_counter() - began)
    for topic in (jobs, results):
        bench.admin.delete_topic(topic)
    return rate / RECORDS


async def _transactional(
    producer: Producer, consumer: ShareConsumer, results: str, records: Records
) -> None:
    async with producer.transaction() as transaction:
        for record in records:
            await producer.enqueue(results, record.value)
        transaction.acknowledge(consumer, *records)


async def _plain(
    producer: Producer, consumer: ShareConsumer, results: str, records: Records
) -> None:
    for record in records:
        await producer.enqueue(results, record.value)
    await producer.flush()
    consumer.accept(*records)
    await consumer.commit()


BENCHMARK = Benchmark(
    name="transactional-acks",
    rows=(
        Row(
            key=TRANSACTIONAL,
            title="transactions of 100 results and 100 acknowledgements, 1 worker",
            unit="1/s",
            higher_is_better=True,
            target="≥ 100",
        ),
        Row(
            key=PLAIN,
            title="the same without a transaction",
            unit="1/s",
            higher_is_better=True,
        ),
    ),
    run=run,
)
