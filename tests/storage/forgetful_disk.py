"""A disk behind a page cache that forgets which pages a failed fsync could not write (Linux)."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field

from sharegroup.model.environment import DiskFile
from sharegroup.sim.disk import MemoryDisk, MemoryFile
from sharegroup.storage import SyncFailed


@dataclass(slots=True)
class _Platter:
    """What power loss leaves of a file, and up to where the cache believes its pages clean."""

    data: bytearray = field(default_factory=bytearray)
    clean_to: int = 0


class ForgetfulFile(MemoryFile):
    """A truncation drops clean pages too."""

    def truncate(self, size: int) -> None:
        super().truncate(size)
        platter = self._disk.platters.get(self.path)
        if platter is not None:
            del platter.data[size:]
            platter.clean_to = min(platter.clean_to, size)

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        if self._disk.write_fails and self._disk.write_fails in self.path:
            raise OSError(errno.EIO, "faulty", self.path)
        super().append(data)

    _disk: ForgetfulDisk


class ForgetfulDisk(MemoryDisk):
    """``sync_fails``, ``open_fails`` and ``write_fails`` name files by a part of their path. The
    pages of a file whose sync fails count as clean from then on, and are on no platter; a later
    sync has nothing to write.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sync_fails = ""
        self.open_fails = ""
        self.write_fails = ""
        self.platters: dict[str, _Platter] = {}

    def open(self, path: str) -> ForgetfulFile:
        if self.open_fails and self.open_fails in path:
            raise OSError(errno.EIO, "faulty", path)
        memory = super().open(path)
        file = ForgetfulFile(memory.path, memory._content)
        file._disk = self
        return file

    async def sync(self, files: Sequence[DiskFile]) -> None:
        failures: dict[str, OSError] = {}
        for file in files:
            platter = self.platters.setdefault(file.path, _Platter())
            size = file.size()
            dirty = file.pread(size - platter.clean_to, platter.clean_to)
            if self.sync_fails and self.sync_fails in file.path:
                failures[file.path] = OSError(errno.EIO, "faulty", file.path)
                dirty = bytes(len(dirty))  # the file has grown, what was to be written is lost
            platter.data += dirty
            platter.clean_to = size
        await super().sync(files)
        if failures:
            raise SyncFailed(failures)

    def write_file(self, path: str, data: bytes) -> None:
        super().write_file(path, data)
        self.platters[path] = _Platter(bytearray(data), len(data))

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        if old in self.platters:
            self.platters[new] = self.platters.pop(old)

    def lose_power(self) -> None:
        """Files become what is on the platters; locks are gone."""
        for path, content in list(self._files.items()):
            platter = self.platters.get(path)
            if platter is None:
                del self._files[path]
            else:
                content.data[:] = platter.data
                content.durable = len(platter.data)
        self._locks.clear()
