"""Too little of something: no descriptors, for real; a full disk, as the real disk would say it."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sharegroup.model.environment import DiskFile
from sharegroup.storage.disk import LocalDisk, LocalFile, SyncFailed, SyncNotStarted


@contextmanager
def no_descriptors(but: int = 0) -> Iterator[None]:
    """Within, this process gets ``but`` more descriptors and then EMFILE from the system.

    The system's limit is on a descriptor's number. So all numbers below the highest one in use are
    taken: otherwise a file whose number is over the limit could give it back in vain.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    taken: list[int] = []
    while (next_one := os.open(os.devnull, os.O_RDONLY)) <= highest:
        taken.append(next_one)
    os.close(next_one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one + but, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


class BusyDisk(LocalDisk):
    """While ``busy`` no sync can begin."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = False
        self.synced: list[list[str]] = []

    async def sync(self, files: Sequence[DiskFile]) -> None:
        if self.busy and files:
            error = SyncNotStarted(errno.EMFILE, os.strerror(errno.EMFILE))
            raise SyncFailed({file.path: error for file in files})
        await super().sync(files)
        self.synced.append([file.path for file in files])


class FullFile(LocalFile):
    """A file on a :class:`FullDisk`; half of what does not fit is written, and cut off again."""

    def __init__(self, path: str, disk: FullDisk) -> None:
        super().__init__(path, disk.home)
        self._disk = disk

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        self._disk.check(self.path)
        super().append(data)


class FullDisk(LocalDisk):
    """While ``full`` nothing that takes room can be written, on files whose path holds ``where``.
    A removed reserve has room for a small file and its checksum.
    """

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.where = ""
        self.room_for = 0

    def check(self, path: str) -> None:
        if self.full and self.where in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: str) -> LocalFile:
        return FullFile(path, self)

    def write_file(self, path: str, data: bytes) -> None:
        if self.room_for:
            self.room_for -= 1
        else:
            self.check(path)
        super().write_file(path, data)

    def reserve(self, path: str, size: int) -> None:
        self.check(path)
        super().reserve(path, size)

    def remove(self, path: str) -> None:
        self.room_for += 2 * path.endswith("/.reserve")
        super().remove(path)


BLOCK = 4096


class SmallFile(LocalFile):
    """A file on a :class:`SmallDisk`."""

    def __init__(self, path: str, disk: SmallDisk) -> None:
        disk.check(path, 0)
        super().__init__(path, disk.home)
        self._disk = disk

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        total = len(data) if isinstance(data, bytes) else sum(map(len, data))
        self._disk.check(self.path, self.size() + total)
        super().append(data)


class SmallDisk(LocalDisk):
    """A disk of so many blocks for the files in a folder."""

    def __init__(self, folder: Path, blocks: int) -> None:
        super().__init__()
        self._folder = folder
        self._blocks = blocks

    def check(self, path: str, size: int) -> None:
        """Raise ENOSPC if there is no room for this file with ``size`` bytes."""
        others = [
            file.stat().st_size
            for file in self._folder.rglob("*")
            if file.is_file() and str(file) != path
        ]
        if sum(-(-each // BLOCK) for each in [*others, size]) > self._blocks:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: str) -> LocalFile:
        return SmallFile(path, self)

    def write_file(self, path: str, data: bytes) -> None:
        self.check(path + ".tmp", len(data))
        super().write_file(path, data)

    def reserve(self, path: str, size: int) -> None:
        self.check(path, size)
        super().reserve(path, size)
