"""Retention on a full disk: what has expired goes, although its deletion needs room first."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

import pytest

from sharegroup.model.errors import KafkaStorageError
from sharegroup.model.log import AbortedTransaction
from sharegroup.storage import DataFolder, LocalPartitionLog, LogSettings
from sharegroup.storage.disk import LocalDisk
from sharegroup.storage.reserve import FILE_NAME
from sharegroup.transactions.producers import BATCHES_KEPT
from sharegroup.wire.markers import MarkerType
from tests.storage.lacks import FullDisk, SmallDisk
from tests.storage.support import (
    NOW_MS,
    StillClock,
    abandon,
    append_durably,
    batch,
    one_log,
    open_folder,
    opened,
    read_values,
    run,
)
from tests.storage.test_transaction_index import Writer

DAY_MS = 86_400_000
SETTINGS = LogSettings(retention_ms=1000, index_interval_bytes=150)


async def fill(log: LocalPartitionLog, size: int, timestamp_ms: int = NOW_MS) -> None:
    """Append until there is room for no batch with this value, nor for a smaller one."""
    while size:
        with suppress(KafkaStorageError):
            while True:
                value = batch(b"v" * size, timestamp_ms=timestamp_ms)
                await append_durably(log, value)
        size //= 4


async def rounds(folder: DataFolder, log: LocalPartitionLog, count: int, now_ms: int) -> None:
    """As the broker's housekeeping, while producers take all the room that they find."""
    for _ in range(count):
        folder.enforce_retention(now_ms)
        await folder.flusher.idle()
        if log.log_start_offset == 0:
            await fill(log, 1000, now_ms)
        await folder.remove_leftovers()


def test_a_full_disk_frees_itself_once_the_only_segment_has_expired(tmp_path: Path) -> None:
    async def main() -> None:
        clock, disk = StillClock(), SmallDisk(tmp_path, 80)
        async with opened(tmp_path, SETTINGS, clock=clock, disk=disk) as folder:
            log = await one_log(folder)
            await fill(log, 10_000)
            assert log.statistics().segments == 1
            await rounds(folder, log, 3, NOW_MS)
            end = log.log_end_offset
            assert (log.log_start_offset, log.failure) == (0, None)
            clock.now_ms += DAY_MS
            await rounds(folder, log, 3, clock.now_ms)
            assert log.log_start_offset == end
            await append_durably(log, batch(b"v" * 10_000, timestamp_ms=clock.now_ms))
            last = log.log_end_offset
            log.check_invariants()
        async with opened(tmp_path, SETTINGS, clock=clock) as folder:
            log = await one_log(folder)
            assert (log.log_start_offset, log.log_end_offset) == (end, last)
            assert folder.recovered.problems == []

    run(main())


def test_a_full_disk_frees_itself_although_a_log_has_many_producers(tmp_path: Path) -> None:
    """What is known of them is written before the last segment goes."""

    async def main() -> None:
        clock, disk, count = StillClock(), SmallDisk(tmp_path, 200), 600
        async with opened(tmp_path, SETTINGS, clock=clock, disk=disk) as folder:
            log = await one_log(folder)
            for sequence in range(BATCHES_KEPT):
                for producer_id in range(count):
                    named = {"producer_id": producer_id, "producer_epoch": 0}
                    log.append_trusted(batch(b"v", base_sequence=sequence, **named))
            await log.wait_durable(log.log_end_offset)
            await folder.remove_leftovers()
            await rounds(folder, log, 1, NOW_MS)
            assert log.statistics().producers == count
            assert log.statistics().segments == 1
            end = log.log_end_offset
            clock.now_ms += DAY_MS
            await rounds(folder, log, 3, clock.now_ms)
            assert (log.log_start_offset, log.failure) == (end, None)
            known = log.producer_states.snapshot()
        async with opened(tmp_path, SETTINGS, clock=clock) as folder:
            log = await one_log(folder)
            assert folder.recovered.problems == []
            assert log.producer_states.snapshot() == known

    run(main())


def test_a_reserve_that_cannot_grow_stays(tmp_path: Path) -> None:
    """A real disk says so: no file may become larger than the limit."""
    disk, path = LocalDisk(), tmp_path / FILE_NAME
    disk.reserve(str(path), 10_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            disk.reserve(str(path), 20_000)
        with pytest.raises(OSError, match="File too large"):
            disk.reserve(str(tmp_path / "none"), 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.stat().st_size == 10_000
    assert not (tmp_path / "none").exists()


def test_the_other_segments_go_while_there_is_no_room_to_roll(tmp_path: Path) -> None:
    async def main() -> None:
        settings = LogSettings(segment_bytes=600, retention_ms=1000, index_interval_bytes=150)
        disk = FullDisk()
        async with opened(tmp_path, settings, disk=disk) as folder:
            log = await one_log(folder)
            await append_durably(log, *(batch(b"v" * 100) for _ in range(20)))
            others = log.statistics().segments - 1
            assert others > 2
            disk.full, disk.where = True, "/t-0/"
            assert folder.enforce_retention(NOW_MS + DAY_MS) == others
            assert folder.enforce_retention(NOW_MS + DAY_MS) == 0
            assert (log.statistics().segments, log.failure) == (1, None)
            assert await read_values(log)
            disk.full = False
            for _ in range(2):
                folder.enforce_retention(NOW_MS + DAY_MS)
                await folder.flusher.idle()
            assert log.log_start_offset == log.log_end_offset == 20
            log.check_invariants()

    run(main())


def test_a_segment_that_was_to_go_is_whole_after_a_crash(tmp_path: Path) -> None:
    """It has got no indexes, for which there was no room. Then its topic keeps records longer."""

    async def main() -> None:
        clock, disk = StillClock(), SmallDisk(tmp_path, 80)
        folder = await open_folder(tmp_path, SETTINGS, clock=clock, disk=disk)
        log = await one_log(folder)
        writer = Writer(log)
        writer.data(1, 2)
        writer.end(1, MarkerType.ABORT)
        await fill(log, 10_000)
        wanted = await read_values(log)
        assert folder.enforce_retention(NOW_MS + DAY_MS) == 0
        await folder.flusher.idle()
        assert log.statistics().segments == 2
        assert not list((tmp_path / "t-0").glob("*index"))
        folder.checkpoint()
        await abandon(folder)
        for _ in range(2):
            async with opened(tmp_path) as folder:
                assert folder.recovered.problems == []
                log = await one_log(folder)
                assert await read_values(log) == wanted
                end = log.log_end_offset
                assert await log.aborted_transactions(0, end) == [AbortedTransaction(1, 0)]
                assert log.last_stable_offset == end

    run(main())
