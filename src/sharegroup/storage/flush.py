"""Group commit: one flusher for a whole data folder (design: every database's commit log).

An append marks its log dirty. A *round* syncs the files of the logs that are dirty at its start, in
parallel, and then advances their high watermarks. A log is in one round at a time. If a log is
dirty when a round ends, the next round starts at once. It covers everything that was appended
meanwhile, so under load one sync serves many requests.

A failed sync is final (fsyncgate: the kernel forgets the pages it could not write): its log goes
out of service. A sync that could not start, because no descriptor or thread was available, has lost
nothing: its callers keep waiting, and it is retried until it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.histogram import Histogram
from sharegroup.storage.disk import SyncFailed, SyncNotStarted
from sharegroup.storage.failures import Failures


class Flushable(Protocol):
    """A log as the flusher sees it."""

    def begin_flush(self) -> Sequence[DiskFile]:
        """The files to sync. The log notes the end offset that their sync makes durable."""
        ...

    def end_flush(self) -> None:
        """The files of :meth:`begin_flush` are synced."""
        ...

    def flush_failed(self, error: OSError) -> None:
        """At least one file is not durable, and never will be."""
        ...

    def flush_postponed(self, files: Sequence[DiskFile]) -> None:
        """The sync of these files has not begun: the next :meth:`begin_flush` must return them."""
        ...


ROUNDS_MAX: Final = 2
"""Rounds at the same time. Two let an acknowledgement's sync start while a produce's sync runs, and
the reverse. More rounds would only share one sync among fewer requests.
"""


FEW_LOGS: Final = 2
"""Logs in the running round up to which a second one may start. With more, requests come fast, and
rounds of many logs cost less than the wait."""

RETRY_S: Final = 0.1
"""How long, in seconds, until a sync that could not begin is retried."""
PATIENCE_S: Final = 5.0
"""How long :meth:`Flusher.idle` waits for syncs that cannot begin."""


class Flusher:
    """Runs the rounds of one data folder. A log is in one round at a time."""

    def __init__(self, disk: Disk, failures: Failures) -> None:
        self._disk = disk
        self._failures = failures
        self._postponed: dict[Flushable, asyncio.TimerHandle] = {}
        self._dirty: dict[Flushable, None] = {}
        self._syncing: set[Flushable] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._scheduled = False
        self.rounds = 0
        """Rounds ended so far."""
        self.seconds = Histogram()
        """How long each took."""

    def request(self, log: Flushable) -> None:
        """Flush ``log`` in the next round, which also covers later appends of this loop step."""
        if log in self._postponed:
            return
        if log not in self._dirty:  # else a round is scheduled, or is when a running one ends
            self._dirty[log] = None
            self._schedule()

    def forget(self, log: Flushable) -> None:
        """Start no further round for ``log``; a running one goes on to its end."""
        self._dirty.pop(log, None)
        timer = self._postponed.pop(log, None)
        if timer is not None:
            timer.cancel()

    async def idle(self) -> None:
        """Return when no round runs and nothing is dirty. Syncs that cannot begin are waited for
        only :data:`PATIENCE_S`.
        """
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + PATIENCE_S
        while self._dirty or self._running or (self._postponed and now_s() < until_s):
            self._schedule()
            await (self.round_over() if self._running else asyncio.sleep(RETRY_S))

    async def round_over(self) -> None:
        """Return when the current rounds have ended. After that, only files marked dirty since then
        are being synced.
        """
        if self._running:
            await asyncio.wait(set(self._running))

    def _schedule(self) -> None:
        """Start a round if there are dirty logs and no other round is about to take them."""
        if (
            self._scheduled
            or len(self._running) >= (ROUNDS_MAX if len(self._syncing) <= FEW_LOGS else 1)
            or self._dirty.keys() <= self._syncing
        ):
            return
        self._scheduled = True
        task = asyncio.get_running_loop().create_task(self._round())
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._schedule()

    async def _round(self) -> None:
        self._scheduled = False
        logs = [log for log in self._dirty if log not in self._syncing]
        for log in logs:
            del self._dirty[log]
        self._syncing.update(logs)
        files_of = [(log, log.begin_flush()) for log in logs]
        failures: dict[str, OSError] = {}
        now_s = asyncio.get_running_loop().time
        started = now_s()
        try:
            await self._disk.sync([file for _, files in files_of for file in files])
        except SyncFailed as error:
            failures = error.failures
        except OSError as error:  # the files that failed are unknown: none can be trusted
            failures = {file.path: error for _, files in files_of for file in files}
        self.rounds += 1
        self.seconds.observe(now_s() - started)
        self._syncing.difference_update(logs)
        for log, files in files_of:
            self._end(log, files, [failures[f.path] for f in files if f.path in failures])

    def _end(self, log: Flushable, files: Sequence[DiskFile], failures: Sequence[OSError]) -> None:
        lost = [error for error in failures if not isinstance(error, SyncNotStarted)]
        if lost:
            log.flush_failed(lost[0])
        elif failures:
            self._failures.refusal("a sync", failures[0])
            log.flush_postponed(files)
            self._dirty.pop(log, None)
            loop = asyncio.get_running_loop()
            self._postponed[log] = loop.call_later(RETRY_S, self._retry, log)
        else:
            log.end_flush()

    def _retry(self, log: Flushable) -> None:
        del self._postponed[log]
        self.request(log)
