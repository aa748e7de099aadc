"""Group commit: one flusher for a whole data folder (design: every database's commit log).

An append marks its log dirty. At the end of the loop's step the files of dirty logs are synced,
each log by itself, :data:`LOGS_MAX` at the same time; then its high watermark advances. A log that
becomes dirty while it is synced, or while it waits for its turn, is synced once for all that was
appended until then, so under load one sync serves many requests. No log waits for another one's
files, only for a free thread.

A failed sync is final (fsyncgate: the kernel forgets the pages it could not write): its log goes
out of service. A sync that could not start, because no descriptor or thread was available, has lost
nothing: its callers keep waiting, and it is retried until it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Final, Protocol

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.histogram import Histogram
from sharegroup.storage.disk import SYNC_THREADS, SyncFailed, SyncNotStarted
from sharegroup.storage.failures import DiskFailures


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


LOGS_MAX: Final = SYNC_THREADS
"""Logs that are synced at the same time. More would wait for a thread, and what is appended to them
meanwhile would need another sync."""

RETRY_S: Final = 0.1
"""How long, in seconds, until a sync that could not begin is retried."""
PATIENCE_S: Final = 5.0
"""How long :meth:`Flusher.idle` waits for syncs that cannot begin."""


class Flusher:
    """Syncs the logs of one data folder. A log is in one sync at a time."""

    def __init__(self, disk: Disk, failures: DiskFailures) -> None:
        self._disk = disk
        self._failures = failures
        self._postponed: dict[Flushable, asyncio.TimerHandle] = {}
        self._dirty: dict[Flushable, None] = {}
        self._running: dict[Flushable, asyncio.Future[None]] = {}
        self._scheduled = False
        self.seconds = Histogram()
        """How long each sync took."""

    def request(self, log: Flushable) -> None:
        """Flush ``log`` in its next sync, which also covers later appends of this loop step."""
        if log not in self._postponed and log not in self._dirty:
            self._dirty[log] = None
            self._schedule()

    def forget(self, log: Flushable) -> None:
        """Start no further sync for ``log``; a running one goes on to its end."""
        self._dirty.pop(log, None)
        timer = self._postponed.pop(log, None)
        if timer is not None:
            timer.cancel()

    async def idle(self) -> None:
        """Return when nothing is synced and nothing is dirty. Syncs that cannot begin are waited
        for only :data:`PATIENCE_S`.
        """
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + PATIENCE_S
        while self._dirty or self._running or (self._postponed and now_s() < until_s):
            self._begin()
            await (self.running_over() if self._running else asyncio.sleep(RETRY_S))

    async def running_over(self) -> None:
        """Return when the syncs that run now have ended. After that, only files marked dirty since
        then are being synced.
        """
        if self._running:
            await asyncio.wait(set(self._running.values()))

    def _schedule(self) -> None:
        if not self._scheduled and len(self._running) < LOGS_MAX:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Start the syncs of dirty logs, those that have waited longest first."""
        self._scheduled = False
        loop = asyncio.get_running_loop()
        room = LOGS_MAX - len(self._running)
        free = (log for log in self._dirty if log not in self._running)
        for log in list(islice(free, max(0, room))):
            del self._dirty[log]
            files = log.begin_flush()
            sync = asyncio.ensure_future(self._disk.sync(files))
            self._running[log] = sync
            sync.add_done_callback(partial(self._ended, log, files, loop.time()))

    def _ended(
        self, log: Flushable, files: Sequence[DiskFile], began_s: float, sync: asyncio.Future[None]
    ) -> None:
        del self._running[log]
        if sync.cancelled():  # the loop is closed: nobody waits any more
            return
        error = sync.exception()
        if isinstance(error, SyncFailed):
            failures = [*error.failures.values()]
        elif isinstance(error, OSError):  # the files that failed are unknown: none can be trusted
            failures = [error]
        elif error is not None:
            raise error
        else:
            failures = []
        self.seconds.observe(asyncio.get_running_loop().time() - began_s)
        self._end(log, files, failures)
        if self._dirty:
            self._schedule()

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
