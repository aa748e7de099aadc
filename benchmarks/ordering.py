"""Order per key in a share group (``share.ordering=key``): four members of Java's
ShareConsumerPerformance drain 100 B records of 1,000 keys by Zipf's law (s = 1.0), without order
and with it; and three of them while a fourth member holds one record.

Apache Kafka has no such order.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

from confluent_kafka import Message, Producer

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.wire_member import WireMember
from tests.kills.ordering.keyed import zipf_keys
from tests.servers.admin import SILENT

Keys = dict[tuple[int, int], bytes]
"""By partition and offset."""
RECORDS = 300_000
MEMBERS = 4
PARTITIONS = 2
"""Fewer than members, so that no partition has only the one that stalls."""
UNORDERED, ORDERED, SHARE = "ordering-none", "ordering-key", "ordering-share"
CPU, STALLED = "ordering-key-cpu", "ordering-stalled-share"


def run(bench: Bench) -> dict[str, float]:
    """Measures our broker only."""
    if bench.server.name != "sharegroup":
        return {}
    records = bench.scale.records(RECORDS)
    topic, keys = _loaded(bench, records)
    found: dict[str, float] = {}
    found[UNORDERED] = _drained(bench, topic, records, order="none")
    with bench.cpu_per_record(found, CPU, records):
        found[ORDERED] = _drained(bench, topic, records)
    found[SHARE] = found[ORDERED] / found[UNORDERED]
    free = _beside_another(bench, topic, keys, records, stalls=False)
    found[STALLED] = _beside_another(bench, topic, keys, records, stalls=True) / free
    return found


def _loaded(bench: Bench, records: int) -> tuple[str, Keys]:
    """A topic with these records, and their keys."""
    topic = bench.new_topic(PARTITIONS)
    keys: Keys = {}

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        partition, offset, key = message.partition(), message.offset(), message.key()
        assert partition is not None
        assert offset is not None
        assert isinstance(key, bytes)
        keys[partition, offset] = key

    producer = Producer(
        {
            "bootstrap.servers": bench.bootstrap,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            **SILENT,
        }
    )
    for _, key in zip(range(records), zipf_keys(Random(1)), strict=False):
        producer.produce(topic, bytes(100), key=key, on_delivery=delivered)
    assert producer.flush(120) == 0
    return topic, keys


def _group(bench: Bench, order: str) -> str:
    group = bench.new_group()
    bench.admin.set_group(group, share_ordering=order)
    return group


def _drained(bench: Bench, topic: str, records: int, *, order: str = "key") -> float:
    """Records a second."""
    group = _group(bench, order)
    return bench.tools.share_drain(topic, group, records, members=MEMBERS).records_per_second


def _beside_another(bench: Bench, topic: str, keys: Keys, records: int, *, stalls: bool) -> float:
    """Records a second of three members, while a fourth has joined and does nothing; if it
    ``stalls`` it holds a record, and the others of that key wait."""
    group = _group(bench, "key")

    async def beside() -> float:
        other, waiting = await WireMember.join(bench.bootstrap, group, topic), 0
        if stalls:
            (held,) = await other.fetch(1, wait_ms=10_000, exactly=True)
            key = keys[held.partition, held.first]
            waiting = sum(at[0] == held.partition and one == key for at, one in keys.items())
        drain = partial(
            bench.tools.share_drain, topic, group, records - waiting, members=MEMBERS - 1
        )
        drained = await asyncio.to_thread(drain)
        other.die()
        return drained.records_per_second

    return asyncio.run(beside())


BENCHMARK = Benchmark(
    name="ordering",
    rows=(
        Row(
            key=UNORDERED,
            title="share drain of 1,000 keys by Zipf, 4 members (Java), no order",
            unit="records/s",
            higher_is_better=True,
        ),
        Row(
            key=ORDERED,
            title="the same with share.ordering=key",
            unit="records/s",
            higher_is_better=True,
        ),
        Row(
            key=SHARE,
            title="ordered drain ÷ unordered drain",
            unit="×",
            higher_is_better=True,
            target="≥ 0.7",
        ),
        Row(key=CPU, title="ordered drain: server CPU per record", unit="µs"),
        Row(
            key=STALLED,
            title="ordered drain of the other keys while a holder stalls ÷ without it",
            unit="×",
            higher_is_better=True,
            target="≥ 0.95",
        ),
    ),
    run=run,
)
