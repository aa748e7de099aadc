"""What TLS and SASL cost: Java's tools over SASL_SSL beside PLAINTEXT, to the same server.

SCRAM-SHA-512 over TLS 1.3 with AES-256-GCM, which both brokers choose with Java's clients. In every
round each tool runs twice, over PLAINTEXT and then over SASL_SSL. Produce: ProducerPerformance as
in the row "produce 1 KiB". Drain: ShareConsumerPerformance as in the row "share drain, implicit",
but 300,000 records of 1 KiB, so that bytes count: TLS costs by the byte. The row "cost of TLS" is
the rate over PLAINTEXT divided by the rate over SASL_SSL of the same round; the row "server CPU that
TLS adds" is the difference of the CPU rows in the same round, and depends less on what else runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.secured_systems import secured_listener
from tests.apache_kafka.tools import KafkaTools

RECORDS = 300_000
RECORD_BYTES = 1024
TITLES = {"produce": "produce 1 KiB (Java)", "share": "share drain 1 KiB, implicit (Java)"}
PLAIN, SECURED = "plain", "tls"


def produce(bench: Bench, tools: KafkaTools, records: int) -> float:
    topic = bench.new_topic()
    rate = tools.produce(topic, records, record_bytes=RECORD_BYTES).records_per_second
    bench.admin.delete_topic(topic)
    return rate


def drain(bench: Bench, tools: KafkaTools, records: int) -> float:
    topic = bench.loaded_topic(records, record_bytes=RECORD_BYTES)
    return tools.share_drain(topic, bench.new_group(), records).records_per_second


JOBS: dict[str, Callable[[Bench, KafkaTools, int], float]] = {"produce": produce, "share": drain}


def run(bench: Bench) -> dict[str, float]:
    records = bench.scale.records(RECORDS)
    listener = secured_listener(bench.server)
    ways = {PLAIN: bench.tools, SECURED: KafkaTools(listener.bootstrap, listener.file)}
    found: dict[str, float] = {}
    for job, work in JOBS.items():
        if job == "share":
            bench.loaded_topic(records, record_bytes=RECORD_BYTES)  # not within the CPU
        for way, tools in ways.items():
            with bench.cpu_per_record(found, f"secured-{job}-{way}-cpu", records):
                found[f"secured-{job}-{way}"] = work(bench, tools, records)
        cost = found[f"secured-{job}-{PLAIN}"] / found[f"secured-{job}-{SECURED}"]
        found[f"secured-{job}-cost"] = cost
        cpu = {way: found[f"secured-{job}-{way}-cpu"] for way in ways}
        found[f"secured-{job}-cost-cpu"] = cpu[SECURED] - cpu[PLAIN]
    return found


def rows() -> Iterator[Row]:
    for job, title in TITLES.items():
        for way, name in ((PLAIN, "PLAINTEXT"), (SECURED, "SASL_SSL")):
            key, named = f"secured-{job}-{way}", f"{title} over {name}"
            target = "≥ 1.0 ×" if way == SECURED else ""
            yield Row(key=key, title=named, unit="records/s", higher_is_better=True, target=target)
            yield Row(key=f"{key}-cpu", title=f"{named}: server CPU per record", unit="µs")
        yield Row(
            key=f"secured-{job}-cost",
            title=f"{title}: cost of TLS (PLAINTEXT ÷ SASL_SSL)",
            unit="×",
            target="≤ 1.0 ×",
        )
        yield Row(
            key=f"secured-{job}-cost-cpu",
            title=f"{title}: server CPU that TLS adds per record",
            unit="µs",
            target="≤ 1.0 ×",
        )


BENCHMARK = Benchmark(name="secured", rows=tuple(rows()), run=run, secured=True)
