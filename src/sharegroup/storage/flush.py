"""Group commit: one flusher for a whole data folder (design: every database's commit log).

An append marks its log dirty. A *round* syncs the files of all logs dirty at its start, in
parallel, and then moves their high watermarks. Rounds never overlap; the next one starts at once
when something is dirty. What is appended while a round runs is covered by the next one, so under
load one sync pays for many requests.

A failed sync is final (fsyncgate: the kernel forgets the pages it could not write): its log goes
out of service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.storage.disk import SyncFailed


class Flushable(Protocol):
    """A log as the flusher sees it."""

    def begin_flush(self) -> Sequence[DiskFile]:
        """The files to sync; the log remembers how far they reach."""
        ...

    def end_flush(self) -> None:
        """All files of :meth:`begin_flush` are durable."""
        ...

    def flush_failed(self, error: OSError) -> None:
        """At least one of them is not, and never will be."""
        ...


class Flusher:
    """Runs the rounds of one data folder."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._dirty: dict[Flushable, None] = {}
        self._rounds: asyncio.Task[None] | None = None
        self._round_over: asyncio.Future[None] | None = None
        self.rounds = 0
        """Rounds ended so far."""

    def request(self, log: Flushable) -> None:
        """Flush ``log`` in the next round. What the loop runs before the task starts is in the same
        round.
        """
        self._dirty[log] = None
        if self._rounds is None:
            self._rounds = asyncio.get_running_loop().create_task(self._run())

    def forget(self, log: Flushable) -> None:
        """No further round for ``log``; one that runs may still end."""
        self._dirty.pop(log, None)

    async def idle(self) -> None:
        """Return when no round runs and nothing is dirty."""
        while self._rounds is not None:
            await asyncio.shield(self._rounds)

    async def round_over(self) -> None:
        """Return when the round that runs now has ended: no file is then being synced that nobody
        marked since.
        """
        if self._round_over is not None:
            await asyncio.shield(self._round_over)

    async def _run(self) -> None:
        try:
            while self._dirty:
                logs, self._dirty = self._dirty, {}
                self._round_over = asyncio.get_running_loop().create_future()
                await self._round(list(logs))
                self._round_over.set_result(None)
                self._round_over = None
        finally:
            self._rounds = None

    async def _round(self, logs: list[Flushable]) -> None:
        files_of = [(log, log.begin_flush()) for log in logs]
        failures: dict[str, OSError] = {}
        try:
            await self._disk.sync([file for _, files in files_of for file in files])
        except SyncFailed as error:
            failures = error.failures
        except OSError as error:  # a disk that does not say which: none of them can be trusted
            failures = {file.path: error for _, files in files_of for file in files}
        self.rounds += 1
        for log, files in files_of:
            failure = next((failures[file.path] for file in files if file.path in failures), None)
            if failure is None:
                log.end_flush()
            else:
                log.flush_failed(failure)
