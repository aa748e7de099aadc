"""One open file of the real disk, and how its path is resolved.

An append is atomic for this process: the bytes that a failed write has left are truncated.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar
from weakref import WeakSet

from sharegroup.storage.descriptors import CACHED_MAX, Descriptors
from sharegroup.storage.failures import lack_of
from sharegroup.storage.local_range import CAN_SEND, LocalRange, Orphan
from sharegroup.storage.timed_sync import timed_sync

_BUFFERS_MAX: Final = 512
"""Buffers of one writev; the system's own limit is 1,024."""

_SOCKET_BROKEN: Final = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ETIMEDOUT)
"""Errors of the socket that a file is sent to, not of the file."""

_T = TypeVar("_T")


class SyncNotStarted(OSError):
    """There was no descriptor or thread for a sync. The kernel was not called, so nothing is lost
    and the sync can be retried.
    """


class SyncFailed(OSError):
    """Some files could not be synced: data written to them since the last sync may be lost for
    ever. A file whose error is :class:`SyncNotStarted` has lost nothing.
    """

    def __init__(self, failures: dict[str, OSError]) -> None:
        first = next(iter(failures.values()))
        super().__init__(first.errno, f"sync failed: {first.strerror}", next(iter(failures)))
        self.failures = failures


class Home:
    """Resolves the paths of one disk. A path in a locked folder is resolved from that folder's
    descriptor; any other path is used as it is.
    """

    def __init__(self, files_max: int) -> None:
        self.descriptors = Descriptors(files_max)
        self.roots: dict[str, int] = {}

    def at(self, path: str) -> tuple[str, int | None]:
        """(path, descriptor of the folder that it is relative to, or None)."""
        for root, fd in self.roots.items():
            if path.startswith(root) and path[len(root) : len(root) + 1] == "/":
                return path[len(root) :].lstrip("/") or ".", fd
        root_fd = self.roots.get(path)
        return (path, None) if root_fd is None else (".", root_fd)

    def open(self, path: str, flags: int) -> int:
        """A descriptor of a file or folder; raises OSError."""
        name, root = self.at(path)
        opening = lambda: os.open(name, flags, 0o644, dir_fd=root)  # noqa: E731
        return self.descriptors.with_spare(opening)

    def sync_folder(self, path: str) -> None:
        """Make the names in a folder durable.

        Raises:
            SyncNotStarted: there was no descriptor for it.
            OSError: it failed.
        """
        root = self.roots.get(path)
        if root is not None:
            os.fsync(root)
            return
        fd = started(path, lambda: self.open(path or ".", os.O_RDONLY | os.O_DIRECTORY))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def started(path: str, start: Callable[[], _T]) -> _T:
    """The result of ``start``. An error for lack of a resource becomes SyncNotStarted."""
    try:
        return start()
    except OSError as error:
        if lack_of(error) is None:
            raise
        raise SyncNotStarted(error.errno, error.strerror, path) from error


class BegunSync(NamedTuple):
    """A sync of a file: the descriptor, and how many writes it will cover."""

    fd: int
    written: int


