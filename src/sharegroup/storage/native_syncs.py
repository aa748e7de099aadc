"""Syncs in threads that know nothing of the interpreter. A descriptor tells the event loop when
they are done.

A Python thread waits for the interpreter's lock before and after each sync. Beside a busy loop this
takes milliseconds, and costs the loop more time than the sync itself takes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sharegroup.records.compiled import NativeSyncs, has_native_syncs
from sharegroup.records.walk import LIBRARY
from sharegroup.storage.local_file import BegunSync, LocalFile, SyncFailed, SyncNotStarted

AVAILABLE: Final = has_native_syncs(LIBRARY)


class _Job(NamedTuple):
    """A file that is being synced."""

    file: LocalFile
    begun: BegunSync
    ended: Callable[[LocalFile, OSError | None], None]


class _Batch:
    """Files that are synced together, and the future of the caller that waits for them."""

    def __init__(self, files: Sequence[LocalFile], when_over: Callable[[int], None]) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._files = self._left = len(files)
        self._failures: dict[str, OSError] = {}
        self._when_over = when_over
        if not files:
            self.over.set_result(None)

    def ended(self, file: LocalFile, error: OSError | None) -> None:
        """The sync of one of the files has ended; ``error`` if it has failed."""
        self._left -= 1
        if error is not None:
            self._failures[file.path] = error
        if self._left:
            return
        self._when_over(self._files)
        if self.over.done():  # nobody waits any more
            return
        if self._failures:
            self.over.set_exception(SyncFailed(self._failures))
        else:
            self.over.set_result(None)


class SyncThreads:
    """The threads of one disk; they are started by its first sync, and serve one loop at a time.

    Args:
        when_over: is called after each batch of files that were synced together, with their number.

    Raises:
        OSError: no thread could be started.
    """

    def __init__(self, threads: int, when_over: Callable[[int], None]) -> None:
        assert LIBRARY is not None
        self._when_over = when_over
        self._native = NativeSyncs(LIBRARY, threads)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._jobs: dict[int, _Job] = {}
        self._number = 0

    def sync(self, files: Sequence[LocalFile]) -> asyncio.Future[None]:
        """Sync ``files``, whose names must be durable. The future is done when all of them are
        synced; if one has failed, it has SyncFailed."""
        batch = _Batch(files, self._when_over)
        self._listen()
        for file in files:
            try:
                begun = file.begin_sync()
            except OSError as error:
                batch.ended(file, error)
                continue
            if begun is None:
                batch.ended(file, None)
            else:
                self._submit(_Job(file, begun, batch.ended))
        return batch.over

    def end(self) -> None:
        """Do the syncs that are waiting, then end the threads."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._native.signal_fd)
        self._native.end()

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            loop.add_reader(self._native.signal_fd, self._collect)

    def _submit(self, job: _Job) -> None:
        self._number += 1
        self._jobs[self._number] = job
        try:
            self._native.submit(job.begun.fd, self._number)
        except OSError as error:
            del self._jobs[self._number]
            job.file.end_sync(job.begun, None)
            job.ended(job.file, SyncNotStarted(error.errno, error.strerror, job.file.path))

    def _collect(self) -> None:
        for number, nanoseconds in self._native.collect():
            job = self._jobs.pop(number)
            if nanoseconds < 0:
                job.file.end_sync(job.begun, None)
                job.ended(job.file, OSError(-nanoseconds, os.strerror(-nanoseconds), job.file.path))
            else:
                job.file.end_sync(job.begun, nanoseconds / 1e9)
                job.ended(job.file, None)
