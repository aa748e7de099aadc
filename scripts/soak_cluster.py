"""Lets brokers die, stand still and restart in front of a Kafka cluster whose own brokers die as
well, under load: `make soak-cluster`.

Three brokers of ours share the work in front of three of Apache Kafka. The first one of ours may
lose what it says to the cluster or what it is told, in one direction. After each fault the longest
time is taken that any record waited, from its write to its first delivery. At the end `sharegroup
check` judges what the clients saw. The exit status is 1 if a rule does not hold.

    make soak-cluster                                    # about an hour
    make soak-cluster ARGS="--kills 5 --stops 1 --restarts 1 --cluster-kills 2"
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, TextIO

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rich.progress import Progress  # noqa: E402

from sharegroup.check.judge import judged  # noqa: E402
from sharegroup.client.admin.admin import Admin  # noqa: E402
from sharegroup.client.clock import wall_ms  # noqa: E402
from sharegroup.sim.plan import Plan  # noqa: E402
from sharegroup.sim.recorder import Recorder  # noqa: E402
from sharegroup.sim.recording import RecordingMember, RecordingProducer  # noqa: E402
from sharegroup.sim.workload import Workload, groups_of  # noqa: E402
from tests.apache_kafka.three_brokers import ThreeBrokers  # noqa: E402
from tests.servers import family  # noqa: E402
from tests.servers.lossy_gate import Loss, LossyGate  # noqa: E402
from tests.servers.sharegroup_server import SharegroupServer  # noqa: E402

PLAN: Final = replace(
    Plan.drawn(0),
    partitions=12, producers=1, members=6, groups=1, records=10_000_000, keys=1_000, ordered=0,
    letters=0, transactional=0, turns=0, priorities=0, locks=0, limit=10, lock_ms=5_000,
    backoff_ms=0, release=0, reject=0, slow=0, renew=0, latency_ms=0, readers=0, in_turns=0,
    workers=0, compacted=0, faults=(),
)  # fmt: skip
NODES: Final = 3
LOSSY: Final = 0
"""The one that may lose what it says to the cluster."""
SHORT_LOCKS: Final = f"group.share.min.record.lock.duration.ms={PLAN.lock_ms}"
PAUSES_S: Final = (0.5,)
"""Between writes of some dozen records: fewer than the members can take, or each record would wait
for the ones before it."""
KILL: Final = "kill -9 of a broker of ours"
STOP: Final = "SIGSTOP of a broker of ours for 15 s"
RESTART: Final = "SIGTERM and start of a broker of ours"
CLUSTER_KILL: Final = "kill -9 of a broker of Kafka"
LOSSES: Final = {f"{what.value} of a broker of ours are lost for 10 s": what for what in Loss}
STOPPED_S: Final = 15
LOST_S: Final = 10
DRAIN_S: Final = 120
BEFORE_MS: Final = 500
"""Records that are written so long before a fault may have to wait for it."""


class Happened(NamedTuple):
    """A fault, and the time of the next one, in milliseconds of the history."""

    kind: str
    at_ms: float
    until_ms: float


class Soak:
    """One run, in a folder of its own."""

    def __init__(self, folder: Path, out: TextIO | None) -> None:
        self.lines: list[str] = []
        self._out = out
        self.history = Recorder(time.monotonic, self._write)
        self.faults: list[Happened] = []
        self._gates = [LossyGate() for _ in range(3)]
        self._cluster = ThreeBrokers(folder, self._gates)
        self._nodes: list[SharegroupServer] = []
        for number in range(NODES):
            own = folder / f"node-{number}"
            own.mkdir()
            ports = [gate.port for gate in self._gates]
            through = ",".join(f"127.0.0.1:{port}" for port in ports)
            upstream = ["--upstream", through if number == LOSSY else self._cluster.bootstrap]
            self._nodes.append(SharegroupServer(own, SHORT_LOCKS, arguments=upstream))
        self._chance = Random(0)

    def _write(self, line: str) -> None:
        self.lines.append(line)
        if self._out is not None:
            self._out.write(f"{line}\n")

    async def run(self, kinds: Sequence[str]) -> None:
        """Let these faults happen, one after the other."""
        with self._cluster, contextlib.ExitStack() as stack:
            for gate in self._gates:
                stack.enter_context(gate)
            for node in self._nodes:
                stack.enter_context(node)
            await self._under_load(kinds)

    async def _under_load(self, kinds: Sequence[str]) -> None:
        bootstrap = ",".join(node.bootstrap for node in self._nodes)
        calm = asyncio.Event()
        producer = RecordingProducer(
            PLAN, 0, self.history, self._cluster.bootstrap, wall_ms, calm, PAUSES_S
        )
        members = [
            RecordingMember(PLAN, group, f"member-{number}", self.history, bootstrap)
            for group in groups_of(PLAN)
            for number in range(PLAN.members)
        ]
        async with Admin(bootstrap) as admin:
            workload = Workload(PLAN, self.history, admin)
            await workload.set_up()
            writing = asyncio.create_task(producer.run())
            tasks = [asyncio.create_task(one.run()) for one in members]
            await asyncio.sleep(3)
            with Progress() as progress:
                for kind in progress.track(kinds, description="faults"):
                    await self._let_happen(kind)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            producer.done = True
            await workload.end([producer], DRAIN_S)
            for member in members:
                member.leaves = True
            await asyncio.wait(tasks, timeout=60)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _let_happen(self, kind: str) -> None:
        began_ms = self.history.now_ms()
        node = self._chance.choice(self._nodes)
        self.history.tell("kill", kind=kind)
        if kind == CLUSTER_KILL:
            broker = self._chance.choice(self._cluster.brokers)
            await asyncio.to_thread(broker.kill)
            await asyncio.sleep(6)
            broker.process.start()
            await asyncio.to_thread(self._cluster.wait_for, broker)
        elif kind in LOSSES:
            for gate in self._gates:
                gate.lose(LOSSES[kind])
            await asyncio.sleep(LOST_S)
            for gate in self._gates:
                gate.lose(None)
            self.history.tell("kill")
        elif kind == STOP:
            os.kill(node.process.pid, signal.SIGSTOP)
            await asyncio.sleep(STOPPED_S)
            os.kill(node.process.pid, signal.SIGCONT)
            self.history.tell("kill")
        else:
            await asyncio.to_thread(node.kill if kind == KILL else node.stop)
            await asyncio.sleep(2)
            await asyncio.to_thread(node.start)
            self.history.tell("kill")  # parts go to it, and records in flight come again
        await asyncio.sleep(3)
        # What is written in the last moment may have to wait for the next fault.
        self.faults.append(Happened(kind, began_ms, self.history.now_ms() - BEFORE_MS))

    def tracebacks(self) -> list[str]:
        """The names of brokers whose log has one."""
        return [one.bootstrap for one in self._nodes if "Traceback" in one.output()]


class Waited(NamedTuple):
    """The record that waited longest of those written around a fault; times in seconds after it."""

    seconds: float
    partition: int = -1
    offset: int = -1
    written_s: float = 0.0
    next_s: float = 0.0

    def __str__(self) -> str:
        """Where it was, and whether it waited for the next fault as well."""
        got_s = self.written_s + self.seconds
        return (
            f"partition {self.partition}, offset {self.offset}: written at {self.written_s:.2f} s, "
            f"got at {got_s:.2f} s; the next fault came after {self.next_s:.2f} s"
        )


def waits(lines: Iterable[str], faults: Sequence[Happened]) -> dict[str, list[Waited]]:
    """Kind of fault → the record that waited longest of those written from half a second before
    each fault on, until the next one; sorted."""
    written: dict[tuple[int, int], float] = {}
    first: dict[tuple[int, int], float] = {}
    for line in lines:
        event = json.loads(line)
        if event["op"] == "produced" and "offset" in event:
            written[event["partition"], event["offset"]] = event["t"]
        elif event["op"] == "polled":
            for _, partition, start, end, _ in event["acquired"]:
                for offset in range(start, end + 1):
                    first.setdefault((partition, offset), event["t"])
    found: dict[str, list[Waited]] = {}
    for kind, at_ms, until_ms in faults:
        next_s = (until_ms + BEFORE_MS - at_ms) / 1000
        longest = [
            Waited((first[where] - at) / 1000, *where, (at - at_ms) / 1000, next_s)
            for where, at in written.items()
            if at_ms - BEFORE_MS <= at < until_ms and where in first
        ]
        found.setdefault(kind, []).append(max(longest, default=Waited(0.0)))
    return {kind: sorted(each) for kind, each in found.items()}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="of brokers of ours (100)")
    parser.add_argument("--stops", type=int, default=50, help="of brokers of ours (50)")
    parser.add_argument("--restarts", type=int, default=60, help="of brokers of ours (60)")
    parser.add_argument("--cluster-kills", type=int, default=30, help="of brokers of Kafka (30)")
    parser.add_argument("--losses", type=int, default=12, help="of packets, in one direction (12)")
    parser.add_argument("--out", metavar="FILE", help="where the history goes")
    given = parser.parse_args(words)
    kinds = [KILL] * given.kills + [STOP] * given.stops
    kinds += [RESTART] * given.restarts + [CLUSTER_KILL] * given.cluster_kills
    kinds += [*islice(cycle(LOSSES), given.losses)]
    Random(0).shuffle(kinds)
    family.begin()
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(open(given.out, "w", buffering=1)) if given.out else None
        soak = Soak(Path(stack.enter_context(tempfile.TemporaryDirectory())), out)
        asyncio.run(soak.run(kinds))
        broken = soak.tracebacks()
    print("the longest that a record waited, by fault, in seconds:")
    print(f"{'':40} {'faults':>7} {'median':>7} {'95 %':>7} {'most':>7}")
    for kind, each in waits(soak.lines, soak.faults).items():
        middle, late, most = (
            one.seconds for one in (each[len(each) // 2], each[len(each) * 95 // 100], each[-1])
        )
        print(f"{kind:40} {len(each):7} {middle:7.2f} {late:7.2f} {most:7.2f}")
        print(f"  {each[-1]}")
    verdict = judged(soak.lines)
    for one in verdict.violations[:10]:
        print(f"  {one}")
    for name in broken:
        print(f"  a traceback in the log of {name}")
    print(f"{len(soak.lines):,} events, {len(verdict.violations) + verdict.more} violations")
    return 1 if verdict.violations or broken else 0


if __name__ == "__main__":
    logging.getLogger("sharegroup").setLevel(logging.CRITICAL)
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
