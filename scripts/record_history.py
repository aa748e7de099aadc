"""Runs a plan of `sharegroup simulate` against a real broker that is killed, records what the
clients see, and judges it.

    python scripts/record_history.py --broker sharegroup --kills 5
    python scripts/record_history.py --broker kafka --client java --kills 3 --stops 3 --out h.jsonl
    python scripts/record_history.py --broker fleet --kills 9    # in front of three Kafka brokers
    python scripts/record_history.py --broker fleet --client java --kills 0 --moves 20

Faults of the plan are left out, except that the broker is killed (SIGKILL) so many times, and that
it stands still for longer than a lock lasts (SIGSTOP), or Java's members do. In front of three
Kafka brokers one of these, or the one of ours that serves, is killed in turn; and all that one of
ours leads moves to the other one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sharegroup.check.judge import judged  # noqa: E402
from sharegroup.client.admin.admin import Admin  # noqa: E402
from sharegroup.client.clock import wall_ms  # noqa: E402
from sharegroup.sim.plan import Plan  # noqa: E402
from sharegroup.sim.recorder import Recorder  # noqa: E402
from sharegroup.sim.recording import RecordingMember, RecordingProducer  # noqa: E402
from sharegroup.sim.workload import Workload, groups_of  # noqa: E402
from tests.apache_kafka.broker import KafkaBroker  # noqa: E402
from tests.kills.confluent_member import ConfluentMember  # noqa: E402
from tests.kills.java_members import JavaMembers  # noqa: E402
from tests.servers.running import Killed  # noqa: E402
from tests.servers.sharegroup_server import SharegroupServer  # noqa: E402
from tests.upstream.fleet import Fleet  # noqa: E402

OPTIONS: Final = (
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.record.lock.duration.ms=1000",
    "group.share.max.delivery.count.limit=10",
)
BEAT: Final = "group.share.heartbeat.interval.ms=1000", "group.share.min.heartbeat.interval.ms=1000"
BROKERS: Final = {"sharegroup": SharegroupServer, "kafka": KafkaBroker, "fleet": Fleet}
DRAIN_S: Final = 120
LEADS: Final = re.compile(r"^(\S+ \S+) .* has \d+ of \d+ parts of the state", re.MULTILINE)
Member = RecordingMember | ConfluentMember | JavaMembers


async def record(
    server: Killed,
    plan: Plan,
    members: Sequence[Member],
    faults: Sequence[str],
    history: Recorder,
) -> None:
    """Run the plan, with these faults (``kill``, ``stop``, ``move``) at moments that its seed
    names."""
    chance = Random(f"{plan.seed} kills")
    calm = asyncio.Event()
    calm.set()  # all is written under kills
    producers = [
        RecordingProducer(plan, number, history, server.bootstrap, wall_ms, calm)
        for number in range(plan.producers)
    ]
    turns = count()
    async with Admin(server.bootstrap) as admin:
        workload = Workload(plan, history, admin)
        await workload.set_up()
        tasks = [asyncio.create_task(one.run()) for one in (*producers, *members)]
        does: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": lambda: kill(server, history),
            "stop": lambda: stop(server, members, chance, plan.lock_ms / 1000),
            "move": lambda: move(admin, next(turns)),
        }
        for fault in faults:
            await asyncio.sleep(chance.uniform(0.5, 4))
            await does[fault]()
        await workload.end(producers, DRAIN_S)
        for member in members:
            member.leaves = True
        done, late = await asyncio.wait(tasks, timeout=60)
        for task in late:
            task.cancel()
        for task in done:
            await task


async def kill(server: Killed, history: Recorder) -> None:
    """The broker dies, and is started again."""
    history.tell("kill")
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def move(admin: Admin, turn: int) -> None:
    """One of the brokers, by turns, leads nothing from now on, and the others do again."""
    nodes = sorted(one.node_id for one in (await admin.describe_cluster()).nodes)
    for number, node in enumerate(nodes):
        value = "true" if number == turn % len(nodes) else None
        await admin.alter_configs("broker", str(node), {"node.drain": value})


def moved(output: str) -> Iterator[dict[str, Any]]:
    """When other brokers of ours lead than before, locks and counts of deliveries may be lost as by
    a kill. They say in their logs when that is; the members' histories do not."""
    ahead_s = time.time() - time.monotonic()
    for said in LEADS.findall(output):
        wall_s = datetime.strptime(said, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        yield {"op": "kill", "t": round((wall_s - ahead_s) * 1000, 3)}


async def stop(server: Killed, members: Sequence[Member], chance: Random, lock_s: float) -> None:
    """The broker stands still, or the members of a process of their own."""
    seconds = lock_s * chance.uniform(1.1, 3)
    for one in members:
        if isinstance(one, JavaMembers) and chance.random() < 0.5:
            one.stop()
            await asyncio.sleep(seconds)
            one.go_on()
            return
    pid = server.process.pid
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def members_of(
    plan: Plan, client: str, history: Recorder, write: Callable[[str], object], address: str
) -> list[Member]:
    """The members of all groups."""
    named = [
        (group, f"{group}-member-{number}")
        for group in groups_of(plan)
        for number in range(plan.members)
    ]
    if client == "java":
        return [JavaMembers(plan, ["/".join(one) for one in named], write, address)]
    kind = ConfluentMember if client == "confluent" else RecordingMember
    return [kind(plan, group, name, history, address) for group, name in named]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", choices=[*BROKERS], default="sharegroup")
    parser.add_argument(
        "--client", choices=("sharegroup", "confluent", "java"), default="sharegroup"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=2_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--stops", type=int, default=0, help="so often somebody stands still")
    parser.add_argument(
        "--moves", type=int, default=0, help="so often leaders move (--broker fleet)"
    )
    parser.add_argument("--out", metavar="FILE", help="where the history goes")
    given = parser.parse_args(words)
    if given.moves and given.broker != "fleet":
        parser.error("--moves needs --broker fleet: one broker alone leads everything")
    kafka = given.broker == "kafka"
    plan = replace(
        Plan.drawn(given.seed), records=given.records, faults=(), backoff_ms=0, readers=0
    )
    if kafka:  # it has none of these
        plan = replace(plan, ordered=0, turns=0, priorities=0)
    if given.client != "sharegroup":  # they take whole batches, and do not know of order per key
        plan = replace(plan, ordered=0, locks=0)
    faults = ["kill"] * given.kills + ["stop"] * given.stops + ["move"] * given.moves
    Random(plan.seed).shuffle(faults)
    print(plan)
    lines: list[str] = []
    history = Recorder(time.monotonic, lines.append)
    with tempfile.TemporaryDirectory() as folder:
        options = (*OPTIONS, *BEAT) if kafka else OPTIONS
        server = BROKERS[given.broker](Path(folder), *options)
        with server:
            members = members_of(plan, given.client, history, lines.append, server.bootstrap)
            asyncio.run(record(server, plan, members, faults, history))
            if isinstance(server, Fleet):
                lines += map(json.dumps, moved(server.output()))
    # Java's members write by themselves, a moment after the event.
    lines.sort(key=lambda line: float(json.loads(line)["t"]))
    if given.out:
        Path(given.out).write_text("".join(f"{line}\n" for line in lines))
    verdict = judged(lines)
    for one in verdict.violations[:10]:
        print(f"  {one}")
    print(f"{len(lines):,} events, {len(verdict.violations) + verdict.more} violations")
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    # The broker is gone by our will. Here, since tests call `main` in a process of many tests.
    logging.getLogger("sharegroup").setLevel(logging.ERROR)
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
