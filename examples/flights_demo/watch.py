"""Watches and kills: asks the broker several times a second how far both groups are, and records
the kills with their times.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rich.progress import Progress, TaskID

from flights_demo.processes import Broker, Child, Victim
from flights_demo.produce import TOPIC
from sharegroup import Admin, SharegroupError

if TYPE_CHECKING:
    from flights_demo.cluster import Fleet

INTERVAL_SECONDS = 0.1
ANSWER_MS = 1_000


class Sample(NamedTuple):
    """One group at one moment (seconds since 1970). None: the broker was away."""

    at: float
    done: int
    in_flight: int | None


@dataclass(slots=True)
class Kill:
    """A kill -9, and the time when the process was back (None: never)."""

    at: float
    name: str
    back: float | None = None


class Watch:
    """See the module.

    Attributes:
        done: per group, how many records are done for good: the sum of its start offsets.
        samples: per group, its progress over time.
        leaders: the name of the broker that led each partition of the topic, over time; empty for
            a broker that is alone.
    """

    def __init__(
        self,
        broker: Broker | Fleet,
        progress: Progress,
        bars: Mapping[str, TaskID],
    ) -> None:
        self.leaders: list[tuple[float, dict[int, str]]] = []
        self.samples: dict[str, list[Sample]] = {group: [] for group in bars}
        self.kills: list[Kill] = []
        self.done = dict.fromkeys(bars, 0)
        self._broker = broker
        self._progress = progress
        self._bars = bars

    async def until(self, condition: Callable[[], bool], *children: Child) -> None:
        """Wait, and watch.

        Raises:
            ChildFailed: the broker or one of ``children`` has ended before that.
        """
        async with Admin(self._broker.address, request_timeout_ms=ANSWER_MS) as admin:
            while not condition():
                for child in (self._broker, *children):
                    child.check()
                await self._look(admin)
                await asyncio.sleep(INTERVAL_SECONDS)

    def leader(self) -> str:
        """The name of the broker that leads most partitions; nothing for a broker that is alone."""
        led = Counter(self.leaders[-1][1].values()) if self.leaders else Counter[str]()
        return max(led, key=led.__getitem__, default="")

    def leads_nothing(self, child: Victim) -> bool:
        """Whether the broker has been seen to lead no partition (any more)."""
        return child.name not in self.leaders[-1][1].values()

    async def kill(self, child: Victim) -> None:
        """kill -9."""
        self.kills.append(Kill(time.time(), child.name))
        self._progress.console.print(f"[red]kill -9[/red] {child.name}")
        await child.kill()
        if child is self._broker:
            for group, samples in self.samples.items():
                samples.append(Sample(time.time(), self.done[group], None))

    def back(self, child: Victim) -> None:
        """A child that was killed runs again."""
        kill = self.kills[-1]
        kill.back = time.time()
        self._progress.console.print(f"{child.name} is back after {kill.back - kill.at:.2f} s")

    async def _look(self, admin: Admin) -> None:
        for group, bar in self._bars.items():
            try:
                offsets = (await admin.list_share_group_offsets(group)).values()
            except SharegroupError:
                continue  # nobody has joined the group yet, or the broker is just coming back
            self.done[group] = sum(one.start_offset or 0 for one in offsets)
            self._progress.start_task(bar)
            self._progress.update(bar, completed=self.done[group])
            held = sum(one.in_flight or 0 for one in offsets)
            self.samples[group].append(Sample(time.time(), self.done[group], held))
        if not isinstance(self._broker, Broker):
            with contextlib.suppress(SharegroupError):
                partitions = (await admin.describe_topics(TOPIC))[TOPIC].partitions
                nodes = self._broker.nodes
                led = {
                    one.partition: nodes[one.leader].name
                    for one in partitions
                    if one.leader in nodes
                }
                self.leaders.append((time.time(), led))
