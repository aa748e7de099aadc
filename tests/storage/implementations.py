"""The implementations of ``model.store.Store`` that its contract is tested on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from sharegroup.model.environment import Environment
from sharegroup.model.log import AppendableLog
from sharegroup.model.store import Configs, Store
from sharegroup.storage import DataFolder, DataFolderSettings, LogSettings
from sharegroup.testing.disks import FolderDisk, MortalDisk, VolatileDisk
from tests.storage.late_store import LateStore
from tests.storage.support import StillClock, batch

MESSAGE_BYTES_MAX = "max.message.bytes"


def log_settings(_topic: str, configs: Configs) -> LogSettings:
    """The one topic config that the tests look for in the logs."""
    return LogSettings(max_message_bytes=int(configs.get(MESSAGE_BYTES_MAX, 1_000_000)))


class Folders:
    """Data folders on a disk that may lose its power."""

    def __init__(self, disk: MortalDisk, path: str, seen: Callable[[Store], Store]) -> None:
        self._disk = disk
        self._path = path
        self._seen = seen

    async def open(self) -> Store:
        """The store as the last one left it."""
        environment = Environment(clock=StillClock(), disk=self._disk, entropy=os.urandom)
        settings = DataFolderSettings(log_settings=log_settings)
        return self._seen(await DataFolder.open(environment, self._path, settings))

    def crash(self) -> None:
        """End the open store without a word to it."""
        dead, self._disk = self._disk, self._disk.die()
        dead.close()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """A store that ends cleanly."""
        store = await self.open()
        try:
            yield store
        finally:
            await store.close()


def itself(store: Store) -> Store:
    return store


LOCAL = {"files": (FolderDisk, itself), "memory": (VolatileDisk, itself)}
ALL = {**LOCAL, "late": (VolatileDisk, LateStore)}


async def append(log: AppendableLog, *values: bytes) -> int:
    """Append durably; the first offset."""
    appended = await log.append(batch(*values))
    await log.wait_durable(appended.last_offset + 1)
    return appended.base_offset
