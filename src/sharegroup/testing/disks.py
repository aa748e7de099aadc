"""Disks of a broker that can be killed: the next broker gets the data that survived.

A killed broker's tasks run a little longer, until they are cancelled. Their writes have no
effect: the next broker has another disk object by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.sim.disk import MemoryDisk
from sharegroup.storage.disk import LocalDisk, LocalFile


class MortalDisk(Disk, Protocol):
    """A disk whose broker may die."""

    def die(self) -> MortalDisk:
        """The disk as the next broker finds it. Writes to this object have no effect any more."""
        ...

    def close(self) -> None:
        """Give back threads, files and locks."""
        ...


class VolatileDisk(MemoryDisk):
    """A disk in memory; a crash loses unsynced data, like a power failure."""

    def die(self) -> VolatileDisk:
        """A copy of the durable data."""
        survivor = VolatileDisk()
        for path, content in self._files.items():
            survivor.write_file(path, bytes(content.data[: content.durable]))
        survivor._folders = set(self._folders)
        return survivor

    def close(self) -> None:
        """Do nothing: this disk holds no threads, files or locks."""


class _MortalFile(LocalFile):
    """A file that a dead broker can no longer change."""

    def __init__(self, path: str, disk: FolderDisk) -> None:
        super().__init__(path, disk.home)
        self._disk = disk

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        """Write at the end."""
        if not self._disk.dead:
            super().append(data)

    def truncate(self, size: int) -> None:
        """Cut the file."""
        if not self._disk.dead:
            super().truncate(size)

    def sync(self, folders: dict[str, OSError | None] | None = None) -> None:
        """Block until it is on stable storage."""
        if not self._disk.dead:
            super().sync(folders)


class FolderDisk(LocalDisk):
    """Real files; a crash leaves all that was written, as after ``kill -9``."""

    def __init__(self) -> None:
        super().__init__()
        self.dead = False
        self._opened: list[_MortalFile] = []
        self._locked: set[str] = set()

    def die(self) -> FolderDisk:
        """The same files, as if opened by another process."""
        self.dead = True
        for path in self._locked:
            super().unlock(path)
        return FolderDisk()

    def open(self, path: str) -> LocalFile:
        """Open for reading and appending."""
        file = _MortalFile(path, self)
        self._opened.append(file)
        return file

    async def sync(self, files: Sequence[DiskFile]) -> None:
        """As ``LocalDisk.sync``; a dead broker syncs nothing."""
        if not self.dead:
            await super().sync(files)

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file durably."""
        if not self.dead:
            super().write_file(path, data)

    def make_folder(self, path: str) -> None:
        """Make a folder, with its parents."""
        if not self.dead:
            super().make_folder(path)

    def make_folders(self, paths: Iterable[str]) -> None:
        """Make folders, with one sync for all."""
        if not self.dead:
            super().make_folders(paths)

    def rename_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Rename durably."""
        if not self.dead:
            super().rename_all(pairs)

    def reserve(self, path: str, size: int) -> None:
        """Let a file take up room."""
        if not self.dead:
            super().reserve(path, size)

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder."""
        if not self.dead:
            super().remove(path)

    def lock(self, path: str) -> None:
        """Hold ``path`` as a lock file; raises BlockingIOError."""
        super().lock(path)
        self._locked.add(path)

    def close(self) -> None:
        """End the sync threads, and close files that a killed broker left open."""
        super().close()
        for file in self._opened:
            file.close()
