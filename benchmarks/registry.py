"""The benchmarks, in the order of the table. A new one is a module and a line here."""

from __future__ import annotations

from benchmarks import (
    assign,
    first_record,
    latency,
    memory,
    produce,
    share_drain_confluent,
    share_drain_java,
    spark_source,
    start,
)
from benchmarks.benchmark import Benchmark

BENCHMARKS: tuple[Benchmark, ...] = (
    start.BENCHMARK,
    memory.BENCHMARK,
    produce.BENCHMARK,
    share_drain_java.BENCHMARK,
    share_drain_confluent.BENCHMARK,
    assign.BENCHMARK,
    first_record.BENCHMARK,
    latency.BENCHMARK,
    spark_source.BENCHMARK,
)
