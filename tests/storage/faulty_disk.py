"""A disk that fails when it is told to, over the real one."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence

from sharegroup.model.environment import DiskFile
from sharegroup.storage import LocalDisk, SyncFailed
from sharegroup.storage.disk import LocalFile
from sharegroup.storage.partition_log import LocalPartitionLog


class FaultyFile(LocalFile):
    """A file whose appends leave half of the data behind before they fail."""

    def __init__(self, path: str, disk: FaultyDisk) -> None:
        super().__init__(path, disk.home)
        self._disk = disk

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        if self._disk.append_errno and self.path.endswith(".log"):
            whole = data if isinstance(data, bytes) else b"".join(data)
            before = self.size()
            super().append(whole[: len(whole) // 2])
            self.truncate(before)
            raise OSError(self._disk.append_errno, os.strerror(self._disk.append_errno), self.path)
        super().append(data)

    def pread(self, size: int, position: int) -> bytes:
        if self._disk.read_errno:
            raise OSError(self._disk.read_errno, os.strerror(self._disk.read_errno), self.path)
        return super().pread(size, position)


class FaultyDisk(LocalDisk):
    """``append_errno`` and ``read_errno`` fail all appends and reads; ``sync_fails`` and
    ``open_fails`` name files by a part of their path; ``hold`` keeps rounds of sync from ending
    until it is set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.append_errno = 0
        self.read_errno = 0
        self.sync_fails = ""
        self.open_fails = ""
        self.hold: asyncio.Event | None = None
        self.synced: list[list[str]] = []

    def open(self, path: str) -> FaultyFile:
        if self.open_fails and self.open_fails in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return FaultyFile(path, self)

    async def sync(self, files: Sequence[DiskFile]) -> None:
        self.synced.append([file.path for file in files])
        if self.hold is not None:
            await self.hold.wait()
        await super().sync(files)
        if self.sync_fails:
            failed = [file.path for file in files if self.sync_fails in file.path]
            if failed:
                raise SyncFailed({path: OSError(errno.EIO, "faulty", path) for path in failed})


class HeldDisk(FaultyDisk):
    """While ``holds``, the sync of a log's files ends only when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self._held: dict[str, asyncio.Event] = {}
        self._begun = 0
        self._one_more = asyncio.Condition()

    async def sync(self, files: Sequence[DiskFile]) -> None:
        if self.holds:
            async with self._one_more:
                self._begun += 1
                self._one_more.notify_all()
            await self._event(os.path.dirname(files[-1].path)).wait()
        await super().sync(files)

    def let_go(self, *logs: LocalPartitionLog) -> None:
        """End the syncs of these logs, also those that will begin."""
        for log in logs:
            self._event(os.path.dirname(log._flushing.segment.file.path)).set()

    async def begun(self, count: int) -> None:
        """Return when so many syncs have begun."""
        async with self._one_more:
            await self._one_more.wait_for(lambda: self._begun >= count)
            assert self._begun == count

    def _event(self, folder: str) -> asyncio.Event:
        return self._held.setdefault(folder, asyncio.Event())
