"""The latency of a client's small requests while others only knock at the secured listener.

The victim is logged in over SASL_SSL, sends Metadata for one topic, and pauses 2 ms between two
requests. The attackers run in another process, 20 at a time, without rest: TLS handshakes, or
logins with a wrong password. The last row of each attack says how many the broker let through.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import uvloop

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.secured_client import TIMEOUT_MS
from benchmarks.secured_systems import Secured, secured_listener
from sharegroup.client.network.connection import Connection
from sharegroup.client.security.access import ConnectionAccess
from sharegroup.client.security.properties import as_security
from sharegroup.model.errors import SaslAuthenticationFailed
from sharegroup.wire.apis import METADATA
from sharegroup.wire.messages.metadata import MetadataRequest

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 6.0
PAUSE_S = 0.002
AT_ONCE = 20
ALONE = "alone"
TITLES = {
    ALONE: "small request over SASL_SSL: alone",
    "handshakes": "… beside a flood of TLS handshakes",
    "passwords": "… beside a flood of wrong passwords",
}


async def opened(address: str, settings: Mapping[str, str]) -> Connection:
    host, _, port = address.rpartition(":")
    access = ConnectionAccess(as_security(settings))
    return await Connection.open(
        host, int(port), client_id="bench", timeout_ms=TIMEOUT_MS, access=access
    )


async def delays(listener: Secured, seconds: float) -> list[float]:
    """Milliseconds from a request to its answer, sorted."""
    connection = await opened(listener.bootstrap, listener.settings)
    found: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        await connection.send(METADATA, MetadataRequest(topics=[]), timeout_ms=TIMEOUT_MS)
        found.append((time.perf_counter() - began) * 1e3)
        await asyncio.sleep(PAUSE_S)
    connection.close()
    return sorted(found)


async def handshake(address: str, settings: Mapping[str, str]) -> None:
    context = ssl.create_default_context(cafile=settings["ssl.truststore.location"])
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.transport.abort()


async def wrong_password(address: str, settings: Mapping[str, str]) -> None:
    wrong = settings["sasl.jaas.config"].replace('password="', 'password="wrong-')
    with suppress(SaslAuthenticationFailed):
        (await opened(address, {**settings, "sasl.jaas.config": wrong})).close()


ATTACKS: dict[str, Callable[[str, Mapping[str, str]], Awaitable[None]]] = {
    "handshakes": handshake,
    "passwords": wrong_password,
}


async def attack(name: str, address: str, settings: Mapping[str, str]) -> None:
    """Until the standard input ends; then print how many were made in a second."""
    made, began = 0, time.perf_counter()

    async def again_and_again() -> None:
        nonlocal made
        while True:
            with suppress(OSError, TimeoutError):
                await ATTACKS[name](address, settings)
                made += 1

    tasks = [asyncio.create_task(again_and_again()) for _ in range(AT_ONCE)]
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    sys.stdout.write(f"{made / (time.perf_counter() - began)}\n")


def run(bench: Bench) -> dict[str, float]:
    listener, seconds = secured_listener(bench.server), bench.scale.seconds(SECONDS)
    found = percentiles(ALONE, uvloop.run(delays(listener, seconds)))
    for name in ATTACKS:
        words = ["benchmarks.secured_flood", name, listener.bootstrap, str(listener.file)]
        with subprocess.Popen(
            [sys.executable, "-m", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as attacker:
            try:
                found |= percentiles(name, uvloop.run(delays(listener, seconds)))
                printed, _ = attacker.communicate(timeout=30)
                found[f"flood-{name}-rate"] = float(printed)
            finally:
                attacker.kill()
    return found


def percentiles(name: str, delays_ms: list[float]) -> dict[str, float]:
    return {
        f"flood-{name}-p50": delays_ms[len(delays_ms) // 2],
        f"flood-{name}-p99": delays_ms[len(delays_ms) * 99 // 100],
    }


def rows() -> Iterator[Row]:
    for name, title in TITLES.items():
        target = "" if name == ALONE else "≤ 3 × alone"
        yield Row(key=f"flood-{name}-p50", title=f"{title}: p50", unit="ms")
        yield Row(key=f"flood-{name}-p99", title=f"{title}: p99", unit="ms", target=target)
        if name != ALONE:
            yield Row(key=f"flood-{name}-rate", title=f"{title}: let through", unit="per s")


BENCHMARK = Benchmark(name="secured-flood", rows=tuple(rows()), run=run, secured=True)

if __name__ == "__main__":
    _, named, at, file = sys.argv
    known = dict(line.split("=", 1) for line in Path(file).read_text().splitlines())
    uvloop.run(attack(named, at, known))
