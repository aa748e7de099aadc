"""The real disk: the one module of the shell that calls ``os``.

An append is whole or not at all: what a failing write has left behind is cut off again. A sync runs
off the loop's thread, several files in parallel, and also syncs the folder of a file that this
process has created.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from sharegroup.model.environment import DiskFile

SYNC_THREADS: Final = 4
"""Files synced at the same time: disks gain from a few, and each thread costs 8 MB of address
space.
"""

QUICK_SYNC_S: Final = 0.0005
"""A disk whose syncs usually take less does not make the event loop late."""

_BUFFERS_MAX: Final = 512
"""Buffers of one writev; the system's own limit is 1,024."""


class SyncFailed(OSError):
    """Some files could not be synced: what was written to them since the last sync may be lost, for
    ever.
    """

    def __init__(self, failures: dict[str, OSError]) -> None:
        first = next(iter(failures.values()))
        super().__init__(first.errno, f"sync failed: {first.strerror}", next(iter(failures)))
        self.failures = failures


class LocalFile:
    """One open file, appended to by one process only."""

    def __init__(self, path: str) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_APPEND
        self.folder_dirty = False
        try:
            self._fd = os.open(path, flags)
        except FileNotFoundError:
            self._fd = os.open(path, flags | os.O_CREAT, 0o644)
            self.folder_dirty = True
        self._size = os.fstat(self._fd).st_size

    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def pread(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from ``position``; fewer only at the end of the file."""
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        while data and (size := size - len(data)):
            position += len(data)
            data = os.pread(self._fd, size, position)
            parts.append(data)
        return b"".join(parts)

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        """Write all of it at the end, or leave the file as it was and raise OSError."""
        buffers = [data] if isinstance(data, bytes) else data
        total = sum(map(len, buffers))
        try:
            if len(buffers) <= _BUFFERS_MAX and (written := os.writev(self._fd, buffers)) == total:
                self._size += total
                return
            rest = memoryview(b"".join(buffers))
            if len(buffers) <= _BUFFERS_MAX:
                rest = rest[written:]
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            self._size += total
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        os.ftruncate(self._fd, size)
        self._size = size

    def sync(self) -> None:
        """Block until data, size and (for a new file) name are on stable storage."""
        if self.folder_dirty:
            _sync_folder(os.path.dirname(self.path))
            self.folder_dirty = False
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class LocalDisk:
    """``model.environment.Disk`` on the machine's file system."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="sharegroup-sync")
        self._locks: dict[str, int] = {}
        self._usual_sync_s = 2 * QUICK_SYNC_S

    def open(self, path: str) -> LocalFile:
        """Open for reading and appending; created when missing."""
        return LocalFile(path)

    async def sync(self, files: Sequence[DiskFile]) -> None:
        """Sync all ``files``, at most four at a time, in one thread hop per thread.

        A single file on a disk that has been quick of late is synced at once, on the loop's thread:
        the way to a thread and back would take longer than the sync.

        Raises:
            SyncFailed: with the path and error of each file that failed; the others are synced.
        """
        failures: dict[str, OSError] = {}
        if len(files) == 1 and self._usual_sync_s < QUICK_SYNC_S:
            self._take_in(_sync_files(files), failures)
        else:
            loop = asyncio.get_running_loop()
            shares = [files[first::SYNC_THREADS] for first in range(min(SYNC_THREADS, len(files)))]
            hops = [loop.run_in_executor(self._pool, _sync_files, share) for share in shares]
            for hop in hops:
                self._take_in(await hop, failures)
        if failures:
            raise SyncFailed(failures)

    def _take_in(self, synced: Synced, failures: dict[str, OSError]) -> None:
        """Note failures, and how long a sync usually takes: one slow one is felt for about 20."""
        failures.update(synced.failures)
        self._usual_sync_s += (synced.seconds_per_file - self._usual_sync_s) * 0.1

    def read_file(self, path: str) -> bytes:
        """All bytes of a small file."""
        with open(path, "rb") as file:
            return file.read()

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file durably: temporary name, fsync, rename, fsync of the folder."""
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        return os.path.exists(path)

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        return sorted(os.listdir(path))

    def make_folder(self, path: str) -> None:
        """Make a folder, with its parents, durably; nothing happens when it is there."""
        if not os.path.isdir(path):
            os.makedirs(path, exist_ok=True)
            _sync_folder(os.path.dirname(os.path.abspath(path)))

    def rename(self, old: str, new: str) -> None:
        """Rename durably."""
        os.rename(old, new)
        _sync_folder(os.path.dirname(new))

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder; nothing happens when it is gone."""
        try:
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.remove(path)
        except FileNotFoundError:
            return

    def lock(self, path: str) -> None:
        """Hold ``path`` as a lock file.

        Raises:
            BlockingIOError: it is held already, by another process or by this one.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        self._locks[path] = fd

    def unlock(self, path: str) -> None:
        """Give the lock back; nothing happens when it is not held."""
        fd = self._locks.pop(path, None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        """End the sync threads."""
        self._pool.shutdown()


class Synced(NamedTuple):
    """What one thread's syncs came to."""

    failures: dict[str, OSError]
    seconds_per_file: float


def _sync_files(files: Sequence[DiskFile]) -> Synced:
    failures = {}
    started = time.perf_counter()
    for file in files:
        assert isinstance(file, LocalFile), "a disk syncs its own files only"
        try:
            file.sync()
        except OSError as error:
            failures[file.path] = error
    return Synced(failures, (time.perf_counter() - started) / max(1, len(files)))


def _sync_folder(path: str) -> None:
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
