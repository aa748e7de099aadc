"""One round: several seeds on one broker and in one Spark program, struck until all strikes have
fallen, then left alone until the queues are empty, then checked."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from sharegroup.client import Admin
from tests.servers import admin
from tests.servers.admin import produce
from tests.servers.running import RunningServer
from tests.spark.crash.checker import sink_results, violations
from tests.spark.crash.killer import LOCK_MS, Killer, Striker
from tests.spark.crash.lane import Lane, LaneFolder, Mode, lane_of
from tests.spark.crash.program import Program

BROKER_OPTIONS = (
    f"group.share.record.lock.duration.ms={LOCK_MS}",
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.session.timeout.ms=6000",
    "group.share.min.session.timeout.ms=6000",
    "group.share.heartbeat.interval.ms=1000",
    "group.share.min.heartbeat.interval.ms=1000",
    "group.share.delivery.count.limit=10",
)
"""Everything that waits, waits for seconds only."""
ROUND_SECONDS = 600
END_SECONDS = 200
LOOK_SECONDS = 0.02
DRAIN_SECONDS = 0.25


class Stuck(Exception):
    """The queues did not empty; the message says what was left."""


class Round:
    """See the module. `run` returns what is wrong, in sentences."""

    def __init__(self, server: RunningServer, folder: Path, seeds: Sequence[int]) -> None:
        folder.mkdir(exist_ok=True)
        self._server = server
        self._lanes = [lane_of(seed) for seed in seeds]
        self._folder = folder
        self._program = Program(server.bootstrap, folder, seeds)
        self.killer: Killer | None = None

    def run(self) -> list[str]:
        for lane in self._lanes:
            self._prepare(lane)
        strikers = [Striker(lane, self._folder) for lane in self._lanes]
        self.killer = Killer(self._server, self._program, strikers)
        self._program.start()
        try:
            self._strike(self.killer)
            self._drain()
            for lane in self._lanes:
                LaneFolder(self._folder, lane).finish.touch()
            self._program.wait(END_SECONDS)
        finally:
            self._program.kill()
        bootstrap = self._server.bootstrap
        return [
            wrong for lane in self._lanes for wrong in violations(bootstrap, self._folder, lane)
        ]

    def _prepare(self, lane: Lane) -> None:
        LaneFolder(self._folder, lane).prepare()
        setup = admin.Admin(self._server.bootstrap)
        setup.create_topic(lane.name, partitions=lane.partitions)
        setup.create_topic(lane.results)
        for anchor in range(lane.partitions):
            produce(self._server.bootstrap, lane.name, [b"%d" % anchor], partition=anchor)
        others = (b"%d" % number for number in range(lane.partitions, lane.records))
        produce(self._server.bootstrap, lane.name, others)

    def _strike(self, killer: Killer) -> None:
        deadline = time.monotonic() + ROUND_SECONDS
        while not killer.done:
            killer.look()
            self._check_alive(deadline, "not all strikes have fallen")
            threading.Event().wait(LOOK_SECONDS)

    def _drain(self) -> None:
        deadline = time.monotonic() + ROUND_SECONDS
        while left := asyncio.run(self._left()):
            self._check_alive(deadline, f"records left: {left}")
            threading.Event().wait(DRAIN_SECONDS)

    async def _left(self) -> dict[str, list[int | None]]:
        """Of each lane that is not done, the lags of its partitions. Of claimed records the broker
        knows no lag."""
        left = {}
        async with Admin(self._server.bootstrap) as client:
            for lane in self._lanes:
                known = await client.list_share_group_offsets(lane.name)
                lags = [state.lag for state in known.values()]
                if lags != lane.last_lags or not self._are_processed(lane):
                    left[lane.name] = lags
        return left

    def _are_processed(self, lane: Lane) -> bool:
        if lane.mode is not Mode.CLAIM:
            return True
        rows, _ = sink_results(lane, LaneFolder(self._folder, lane).sink)
        return len({row.number for row in rows}) == lane.records

    def _check_alive(self, deadline: float, what: str) -> None:
        if self._program.failed() or time.monotonic() > deadline:
            assert self.killer is not None
            raise Stuck(f"{what}\n{self.killer.log}\n{self._program.tail()}")