class LocalFile:
    """One open file. Only this process appends to it.

    Its descriptor may be given back while nothing is unsynced (see ``descriptors``). When the file
    is opened again, it must be the same file. The loop's thread appends and reads, another thread
    syncs.
    """

    def __init__(self, path: str, home: Home | None = None) -> None:
        self.path = path
        self.folder_dirty = False
        self.used = True
        self.sync_s = 0.0  # how long the disk took for the last sync
        self._home = home or Home(CACHED_MAX)
        self._lock = threading.Lock()
        self._closed = False
        self._torn = False
        self._written = self._synced = self._syncs = 0
        self._forced: OSError | None = None
        flags = os.O_RDWR | os.O_APPEND
        try:
            self._fd = self._home.open(path, flags)
        except FileNotFoundError:
            self._fd = self._home.open(path, flags | os.O_CREAT)
            self.folder_dirty = True
        self._made = self.folder_dirty
        self._can_send = CAN_SEND
        self._ranges: WeakSet[LocalRange] = WeakSet()
        facts = os.fstat(self._fd)
        self._size = facts.st_size
        self._identity = facts.st_dev, facts.st_ino
        self._modified = self._written, _modified_ms(facts)
        self._home.descriptors.hold(self)

    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def pread(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from ``position``; fewer only at the end of the file."""
        with self._lock:
            fd = self._descriptor()
            try:
                data = os.pread(fd, size, position)
                if len(data) == size or not data:
                    return data
                parts = [data]
                while data and (size := size - len(data)):
                    position += len(data)
                    data = os.pread(fd, size, position)
                    parts.append(data)
                return b"".join(parts)
            except MemoryError as error:
                raise no_memory(self.path) from error

    def range(self, size: int, position: int) -> LocalRange | None:
        """Bytes of the file to be sent. None if they must be read instead: the system cannot send
        from files, or the file has failed and the next read must find the failure."""
        return self.lend(size, position) if self._can_send else None

    def lend(self, size: int, position: int) -> LocalRange:
        """Bytes of the file to be sent, which can be sent even after the file was closed."""
        found = LocalRange(self, size, position)
        self._ranges.add(found)
        return found

    def send(self, socket: int, size: int, position: int) -> int:
        """Send up to ``size`` bytes from ``position`` to a socket; raises OSError."""
        with self._lock:
            try:
                return os.sendfile(socket, self._descriptor(), position, size)
            except BlockingIOError:
                raise
            except OSError as error:
                self._can_send = error.errno in _SOCKET_BROKEN
                raise

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        """Write all of ``data`` at the end, or leave the file as it was and raise OSError."""
        buffers = [data] if isinstance(data, bytes) else data
        total = sum(map(len, buffers))
        with self._lock:
            fd = self._descriptor()
            if self._torn:
                self._mend(fd)
            self._written += 1
            try:
                write_all(fd, buffers, total)
            except (OSError, MemoryError) as error:
                self._torn = True
                with suppress(OSError):  # if this fails, the next append truncates first
                    self._mend(fd)
                if isinstance(error, MemoryError):
                    raise no_memory(self.path) from error
                raise
            self._size += total

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        with self._lock:
            if size == self._size == 0 and not self._torn:
                return
            fd = self._descriptor()
            self._written += 1
            os.ftruncate(fd, size)
            self._size = size
            self._torn = False

    def modified_ms(self) -> int:
        """When the content last changed, in milliseconds since 1970. Asks the system only once
        after a write."""
        with self._lock:
            if self._modified[0] != self._written:
                self._modified = self._written, _modified_ms(os.fstat(self._descriptor()))
            return self._modified[1]

    def sync(self, folders: dict[str, OSError | None] | None = None) -> None:
        """Block until data, size and (for a new file) name are on stable storage.

        ``folders`` has the folders that this sync of many files has synced already, each with the
        error of its sync, or None.

        Raises:
            SyncNotStarted: the sync can be retried.
            OSError: data written since the last sync may be lost.
        """
        if self.folder_dirty:
            self._sync_folder({} if folders is None else folders)
        begun = self.begin_sync()
        if begun is None:
            return
        seconds: float | None = None
        try:
            seconds = timed_sync(begun.fd)
        finally:
            self.end_sync(begun, seconds)

    def begin_sync(self) -> BegunSync | None:
        """Begin a sync of the file's content, not of its name. The descriptor stays open until
        :meth:`end_sync`. None: there is no content to sync.

        Raises:
            SyncNotStarted: the sync can be retried.
            OSError: data written since the last sync may be lost.
        """
        with self._lock:
            forced, self._forced = self._forced, None
            if forced is not None:
                raise forced
            if self._made and not self._written and not self._closed:
                return None  # empty: only its name has to be synced
            fd = started(self.path, self._descriptor)
            self._syncs += 1
            return BegunSync(fd, self._written)

    def end_sync(self, begun: BegunSync, seconds: float | None) -> None:
        """The sync has ended. ``seconds``: how long the disk took; None: the sync has failed."""
        with self._lock:
            self._syncs -= 1
            if seconds is not None:
                self.sync_s = seconds
                self._synced = max(self._synced, begun.written)

    def _sync_folder(self, folders: dict[str, OSError | None]) -> None:
        folder = os.path.dirname(self.path)
        if folder not in folders:
            try:
                self._home.sync_folder(folder)
                folders[folder] = None
            except OSError as error:
                folders[folder] = error
        failure = folders[folder]
        if failure is not None:
            raise failure
        self.folder_dirty = False

    def close(self) -> None:
        """Close; a second call does nothing."""
        with self._lock:
            self._closed = True
            if self._fd >= 0:
                self._leave(Orphan(self._fd))
                self._fd = -1
        self._home.descriptors.drop(self)

    def _leave(self, orphan: Orphan) -> None:
        """Hand the descriptor to the ranges that are still to be sent. If there are no such ranges,
        the descriptor is closed."""
        for each in list(self._ranges):
            each.file = orphan

    def give_back(self, *, by_force: bool) -> bool:
        """See ``descriptors.DescriptorHolder``."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            unsynced = self._written != self._synced
            if self._fd < 0 or self._syncs or (unsynced and not by_force):
                return False
            if unsynced:
                try:
                    os.fdatasync(self._fd)
                    self._synced = self._written
                except OSError as error:
                    self._forced = error
            os.close(self._fd)
            self._fd = -1
            return True
        finally:
            self._lock.release()

    def _descriptor(self) -> int:
        """The descriptor; opens the file again if the descriptor was given back."""
        self.used = True
        if self._fd >= 0:
            return self._fd
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        fd = self._home.open(self.path, os.O_RDWR | os.O_APPEND)
        facts = os.fstat(fd)
        if (facts.st_dev, facts.st_ino) != self._identity:
            os.close(fd)
            raise OSError(errno.ESTALE, "another file has taken its place", self.path)
        self._fd = fd
        self._home.descriptors.hold(self)
        return fd

    def _mend(self, fd: int) -> None:
        """Truncate the bytes that a failed append has left."""
        os.ftruncate(fd, self._size)
        self._torn = False


def _modified_ms(facts: os.stat_result) -> int:
    return facts.st_mtime_ns // 1_000_000


def write_all(fd: int, buffers: Sequence[bytes | memoryview], total: int) -> None:
    """Write ``buffers``, ``total`` bytes in all. Raises OSError; then a part may be written."""
    written = 0
    if len(buffers) <= _BUFFERS_MAX and (written := os.writev(fd, buffers)) == total:
        return
    rest = memoryview(b"".join(buffers))[written:]
    while rest:
        rest = rest[os.write(fd, rest) :]


def no_memory(path: str) -> OSError:
    """The OSError that stands for a MemoryError while a file is read."""
    return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), path)
