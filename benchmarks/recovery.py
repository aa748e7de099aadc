"""Recovery after kill -9 with 1,000,000 records of one share partition in flight: the time until
records are acquired again.

The records in flight were delivered once and released. They are one range, or 100,000 ranges of
which every other one is accepted, written in four pieces like the state of a fragmented queue. The
benchmark writes this state with WriteShareGroupState, as a leader on another broker would: acquired
records are not durable, so they are never in the state log.

Measured from the server's first answer to ApiVersions to a ShareFetch with records: a member joins,
the share coordinator's state is read and merged, the leader builds its window and reads the log.
Requests that are refused because the server is still loading are retried every 20 ms. The time to
read the state log is in "start to ready" with us, and in "until acquired" with Apache Kafka.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from uuid import UUID

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.wire_member import TIMEOUT_MS, Held, WireMember
from sharegroup.client.network.connection import Connection
from sharegroup.model.errors import RetriableError, error_from_code
from sharegroup.wire import apis
from sharegroup.wire.messages import read_share_group_state_summary as summary
from sharegroup.wire.messages import write_share_group_state as write
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest

IN_FLIGHT = 1_000_000
FRAGMENTS = 100_000
PIECES = 4  # each at most a megabyte, the largest record that Apache Kafka accepts
AVAILABLE, ACKNOWLEDGED = 0, 2
FETCH_RECORDS = 500
WAIT_MS = 500
LOADED_S = 120
RETRY_S = 0.02
PATTERNS = {"range": 1, "fragments": FRAGMENTS}


class Unfinished(Exception):
    """The acquired records are not those that were in flight."""


def run(bench: Bench) -> dict[str, float]:
    measured = {}
    bench.server.start()
    for name, ranges in PATTERNS.items():
        topic, group = bench.new_topic(1), bench.new_group()
        bench.tools.produce(topic, IN_FLIGHT, record_bytes=100)
        asyncio.run(put_in_flight(bench.bootstrap, group, topic, ranges))
        bench.server.kill()
        started = time.perf_counter()
        bench.server.start_and_probe()
        ready = time.perf_counter()
        asyncio.run(until_acquired(bench.bootstrap, group, topic))
        measured[f"recovery-{name}"] = time.perf_counter() - ready
        measured[f"recovery-{name}-start"] = ready - started
    return measured


async def put_in_flight(bootstrap: str, group: str, topic: str, ranges: int) -> None:
    """Write the state of a group to which all records were delivered, as this many ranges."""
    member = await joined(bootstrap, group, topic)
    host, port = bootstrap.split(":")
    peer = await Connection.open(host, int(port), client_id="peer", timeout_ms=TIMEOUT_MS)
    epochs = await epochs_of(peer, group, member.topic_id)
    size = IN_FLIGHT // ranges
    batches = [
        write.StateBatch(n * size, (n + 1) * size - 1, ACKNOWLEDGED if n % 2 else AVAILABLE, 1)
        for n in range(ranges)
    ]
    piece = -(-ranges // PIECES)
    for first in range(0, ranges, piece):
        await send_write(peer, group, member.topic_id, epochs, batches[first : first + piece])
    member.die()
    peer.close()


async def epochs_of(peer: Connection, group: str, topic_id: UUID) -> tuple[int, int]:
    """The state epoch, and the leader epoch for writes."""
    asked = summary.ReadStateSummaryData(topic_id, [summary.PartitionData(0, 0)])
    request = summary.ReadShareGroupStateSummaryRequest(group, [asked])
    answer = await peer.send(apis.READ_SHARE_GROUP_STATE_SUMMARY, request, timeout_ms=TIMEOUT_MS)
    found = answer.results[0].partitions[0]
    check(found.error_code)
    return found.state_epoch, max(found.leader_epoch, 0)


async def send_write(
    peer: Connection,
    group: str,
    topic_id: UUID,
    epochs: tuple[int, int],
    batches: Sequence[write.StateBatch],
) -> None:
    changed = write.PartitionData(0, *epochs, 0, 0, batches)
    request = write.WriteShareGroupStateRequest(group, [write.WriteStateData(topic_id, [changed])])
    answer = await peer.send(apis.WRITE_SHARE_GROUP_STATE, request, timeout_ms=TIMEOUT_MS)
    check(answer.results[0].partitions[0].error_code)


async def joined(bootstrap: str, group: str, topic: str) -> WireMember:
    """Join the group; retry until its coordinator accepts the member."""
    host, port = bootstrap.split(":")
    asking = await Connection.open(host, int(port), client_id="peer", timeout_ms=TIMEOUT_MS)
    # Apache Kafka creates the group coordinator's topic at the first FindCoordinator request.
    request = FindCoordinatorRequest(coordinator_keys=[group])
    await asking.send(apis.FIND_COORDINATOR, request, timeout_ms=TIMEOUT_MS)
    asking.close()
    async with asyncio.timeout(LOADED_S):
        while True:
            try:
                return await WireMember.join(bootstrap, group, topic)
            except RetriableError:
                await asyncio.sleep(RETRY_S)


async def until_acquired(bootstrap: str, group: str, topic: str) -> None:
    """Join and fetch until records are acquired."""
    async with asyncio.timeout(LOADED_S):
        held: list[Held] = []
        while not held:
            member = await joined(bootstrap, group, topic)
            try:
                held = await member.fetch(FETCH_RECORDS, wait_ms=WAIT_MS)
            except RetriableError:
                await asyncio.sleep(RETRY_S)
            member.die()
    if held[0].delivery_count != 2:
        raise Unfinished(f"{held[:3]} after the start: the state was lost")


def check(code: int) -> None:
    if code:
        raise error_from_code(code)


BENCHMARK = Benchmark(
    name="recovery",
    rows=(
        Row(
            key="recovery-range",
            title="kill -9, 1,000,000 in flight in one range: ready to first acquired",
            unit="s",
            target="< 1 s",
        ),
        Row(key="recovery-range-start", title="… start to ready", unit="s"),
        Row(
            key="recovery-fragments",
            title="kill -9, 1,000,000 in flight in 100,000 ranges: ready to first acquired",
            unit="s",
            target="< 1 s",
        ),
        Row(key="recovery-fragments-start", title="… start to ready", unit="s"),
    ),
    run=run,
    fresh_server=True,
)
