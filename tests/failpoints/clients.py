"""What clients do while something happens to a broker: they set up, work, and leave when all is
done. Their plans are small, since each point has a run of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from sharegroup.client.admin.admin import Admin
from sharegroup.client.clock import wall_ms
from sharegroup.model.errors import SharegroupError
from sharegroup.sim.plan import Plan
from sharegroup.sim.recorder import Recorder
from sharegroup.sim.recording import RecordingMember, RecordingProducer
from sharegroup.sim.workload import Workload, groups_of

OPTIONS: Final = (
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.record.lock.duration.ms=1000",
    "group.share.max.delivery.count.limit=10",
    "group.initial.rebalance.delay.ms=0",
)
PLAN: Final = replace(
    Plan.drawn(0),
    partitions=2, producers=1, members=2, groups=1, records=24, keys=3, ordered=0, letters=1,
    transactional=0, turns=0, priorities=0, locks=0, limit=3, lock_ms=1_000, backoff_ms=0,
    release=5, reject=10, slow=0, renew=0, latency_ms=0, readers=0, in_turns=0, workers=0,
    faults=(),
)  # fmt: skip
END_S: Final = 60
LOOK_S: Final = 0.1
LEAVE_S: Final = 30


class Member(Protocol):
    """A member of a share group that records what it does."""

    leaves: bool

    async def run(self) -> None: ...


async def work(
    plan: Plan,
    history: Recorder,
    bootstrap: str,
    calm: asyncio.Event,
    kinds: Sequence[Callable[[Plan, str, str, Recorder, str], Member]] = (RecordingMember,),
    look_s: float = LOOK_S,
) -> None:
    """Do what the plan says, until all is done or for END_S seconds nothing has changed.

    Args:
        calm: see RecordingProducer.
        kinds: what makes the members of a group, by turns.
        look_s: so often, in seconds, it is looked whether all is done.
    """
    async with Admin(bootstrap) as admin:
        workload = Workload(plan, history, admin)
        await _set_up(workload)
        producers = [
            RecordingProducer(plan, number, history, bootstrap, wall_ms, calm)
            for number in range(plan.producers)
        ]
        members = [
            kinds[number % len(kinds)](plan, group, f"member-{number}", history, bootstrap)
            for group in groups_of(plan)
            for number in range(plan.members)
        ]
        tasks = [asyncio.create_task(one.run()) for one in (*producers, *members)]
        await workload.end(producers, END_S, look_s)
        for member in members:
            member.leaves = True
        await asyncio.wait(tasks, timeout=LEAVE_S)


async def _set_up(workload: Workload) -> None:
    while True:
        try:
            await workload.set_up()
        except SharegroupError:
            await asyncio.sleep(0.1)
        else:
            return
