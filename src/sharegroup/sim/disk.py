"""A disk in memory that tracks durability: a crash loses everything that was not synced."""

from __future__ import annotations

import asyncio
import posixpath
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from sharegroup.model.environment import DiskFile
from sharegroup.storage.local_file import SyncFailed

_T = TypeVar("_T")
PAGE_BYTES: Final = 4096


class Trouble:
    """What goes wrong with a disk, and when; by default nothing does."""

    def before(self, operation: str, path: str) -> None:
        """Called before a ``write``, ``sync`` or ``change`` of a name; raises OSError."""

    def sync_s(self) -> float:
        """How long the next sync takes, in seconds."""
        return 0.0


NONE: Final = Trouble()


def _no_time() -> int:
    return 0


@dataclass(slots=True)
class _Content:
    data: bytearray = field(default_factory=bytearray)
    durable: int = 0
    """How many bytes survive a crash. The file itself always survives."""
    failed: bool = False
    """A sync has failed: the system has forgotten what was not durable, so no later sync helps."""
    modified_ms: int = 0


class MemoryFile:
    """One open file of a :class:`MemoryDisk`."""

    def __init__(
        self,
        path: str,
        content: _Content,
        trouble: Trouble = NONE,
        wall_ms: Callable[[], int] = _no_time,
    ) -> None:
        self.path = path
        self._wall_ms = wall_ms
        self._content = content
        self._trouble = trouble

    def size(self) -> int:
        """Bytes in the file."""
        return len(self._content.data)

    def pread(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from ``position``."""
        return bytes(self._content.data[position : position + size])

    def range(self, size: int, position: int) -> None:
        """Nothing here can be sent without being read."""

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        """Write at the end."""
        self._trouble.before("write", self.path)
        for chunk in [data] if isinstance(data, bytes) else data:
            self._content.data += chunk
        self._content.modified_ms = self._wall_ms()

    def truncate(self, size: int) -> None:
        """Cut the file."""
        del self._content.data[size:]
        self._content.durable = min(self._content.durable, size)
        self._content.modified_ms = self._wall_ms()

    def modified_ms(self) -> int:
        """When the content last changed."""
        return self._content.modified_ms

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def sync(self, size: int | None = None) -> None:
        """Make the current content, or its first ``size`` bytes, survive a crash."""
        content = self._content
        size = len(content.data) if size is None else min(size, len(content.data))
        if not content.failed:
            content.durable = max(content.durable, size)

    def sync_failed(self) -> None:
        """A sync has failed: what it should have made durable never will be."""
        self._content.failed = True


class MemoryDisk:
    """Implements ``model.environment.Disk``.

    Attributes:
        wall_ms: the clock that tells when a file was modified.
    """

    def __init__(self, trouble: Trouble = NONE) -> None:
        self.wall_ms: Callable[[], int] = _no_time
        self._trouble = trouble
        self._files: dict[str, _Content] = {}
        self._folders: set[str] = set()
        self._locks: set[str] = set()

    def crash(self) -> None:
        """Simulate a power loss: lose unsynced data and every lock."""
        for content in self._files.values():
            del content.data[content.durable :]
        self._locks.clear()

    def survivor(self, torn: random.Random | None = None) -> MemoryDisk:
        """The disk as the next broker finds it after a power loss. What a dead broker still writes
        to this object has no effect there.

        Args:
            torn: draws how much of each file's unsynced end has reached the disk after all, and
                which pages of that have not. None: nothing has.
        """
        other = MemoryDisk(self._trouble)
        for path, content in self._files.items():
            data = bytes(content.data[: content.durable])
            if torn is not None:
                data += _torn(bytes(content.data[content.durable :]), torn)
            other._files[path] = _Content(
                bytearray(data), len(data), modified_ms=content.modified_ms
            )
        other._folders = set(self._folders)
        return other

    def successor(self) -> MemoryDisk:
        """The disk as the next broker finds it after ``kill -9``: the system keeps what was
        written, and has not synced it. Nor does it forget a failed sync."""
        other = MemoryDisk(self._trouble)
        for path, content in self._files.items():
            other._files[path] = replace(content, data=bytearray(content.data))
        other._folders = set(self._folders)
        return other

    def open(self, path: str) -> MemoryFile:
        """Open a file for reading and appending; creates it if missing."""
        content = self._files.setdefault(path, _Content())
        return MemoryFile(path, content, self._trouble, self.wall_ms)

    async def sync(self, files: Sequence[DiskFile]) -> None:
        """Make the content of all ``files`` durable."""
        sizes = [file.size() for file in files]
        seconds = self._trouble.sync_s()
        if seconds:
            await asyncio.sleep(seconds)
        failed: dict[str, OSError] = {}
        for file, size in zip(files, sizes, strict=True):
            if not isinstance(file, MemoryFile):
                continue
            try:
                self._trouble.before("sync", file.path)
            except OSError as error:
                file.sync_failed()
                failed[file.path] = error
            else:
                file.sync(size)
        if failed:
            raise SyncFailed(failed)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Call ``work`` and return its result; other tasks run first, as while a thread works."""
        await asyncio.sleep(0)
        return work()

    def read_file(self, path: str) -> bytes:
        """The whole file."""
        if path not in self._files:
            raise FileNotFoundError(2, "No such file", path)
        return bytes(self._files[path].data)

    def flip(self, path: str, position: int, bit: int) -> None:
        """Damage a file: one bit of it is another one from now on."""
        self._files[path].data[position] ^= 1 << bit

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a file durably."""
        self._trouble.before("change", path)
        self._files[path] = _Content(bytearray(data), len(data), modified_ms=self.wall_ms())

    def reserve(self, path: str, size: int) -> None:
        """Create the file; memory is not reserved."""
        self._files.setdefault(path, _Content())

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        return path in self._files or path in self._folders or bool(self.list(path))

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        prefix = path.rstrip("/") + "/"
        inside = [p for p in (*self._files, *self._folders) if p.startswith(prefix)]
        return sorted({p[len(prefix) :].partition("/")[0] for p in inside})

    def space(self, path: str) -> tuple[int, int]:
        """Memory has no known size."""
        return -1, -1

    def full_path(self, path: str) -> str:
        """The path itself."""
        return path

    def make_folder(self, path: str) -> None:
        """Make a folder with its parents."""
        while path not in ("", "/"):
            self._folders.add(path)
            path = posixpath.dirname(path)

    def make_folders(self, paths: Iterable[str]) -> None:
        """Make folders."""
        for path in paths:
            self.make_folder(path)

    def rename_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Move each (old, new)."""
        for old, new in pairs:
            self.rename(old, new)

    def rename(self, old: str, new: str) -> None:
        """Move a file or a whole folder."""
        self._trouble.before("change", old)
        if not self.exists(old):
            raise FileNotFoundError(2, "No such file or directory", old)
        for path in [p for p in self._files if p == old or p.startswith(f"{old}/")]:
            self._files[new + path[len(old) :]] = self._files.pop(path)
        for path in [p for p in self._folders if p == old or p.startswith(f"{old}/")]:
            self._folders.discard(path)
            self._folders.add(new + path[len(old) :])

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder."""
        for name in [p for p in self._files if p == path or p.startswith(f"{path}/")]:
            del self._files[name]
        self._folders = {p for p in self._folders if p != path and not p.startswith(f"{path}/")}

    def lock(self, path: str) -> None:
        """Hold a lock file; raises BlockingIOError when it is held."""
        if path in self._locks:
            raise BlockingIOError(11, "held", path)
        self._locks.add(path)

    def unlock(self, path: str) -> None:
        """Release the lock file."""
        self._locks.discard(path)


def _torn(data: bytes, chance: random.Random) -> bytes:
    """What a power loss leaves of bytes that were written and not synced."""
    kept = bytearray(data[: chance.choice((0, len(data), chance.randint(0, len(data))))])
    for start in range(0, len(kept), PAGE_BYTES):
        if chance.random() < 0.1:  # a page that the system had not written back
            stop = min(start + PAGE_BYTES, len(kept))
            kept[start:stop] = bytes(stop - start)
    return bytes(kept)
