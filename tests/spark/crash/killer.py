"""What hits the queries: each lane's strikes, when their time has come."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.servers.running import RunningServer
from tests.spark.crash.lane import Fault, Lane, LaneFolder, Mode, Strike
from tests.spark.crash.program import Program

LOCK_MS = 3_000
AWAY_SECONDS = 1.5 * LOCK_MS / 1000


class Striker:
    """The strikes of one lane, in their order: each is due some batches after the one before."""

    def __init__(self, lane: Lane, folder: Path) -> None:
        self.lane = lane
        self.folder = LaneFolder(folder, lane)
        self._left = list(lane.strikes)
        self._base = 0
        self._due: float | None = None
        self._pause_asked = False

    @property
    def done(self) -> bool:
        return not self._left

    def next(self) -> Strike | None:
        """The strike whose time is now."""
        if not self._left:
            return None
        if self._due is None and self.folder.batches() - self._base >= self._left[0].after:
            self._due = time.monotonic() + self._left[0].delay_s
        return self._left[0] if self._due is not None and time.monotonic() >= self._due else None

    def struck(self) -> None:
        """The strike has happened."""
        self._left.pop(0)
        self._base = self.folder.batches()
        self._due = None
        self._pause_asked = False

    def paused(self) -> bool:
        """Whether the query stands still; the first call asks it to."""
        if not self._pause_asked:
            self.folder.pause.touch()
            self._pause_asked = True
        return self.folder.paused.exists()


class Killer:
    """Strikes all lanes of a round, which share one broker and one program."""

    def __init__(self, server: RunningServer, program: Program, strikers: list[Striker]) -> None:
        self._server = server
        self._program = program
        self._strikers = strikers
        self._chance = random.Random(strikers[0].lane.seed)
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._broker_away = False
        self.log: list[str] = []

    @property
    def done(self) -> bool:
        return not self._later and all(striker.done for striker in self._strikers)

    def look(self) -> None:
        """Do what is due now."""
        now = time.monotonic()
        for entry in [entry for entry in self._later if entry[0] <= now]:
            self._later.remove(entry)
            entry[1]()
        for striker in self._strikers:
            strike = striker.next()
            if strike is not None and self._happens(strike.fault, striker):
                self.log.append(f"{striker.lane.name}: {strike.fault}")
                striker.struck()

    def _happens(self, fault: Fault, striker: Striker) -> bool:
        """Whether it could be done now; it is tried again when not."""
        folder = striker.folder
        match fault:
            case Fault.KILL_DRIVER:
                self._program.kill()
                self._program.start()
            case Fault.KILL_SOURCE:
                return self._signal(self._program.sources(), signal.SIGKILL)
            case Fault.KILL_WORKER:
                return self._signal(self._program.workers(), signal.SIGKILL)
            case Fault.FREEZE_SOURCE:
                return self._signal(self._program.sources(), signal.SIGSTOP)
            case Fault.FAIL_TASKS:
                folder.fail_tasks.touch()
            case Fault.FAIL_SINK if striker.lane.mode is Mode.SINK:
                return self._signal(self._program.committers(), signal.SIGKILL)
            case Fault.FAIL_SINK:
                folder.fail_sink.touch()
            case Fault.KILL_BROKER | Fault.BROKER_AWAY:
                return self._broker_killed(0 if fault is Fault.KILL_BROKER else AWAY_SECONDS)
            case Fault.STOP | Fault.MOVE | Fault.COPY | Fault.RESTORE:
                return self._between_runs(fault, striker)
        return True

    def _signal(self, pids: list[int], number: signal.Signals) -> bool:
        if not pids:
            return False
        pid = self._chance.choice(pids)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        if number is signal.SIGSTOP:
            self._after(AWAY_SECONDS, lambda: self._wake(pid))
        return True

    @staticmethod
    def _wake(pid: int) -> None:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return  # it was killed in its sleep

    def _broker_killed(self, away_s: float) -> bool:
        if self._broker_away:
            return False
        self._server.kill()
        self._broker_away = True
        self._after(away_s, self._broker_back)
        return True

    def _broker_back(self) -> None:
        self._server.start()
        self._broker_away = False

    def _between_runs(self, fault: Fault, striker: Striker) -> bool:
        """The query is stopped first; it goes on when its files are where they should be."""
        if not striker.paused():
            return False
        folder = striker.folder
        state = folder.state
        if fault is Fault.MOVE:
            state.rename(state.with_name("state-moved"))
            folder.use_state("state-moved")
        elif fault is Fault.COPY:
            shutil.copytree(state, folder.copy)
        elif fault is Fault.RESTORE:
            shutil.rmtree(state)
            folder.copy.rename(state)
        folder.paused.unlink()
        return True

    def _after(self, seconds: float, action: Callable[[], object]) -> None:
        self._later.append((time.monotonic() + seconds, action))
