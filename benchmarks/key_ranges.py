"""Key ranges: hashing the keys of stored batches, and cutting the batches to one of eight ranges.
Measured in this process, on one core, as the broker's thread does it.
"""

from __future__ import annotations

import time
from uuid import UUID

from benchmarks.benchmark import Bench, Benchmark, Row
from sharegroup.broker.delivery.hash_index import HashIndex
from sharegroup.cooperative.hash_split import HASH_MAX
from sharegroup.model.ids import TopicIdPartition
from sharegroup.records.filtering import Room, Wish, filtered
from sharegroup.records.key_hashes import key_hashes
from sharegroup.wire.batch import HEADER_BYTES, encode_batch, parse_headers

HASHED = "key-ranges-hashed"
FILTERED = "key-ranges-filtered"
COST = "key-ranges-cost"
BATCHES = 50
RECORDS = 1_000
RANGES = 8
TIMES = 10
WHERE = TopicIdPartition(UUID(int=1), 0)


def run(bench: Bench) -> dict[str, float]:
    """The best of a few runs, because it is pure computation. Measures our code only."""
    return measure() if bench.server.name == "sharegroup" else {}


def measure() -> dict[str, float]:
    """Records per second hashed; records per second read by eight consumers that share them; and
    microseconds of CPU for each record that one of them gets."""
    log = b"".join(
        encode_batch(
            [(b"customer-%d" % (n % 1000), bytes(75)) for n in range(RECORDS)],
            timestamp_ms=0,
            base_offset=base,
        )
        for base in range(0, BATCHES * RECORDS, RECORDS)
    )
    count = BATCHES * RECORDS
    answered_s = min(_answer_s(log, count) for _ in range(TIMES))
    return {
        HASHED: count / min(_hash_s(log) for _ in range(TIMES)),
        FILTERED: count / answered_s,
        COST: answered_s / count * 1e6,
    }


def _hash_s(log: bytes) -> float:
    begun, position = time.perf_counter(), 0
    view = memoryview(log)
    for header in parse_headers(log):
        key_hashes(header, view[position + HEADER_BYTES : position + header.length])
        position += header.length
    return time.perf_counter() - begun


def _answer_s(log: bytes, count: int) -> float:
    """Seconds for eight fetches of one eighth each, hashing included, once."""
    index = HashIndex(lambda: 1 << 30)
    answered = 0
    begun = time.perf_counter()
    for number in range(RANGES):
        first = (HASH_MAX + 1) // RANGES * number
        ranges = ((first, first + HASH_MAX // RANGES),)
        wish = Wish(ranges, 0, Room(1 << 40, must=True))
        for one in filtered(log, wish, lambda header: index.recall(WHERE, header)):
            if one.known is not None:
                index.keep(WHERE, one.header, one.known, ranges, values=False)
            if one.data:
                (header,) = parse_headers(one.data)
                answered += header.record_count
    took = time.perf_counter() - begun
    assert answered == count, "each record is in one range"
    return took


BENCHMARK = Benchmark(
    name="key-ranges",
    rows=(
        Row(
            key=HASHED,
            title="keys of records of 100 B hashed, one core",
            unit="records/s",
            higher_is_better=True,
            target="≥ 2,000,000",
        ),
        Row(
            key=FILTERED,
            title="records read by 8 consumers with 1/8 of the keys each, in the broker",
            unit="records/s",
            higher_is_better=True,
            target="≥ 1,000,000",
        ),
        Row(key=COST, title="the same: server CPU per record", unit="µs"),
    ),
    run=run,
)
