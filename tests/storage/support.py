"""What the storage tests stand on: a clock that stands still, real files, and small batches."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from sharegroup.model.environment import Disk, Environment
from sharegroup.model.log import ReadableLog
from sharegroup.storage import (
    DataFolder,
    DataFolderSettings,
    LocalDisk,
    LocalPartitionLog,
    LogSettings,
)
from sharegroup.wire.batch import batch_bounds, decode_batch, encode_batch

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID(int=7)
OTHER_ID = UUID(int=99)


class StillClock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run one test's coroutine; none takes long, so one that hangs fails soon."""
    asyncio.run(asyncio.wait_for(main, 240))


def batch(*values: bytes, timestamp_ms: int = NOW_MS, **header: int) -> bytes:
    return encode_batch([(None, value) for value in values], timestamp_ms=timestamp_ms, **header)


@asynccontextmanager
async def opened(
    path: Path,
    log_settings: LogSettings | None = None,
    *,
    disk: Disk | None = None,
    clock: StillClock | None = None,
) -> AsyncIterator[DataFolder]:
    """A data folder, cleanly closed at the end."""
    folder = await open_folder(path, log_settings, disk=disk, clock=clock)
    try:
        yield folder
    finally:
        await folder.close()


async def open_folder(
    path: Path,
    log_settings: LogSettings | None = None,
    *,
    disk: Disk | None = None,
    clock: StillClock | None = None,
) -> DataFolder:
    environment = Environment(
        clock=clock or StillClock(), disk=disk or LocalDisk(), entropy=os.urandom
    )
    settings = DataFolderSettings(
        cluster_id="test-cluster",
        log_settings=lambda _topic, _configs: log_settings or LogSettings(),
    )
    return await DataFolder.open(environment, str(path), settings)


async def one_log(folder: DataFolder) -> LocalPartitionLog:
    """Partition 0 of topic ``t``, made when it is not there."""
    if "t" not in folder.topics:
        await folder.create_topic("t", TOPIC_ID, 1, {})
    return folder.log("t", 0)


async def append_durably(log: LocalPartitionLog, *batches: bytes) -> int:
    """Append each by itself; the log end after them."""
    for each in batches:
        await log.append(each)
    await log.wait_durable(log.log_end_offset)
    return log.log_end_offset


async def read_values(
    log: ReadableLog, start: int | None = None, max_bytes: int = 1 << 20
) -> list[tuple[int, bytes | None]]:
    """(offset, value) of all visible records from ``start`` on, read as a consumer does."""
    now = await log.offsets()
    offset = now.start if start is None else start
    records: list[tuple[int, bytes | None]] = []
    while offset < now.high_watermark:
        data = (await log.read(offset, max_bytes)).data
        records += [(at, value) for at, _, _, value in decode_batch(data) if at >= offset]
        offset = batch_bounds(data)[-1][1] + 1
    return records


async def abandon(folder: DataFolder) -> None:
    """Leave a folder as a crash would: nothing is written any more, only the lock is given back."""
    await folder.flusher.idle()
    for log in folder.logs:
        log.close()
    folder._environment.disk.unlock(f"{folder.path}/.lock")


def held_in(folder: Path) -> int:
    """Descriptors of this process that lead into a folder."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith(f"{folder}/")
        except FileNotFoundError:
            continue  # the one that listed them
    return count
