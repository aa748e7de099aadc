"""Producing and consuming with Java's clients: record sizes, connections, codecs, acks.

Every value of each factor appears: all sizes with 1 and with 100 producers, plain, acks=all; and at
1 KiB acks=1, lz4 and zstd with one producer. Java's producer with its defaults, batches of 64 KiB
and linger 5 ms; each of 100 has a connection of its own, and buffer.memory of 4 MiB (default: 32).
The first tenth is a warm-up that does not count. The same records are then read from the start: by
one consumer, or by 100 that read a slice each, and fetch past its end. 4 partitions. A record of 1
MiB is 200 B shorter, because the longest request of Java's producer is 1 MiB by default. The bytes
look like rows of JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.java_clients import run_clients

PARTITIONS = 4
MANY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One way to produce, and to consume what was produced."""

    size: str
    record_bytes: int
    records: int
    connections: int = 1
    acks: str = "all"
    codec: str = "none"

    @property
    def key(self) -> str:
        return f"{self.record_bytes}-{self.connections}-{self.acks}-{self.codec}"

    @property
    def title(self) -> str:
        words = [self.size, f"{self.connections} connection{'s' * (self.connections > 1)}"]
        words += [f"acks={self.acks}"] if self.acks != "all" else []
        words += [self.codec] if self.codec != "none" else []
        return ", ".join(words)

    @property
    def target(self) -> str:
        return "≥ 1.0 ×" if self.record_bytes >= 1024 else "≥ 0.8 ×"

    def rows(self) -> tuple[Row, ...]:
        produce = Row(
            key=f"grid-produce-{self.key}",
            title=f"produce {self.title} (Java)",
            unit="records/s",
            higher_is_better=True,
            target=self.target,
        )
        if self.acks != "all":
            return (produce,)
        consume = Row(
            key=f"grid-consume-{self.key}",
            title=f"consume {self.title} (Java)",
            unit="records/s",
            higher_is_better=True,
            target=self.target,
        )
        return produce, consume

    def run(self, bench: Bench) -> dict[str, float]:
        topic = bench.new_topic(PARTITIONS)
        records = self.records
        if bench.scale.factor < 1:
            records = max(MANY, int(records * bench.scale.factor))
        rate = run_clients(
            *("produce", bench.bootstrap, topic, self.connections),
            *(records, self.record_bytes, self.acks, self.codec),
        )
        found = {f"grid-produce-{self.key}": rate}
        if self.acks == "all":
            rate = run_clients("consume", bench.bootstrap, topic, self.connections, PARTITIONS)
            found[f"grid-consume-{self.key}"] = rate
        bench.admin.delete_topic(topic)
        return found


def benchmark(name: str, cells: Sequence[Cell]) -> Benchmark:
    def run(bench: Bench) -> dict[str, float]:
        found: dict[str, float] = {}
        for cell in cells:
            found |= cell.run(bench)
        return found

    return Benchmark(name=name, rows=tuple(row for cell in cells for row in cell.rows()), run=run)


def by_connections(size: str, record_bytes: int, records: int) -> tuple[Cell, Cell]:
    one = Cell(size=size, record_bytes=record_bytes, records=records)
    return one, Cell(size=size, record_bytes=record_bytes, records=records, connections=MANY)


KIB, MIB = 1 << 10, (1 << 20) - 200
BENCHMARKS = (
    benchmark("grid-100B", by_connections("100 B", 100, 1_500_000)),
    benchmark("grid-1KiB", by_connections("1 KiB", KIB, 300_000)),
    benchmark("grid-10KiB", by_connections("10 KiB", 10 * KIB, 40_000)),
    benchmark("grid-1MiB", by_connections("1 MiB", MIB, 400)),
    benchmark(
        "grid-ways",
        (
            Cell(size="1 KiB", record_bytes=KIB, records=300_000, acks="1"),
            Cell(size="1 KiB", record_bytes=KIB, records=300_000, connections=MANY, acks="1"),
            Cell(size="1 KiB", record_bytes=KIB, records=300_000, codec="lz4"),
            Cell(size="1 KiB", record_bytes=KIB, records=300_000, codec="zstd"),
        ),
    ),
)
