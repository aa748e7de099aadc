"""A producer that does not batch: every record is a batch of its own.

500,000 records of 100 B, drained with Java's ShareConsumerPerformance, implicit acknowledgement.
This is where Apache Kafka's share groups are slowest: it keeps one object for each batch.
"""

from __future__ import annotations

from confluent_kafka import Producer

from benchmarks.benchmark import Bench, Benchmark, Row
from tests.servers.admin import SILENT

RATE = "small-batches"
CPU = "small-batches-cpu"
RECORDS = 500_000
VALUE = b"x" * 100
QUEUE = 10_000
FLUSH_SECONDS = 300
LOADED = (RECORDS, 1, 4)  # no other benchmark's records are of 1 B


def run(bench: Bench) -> dict[str, float]:
    records = bench.scale.records(RECORDS)
    if LOADED not in bench.loaded:
        bench.loaded[LOADED] = bench.new_topic()
        produce_one_by_one(bench.bootstrap, bench.loaded[LOADED], records)
    topic, group = bench.loaded[LOADED], bench.new_group()
    found: dict[str, float] = {}
    with bench.cpu_per_record(found, CPU, records):
        drained = bench.tools.share_drain(topic, group, records)
    return {**found, RATE: drained.records_per_second}


def produce_one_by_one(bootstrap: str, topic: str, records: int) -> None:
    """Produce each record in its own request."""
    settings = {"linger.ms": 0, "batch.num.messages": 1, "acks": 1}
    producer = Producer({"bootstrap.servers": bootstrap, **settings, **SILENT})
    for number in range(records):
        producer.produce(topic, VALUE, partition=number % 4)
        while len(producer) > QUEUE:
            producer.poll(0.01)
    if producer.flush(FLUSH_SECONDS):
        raise TimeoutError(f"{topic} could not be filled in {FLUSH_SECONDS} s")


BENCHMARK = Benchmark(
    name="small-batches",
    rows=(
        Row(
            key=RATE,
            title="share drain, one record per batch (Java)",
            unit="records/s",
            higher_is_better=True,
            target="≥ 5 ×",
        ),
        Row(key=CPU, title="share drain, one record per batch: server CPU per record", unit="µs"),
    ),
    run=run,
)
