"""The cost of 10,000 idle share groups with one member each.

All members join over one connection, and each has a share partition assigned. Memory is the growth
of the server's resident set since before the first group; CPU is that of 10,000 heartbeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import uuid4

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.wire_member import COORDINATOR_IS_COMING, until_coordinated
from sharegroup.client.network.connection import Connection
from sharegroup.model.errors import error_from_code
from sharegroup.wire import apis
from sharegroup.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

GROUPS = 10_000
IN_FLIGHT = 100
KIB = 1024
TIMEOUT_MS = 120_000
JOIN_SECONDS = 300


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    topic = bench.new_topic(1)
    return asyncio.run(measured(bench, topic, bench.scale.records(GROUPS)))


async def measured(bench: Bench, topic: str, groups: int) -> dict[str, float]:
    host, port = bench.bootstrap.split(":")
    connection = await Connection.open(host, int(port), client_id="bench", timeout_ms=TIMEOUT_MS)
    members = [Member(connection, f"group-{n}", topic) for n in range(groups)]
    await until_coordinated(connection, "group-0")
    await beat_all(members[:1])  # creates the internal topics
    before = bench.server.usage().memory_bytes
    async with asyncio.timeout(JOIN_SECONDS):
        while waiting := [member for member in members if not member.assigned]:
            await beat_all(waiting)
    memory = (bench.server.usage().memory_bytes - before) / groups
    found: dict[str, float] = {"group-memory": memory / KIB}
    with bench.cpu_per_record(found, "group-heartbeat-cpu", groups):
        await beat_all(members)
    connection.close()
    return found


class Member:
    """One member of a group of its own."""

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self.assigned = False
        self._connection = connection
        self._group = group
        self._topic = topic
        self._id = str(uuid4())
        self._epoch = 0

    async def beat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self._epoch,
            subscribed_topic_names=None if self.assigned else [self._topic],
        )
        answer: ShareGroupHeartbeatResponse = await self._connection.send(
            apis.SHARE_GROUP_HEARTBEAT, request, timeout_ms=TIMEOUT_MS
        )
        if answer.error_code in COORDINATOR_IS_COMING:
            return
        if answer.error_code:
            raise error_from_code(answer.error_code)
        self._epoch = answer.member_epoch
        if answer.assignment is not None and answer.assignment.topic_partitions:
            self.assigned = True


async def beat_all(members: Iterable[Member]) -> None:
    """Send one heartbeat of each member, a limited number at the same time."""
    turn = asyncio.Semaphore(IN_FLIGHT)

    async def one(member: Member) -> None:
        async with turn:
            await member.beat()

    async with asyncio.TaskGroup() as tasks:
        for member in members:
            tasks.create_task(one(member))


BENCHMARK = Benchmark(
    name="groups",
    rows=(
        Row(key="group-memory", title="10,000 share groups: memory per group", unit="KiB"),
        Row(key="group-heartbeat-cpu", title="10,000 members: CPU per heartbeat", unit="µs"),
    ),
    run=run,
    fresh_server=True,
)
