"""A disk in memory that tracks durability: a crash loses everything that was not synced."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sharegroup.model.environment import DiskFile

_T = TypeVar("_T")


@dataclass(slots=True)
class _Content:
    data: bytearray = field(default_factory=bytearray)
    durable: int = 0
    """How many bytes survive a crash. The file itself always survives."""


class MemoryFile:
    """One open file of a :class:`MemoryDisk`."""

    def __init__(self, path: str, content: _Content) -> None:
        self.path = path
        self._content = content

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
        for chunk in [data] if isinstance(data, bytes) else data:
            self._content.data += chunk

    def truncate(self, size: int) -> None:
        """Cut the file."""
        del self._content.data[size:]
        self._content.durable = min(self._content.durable, size)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def sync(self) -> None:
        """Make the current content survive a crash."""
        self._content.durable = len(self._content.data)


class MemoryDisk:
    """Implements ``model.environment.Disk``."""

    def __init__(self) -> None:
        self._files: dict[str, _Content] = {}
        self._folders: set[str] = set()
        self._locks: set[str] = set()

    def crash(self) -> None:
        """Simulate a power loss: lose unsynced data and every lock."""
        for content in self._files.values():
            del content.data[content.durable :]
        self._locks.clear()

    def open(self, path: str) -> MemoryFile:
        """Open a file for reading and appending; creates it if missing."""
        return MemoryFile(path, self._files.setdefault(path, _Content()))

    async def sync(self, files: Sequence[DiskFile]) -> None:
        """Make the content of all ``files`` durable."""
        for file in files:
            if isinstance(file, MemoryFile):
                file.sync()

    async def run(self, work: Callable[[], _T]) -> _T:
        """Call ``work`` and return its result; other tasks run first, as while a thread works."""
        await asyncio.sleep(0)
        return work()

    def read_file(self, path: str) -> bytes:
        """The whole file."""
        if path not in self._files:
            raise FileNotFoundError(2, "No such file", path)
        return bytes(self._files[path].data)

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a file durably."""
        self._files[path] = _Content(bytearray(data), len(data))

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
