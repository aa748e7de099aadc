"""The benchmarks, in the order of the table. A new one is a module and a line here."""

from __future__ import annotations

from benchmarks import (
    acknowledgement_patterns,
    assign,
    assignor,
    client,
    first_record,
    groups_at_rest,
    latency,
    lock_expiry,
    memory,
    produce,
    recovery,
    redelivery,
    share_drain_confluent,
    share_drain_java,
    share_drain_members,
    small_batches,
    spark_source,
    start,
)
from benchmarks.benchmark import Benchmark

BENCHMARKS: tuple[Benchmark, ...] = (
    start.BENCHMARK,
    memory.BENCHMARK,
    produce.BENCHMARK,
    share_drain_java.BENCHMARK,
    share_drain_members.BENCHMARK,
    small_batches.BENCHMARK,
    share_drain_confluent.BENCHMARK,
    client.BENCHMARK,
    acknowledgement_patterns.BENCHMARK,
    assign.BENCHMARK,
    first_record.BENCHMARK,
    latency.BENCHMARK,
    redelivery.BENCHMARK,
    recovery.BENCHMARK,
    lock_expiry.BENCHMARK,
    groups_at_rest.BENCHMARK,
    assignor.BENCHMARK,
    spark_source.BENCHMARK,
)
