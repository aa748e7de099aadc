"""The cost of the walk over the records of one batch of 100-byte records, compiled and in Python,
and of checking a whole batch. Measured in this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.benchmark import Bench, Benchmark, Row
from sharegroup.records import compiled, pure
from sharegroup.records.check import check_records
from sharegroup.wire.batch import HEADER_BYTES, encode_batch, parse_header

COMPILED = "walk-compiled"
PURE = "walk-pure"
ONE = "walk-one"
RECORDS = 10_000
VALUE_BYTES = 90
"""With key, lengths and deltas about 100 bytes a record."""
TIMES = 20


def run(bench: Bench) -> dict[str, float]:
    """The best of a few runs, because it is pure computation. Measures our code only."""
    return measure() if bench.server.name == "sharegroup" else {}


def measure() -> dict[str, float]:
    """Nanoseconds per record, and microseconds for a batch of one record, by key."""
    batch = encode_batch([(b"key", bytes(VALUE_BYTES))] * RECORDS, timestamp_ms=0)
    one = encode_batch([(b"key", bytes(VALUE_BYTES))], timestamp_ms=0)
    header = parse_header(one)
    found = {
        PURE: _walk_ns(pure.walk, batch),
        ONE: _best_s(lambda: [check_records(header, one) for _ in range(1_000)]) * 1e3,
    }
    library = compiled.load()
    if library is not None:
        found[COMPILED] = _walk_ns(compiled.walk_with(library), batch)
    return found


def _walk_ns(walk: Callable[..., object], batch: bytes) -> float:
    def once() -> None:
        walk(
            batch, HEADER_BYTES, len(batch), RECORDS, RECORDS - 1, dense=True, base_timestamp=0
        )  # fmt: skip

    return _best_s(once) / RECORDS * 1e9


def _best_s(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(TIMES):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


BENCHMARK = Benchmark(
    name="walk",
    rows=(
        Row(key=COMPILED, title="walk over records of 100 B, compiled: per record", unit="ns"),
        Row(key=PURE, title="the same in Python", unit="ns"),
        Row(key=ONE, title="checking a batch of one record", unit="µs"),
    ),
    run=run,
)
