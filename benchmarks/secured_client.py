"""Our own client over SASL_SSL beside PLAINTEXT: connecting, and the drain of a share group.

Connecting: 100 connections one after the other, each until its first answer to Metadata: TCP, TLS
1.3 without resumption, SCRAM-SHA-512 with 4096 iterations (in the client: brokers keep the salted
keys), ApiVersions, Metadata. The row has the median. The drain: our share consumer polls 300,000
records of 1 KiB in 4 partitions. CPU is that of the client's process, all threads.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping

import uvloop

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.client import Meter, look
from benchmarks.secured_systems import secured_listener
from sharegroup.client import ShareConsumer
from sharegroup.client.network.connection import Connection
from sharegroup.client.security.access import ConnectionAccess
from sharegroup.client.security.properties import as_security
from sharegroup.wire.apis import METADATA
from sharegroup.wire.messages.metadata import MetadataRequest

RECORDS = 300_000
RECORD_BYTES = 1024
CONNECTIONS = 100
TIMEOUT_MS = 10_000
PLAIN, SECURED = "plain", "tls"
NAMES = {PLAIN: "PLAINTEXT", SECURED: "SASL_SSL"}
PLAINTEXT_SETTINGS: Mapping[str, str] = {"security.protocol": "PLAINTEXT"}


async def connect(bootstrap: str, settings: Mapping[str, str]) -> float:
    """Milliseconds from the start of one connection to its first answer: the median."""
    host, _, port = bootstrap.rpartition(":")
    access = ConnectionAccess(as_security(settings))
    seconds: list[float] = []
    for _ in range(CONNECTIONS):
        began = time.perf_counter()
        connection = await Connection.open(
            host, int(port), client_id="bench", timeout_ms=TIMEOUT_MS, access=access
        )
        await connection.send(METADATA, MetadataRequest(topics=[]), timeout_ms=TIMEOUT_MS)
        seconds.append(time.perf_counter() - began)
        connection.close()
    return statistics.median(seconds) * 1000


async def drain(
    bootstrap: str, settings: Mapping[str, str], topic: str, group: str, meter: Meter
) -> None:
    """Poll and look at every record, with implicit acknowledgement."""
    async with ShareConsumer(
        topic, group_id=group, bootstrap_servers=bootstrap, security=settings
    ) as consumer:
        done = False
        while not done:
            records = await consumer.poll()
            look(records)
            done = meter.batch(len(records))


def run(bench: Bench) -> dict[str, float]:
    records = bench.scale.records(RECORDS)
    topic = bench.loaded_topic(records, record_bytes=RECORD_BYTES)
    listener = secured_listener(bench.server)
    ways = {
        PLAIN: (bench.bootstrap, PLAINTEXT_SETTINGS),
        SECURED: (listener.bootstrap, listener.settings),
    }
    found: dict[str, float] = {}
    for way, (bootstrap, settings) in ways.items():
        with bench.cpu_per_record(found, f"connect-{way}-cpu", CONNECTIONS):
            found[f"connect-{way}"] = uvloop.run(connect(bootstrap, settings))
        found[f"connect-{way}-cpu"] /= 1000  # µs to ms
        meter = Meter(records)
        uvloop.run(drain(bootstrap, settings, topic, bench.new_group(), meter))
        rate, cpu = meter.result()
        found |= {f"own-share-{way}": rate, f"own-share-{way}-cpu": cpu}
    return found


def rows() -> Iterator[Row]:
    for way, name in NAMES.items():
        title = f"connect over {name} (our client): until the first answer"
        target = "≤ 1.0 ×" if way == SECURED else ""
        yield Row(key=f"connect-{way}", title=title, unit="ms", target=target)
        yield Row(key=f"connect-{way}-cpu", title=f"{title}: server CPU", unit="ms")
    for way, name in NAMES.items():
        title = f"share drain 1 KiB (our client) over {name}"
        target = "≥ 1.0 ×" if way == SECURED else ""
        key = f"own-share-{way}"
        yield Row(key=key, title=title, unit="records/s", higher_is_better=True, target=target)
        yield Row(key=f"{key}-cpu", title=f"{title}: client CPU per record", unit="µs")


BENCHMARK = Benchmark(name="secured-client", rows=tuple(rows()), run=run, secured=True)
