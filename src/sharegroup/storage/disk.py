"""The real disk: only this module, ``local_file``, ``local_range``, ``native_syncs`` and
``timed_sync`` call ``os`` in the shell.

A sync runs off the loop's thread, several files in parallel (``native_syncs``), and also syncs the
folder of a file that this process has created, once for all files of a folder.

A locked folder is held by its descriptor, and all paths in it are resolved from there. Renaming the
folder, or creating another one with its name, does not affect the process that holds it.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from sharegroup.model.environment import DiskFile
from sharegroup.storage.descriptors import CACHED_MAX
from sharegroup.storage.local_file import (
    Home,
    LocalFile,
    SyncFailed,
    SyncNotStarted,
    no_memory,
    write_all,
)
from sharegroup.storage.native_syncs import AVAILABLE, SyncThreads

__all__ = ["LocalDisk", "LocalFile", "SyncFailed", "SyncNotStarted"]

SYNC_THREADS: Final = 4
"""Files synced at the same time. Disks are faster with a few in parallel; each thread costs 8 MB of
address space.
"""

QUICK_SYNC_S: Final = 0.0005
"""A disk whose syncs usually take less does not make the event loop late."""

_T = TypeVar("_T")
_A = TypeVar("_A")


class LocalDisk:
    """``model.environment.Disk`` on the machine's file system.

    ``files_max``: descriptors kept for files that could do without one.
    """

    def __init__(self, files_max: int = CACHED_MAX) -> None:
        self.home = Home(files_max)
        self._pool = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="sharegroup-sync")
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="sharegroup-folders")
        self._locks: dict[str, tuple[int, ...]] = {}
        self._native: SyncThreads | None = None
        self._usual_sync_s = 2 * QUICK_SYNC_S

    def open(self, path: str) -> LocalFile:
        """Open for reading and appending; created when missing."""
        return LocalFile(path, self.home)

    def sync(self, files: Sequence[DiskFile]) -> Awaitable[None]:
        """Sync all ``files``, at most four at a time. Callers should keep the files of one folder
        next to each other.

        Where the library was compiled, files whose names are durable are synced by its threads,
        which run no Python. All other files are synced by Python's threads, in one hop for each
        thread. But a single file on a disk whose recent syncs were quick is then synced on the
        loop's own thread: the hop would take longer than the sync.

        Raises:
            SyncFailed: has the path and error of each file that failed; the others are synced.
        """
        own = [file for file in files if isinstance(file, LocalFile)]
        assert len(own) == len(files), "a disk syncs its own files only"
        native = None if any(file.folder_dirty for file in own) else self._sync_threads()
        return self._hop_and_sync(own) if native is None else native.sync(own)

    def _sync_threads(self) -> SyncThreads | None:
        """The threads that run no Python; None if there is no compiled library for them."""
        if self._native is None and AVAILABLE:
            try:
                self._native = SyncThreads(SYNC_THREADS, self.home.descriptors.trim)
            except OSError:  # too many threads in this process: Python's threads report it
                return None
        return self._native

    async def _hop_and_sync(self, files: Sequence[LocalFile]) -> None:
        """Sync ``files`` in Python's threads."""
        failures: dict[str, OSError] = {}
        if len(files) == 1 and self._usual_sync_s < QUICK_SYNC_S:
            self._take_in(_sync_files(files), failures)
        else:
            size = max(1, -(-len(files) // SYNC_THREADS))
            shares = [files[first : first + size] for first in range(0, len(files), size)]
            hops = [_hop(self._pool, _sync_files, share) for share in shares]
            for share, hop in zip(shares, hops, strict=True):
                try:
                    self._take_in(await hop, failures)
                except SyncNotStarted as error:
                    failures.update((file.path, error) for file in share)
        self.home.descriptors.trim(len(files))
        if failures:
            raise SyncFailed(failures)

    def _take_in(self, synced: SyncedFiles, failures: dict[str, OSError]) -> None:
        """Note failures, and update the usual duration of a sync. One slow sync is remembered for
        about 20 further syncs."""
        failures.update(synced.failures)
        self._usual_sync_s += (synced.seconds_per_file - self._usual_sync_s) * 0.1

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do blocking work on files and folders off the loop's thread, one piece at a time."""
        return await _hop(self._worker, lambda _: work(), None)

    def read_file(self, path: str) -> bytes:
        """All bytes of a small file."""
        fd = self.home.open(path, os.O_RDONLY)
        with open(fd, "rb") as file:
            try:
                return file.read()
            except MemoryError as error:
                raise no_memory(path) from error

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file durably: temporary name, fsync, rename, fsync of the folder."""
        temporary = path + ".tmp"
        try:
            fd = self.home.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self._move(temporary, path)
        except OSError:
            self.remove(temporary)
            raise
        self.home.sync_folder(os.path.dirname(path))

    def reserve(self, path: str, size: int) -> None:
        """Grow a file to ``size`` bytes of disk space; does nothing if it is that large already.
        If there is no room, the file keeps the size that it has."""
        fd = self.home.open(path, os.O_WRONLY | os.O_CREAT)
        taken = 0
        try:
            taken = os.lseek(fd, 0, os.SEEK_END)
            if taken < size:
                write_all(fd, [bytes(size - taken)], size - taken)
        except OSError:
            if taken:
                os.ftruncate(fd, taken)
            else:
                self.remove(path)
            raise
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        return self._facts(path) is not None

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        fd = self.home.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)

    def space(self, path: str) -> tuple[int, int]:
        """(bytes of the volume that a folder is on, bytes of it that can still be used)."""
        fd = self.home.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            facts = os.fstatvfs(fd)
        finally:
            os.close(fd)
        return facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize

    def full_path(self, path: str) -> str:
        """The path from the root on."""
        return os.path.abspath(path)

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents durably; does nothing if it exists. A data folder is this
        user's alone: records are in it, and what passwords are checked by."""
        if not self.exists(path):
            if self.home.at(path)[1] is None:
                os.makedirs(path, 0o700, exist_ok=True)
                self.home.sync_folder(os.path.dirname(os.path.abspath(path)))
            else:
                self.make_folders([path])

    def make_folders(self, paths: Iterable[str]) -> None:
        """Create folders in existing parents, with one sync of each parent. Folders that exist stay
        as they are.
        """
        parents = set()
        for path in paths:
            name, root = self.home.at(path)
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=root)
                parents.add(os.path.dirname(path))
        for parent in parents:
            self.home.sync_folder(parent)

    def rename(self, old: str, new: str) -> None:
        """Rename durably."""
        self.rename_all([(old, new)])

    def rename_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Rename each (old, new), with one sync of each parent folder."""
        parents = set()
        for old, new in pairs:
            self._move(old, new)
            parents.add(os.path.dirname(new))
        for parent in parents:
            self.home.sync_folder(parent)

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder; does nothing if it does not exist."""
        facts = self._facts(path)
        if facts is None:
            return
        name, root = self.home.at(path)
        remove = shutil.rmtree if stat.S_ISDIR(facts.st_mode) else os.remove
        with suppress(FileNotFoundError):
            self.home.descriptors.with_spare(lambda: remove(name, dir_fd=root))

    def _facts(self, path: str) -> os.stat_result | None:
        name, root = self.home.at(path)
        try:
            return os.stat(name, dir_fd=root)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _move(self, old: str, new: str) -> None:
        name, root = self.home.at(old)
        new_name, new_root = self.home.at(new)
        os.rename(name, new_name, src_dir_fd=root, dst_dir_fd=new_root)

    def lock(self, path: str) -> None:
        """Lock ``path`` and the folder that holds it: the folder stays locked even if somebody
        deletes the lock file. From then on paths in the folder are resolved from its descriptor.

        Raises:
            BlockingIOError: another process, or this one, holds the lock already.
        """
        folder = os.path.dirname(path)
        held: list[int] = []
        try:
            for name, flags in ((path, os.O_RDWR | os.O_CREAT), (folder, os.O_RDONLY)):
                held.append(os.open(name or ".", flags, 0o644))
                _flock(held[-1], folder=name == folder)
        except OSError:
            for fd in held:
                os.close(fd)
            raise
        self._locks[path] = tuple(held)
        self.home.roots[folder] = held[1]

    def unlock(self, path: str) -> None:
        """Release the lock; does nothing if it is not held."""
        held = self._locks.pop(path, ())
        if held:
            del self.home.roots[os.path.dirname(path)]
        for fd in held:
            os.close(fd)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
        if self._native is not None:
            self._native.end()
            self._native = None
        self._worker.shutdown()


def _flock(fd: int, *, folder: bool) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        if not folder:  # some network file systems cannot lock folders: there the file is enough
            raise


def _hop(pool: ThreadPoolExecutor, work: Callable[[_A], _T], of: _A) -> asyncio.Future[_T]:
    """Start ``work`` in a thread. The future has SyncNotStarted if no thread can be started."""
    loop = asyncio.get_running_loop()
    try:
        return loop.run_in_executor(pool, work, of)
    except (RuntimeError, MemoryError) as error:  # "can't start new thread"
        none: asyncio.Future[_T] = loop.create_future()
        none.set_exception(SyncNotStarted(errno.EAGAIN, str(error)))
        return none


class SyncedFiles(NamedTuple):
    """The result of one thread's syncs, and how long the disk took for a file."""

    failures: dict[str, OSError]
    seconds_per_file: float


def _sync_files(files: Sequence[LocalFile]) -> SyncedFiles:
    failures = {}
    folders: dict[str, OSError | None] = {}
    seconds = 0.0
    for file in files:
        try:
            file.sync(folders)
            seconds += file.sync_s
        except OSError as error:
            failures[file.path] = error
    return SyncedFiles(failures, seconds / max(1, len(files)))
