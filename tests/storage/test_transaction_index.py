"""What a log knows of its transactions: live, after a clean end, after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.model.log import AbortedTransaction
from sharegroup.storage import LocalDisk, LocalPartitionLog, LogSettings
from sharegroup.storage.disk import LocalFile
from sharegroup.storage.indexes.transaction_index import Found, TransactionIndex
from sharegroup.storage.segment import TRANSACTION_INDEX
from sharegroup.transactions.ongoing import EndedTransaction
from sharegroup.wire.batch import TRANSACTIONAL, parse_header, with_records
from sharegroup.wire.markers import MarkerType, encode_marker
from tests.storage.support import (
    NOW_MS,
    abandon,
    append_durably,
    batch,
    one_log,
    open_folder,
    opened,
    run,
)
from tests.storage.test_recovery import check_folder

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=150)

ENTRIES = [
    EndedTransaction(1, 0, 10, 5),
    EndedTransaction(2, 5, 20, 12),
    EndedTransaction(3, 12, 30, 31),
]


@pytest.mark.parametrize(
    ("start", "end", "producers", "complete"),
    [
        (0, 3, [1], True),
        (0, 5, [1], True),
        (0, 6, [1, 2], True),
        (11, 12, [2], True),
        (11, 13, [2, 3], True),
        (21, 25, [3], True),
        (21, 40, [3], False),
        (31, 40, [], False),
    ],
)
def test_looking_up(start: int, end: int, producers: list[int], complete: bool) -> None:
    firsts = {entry.producer_id: entry.first_offset for entry in ENTRIES}
    found = [AbortedTransaction(producer, firsts[producer]) for producer in producers]
    assert TransactionIndex(ENTRIES).find(start, end) == Found(found, complete)


def test_the_file_has_kafkas_format() -> None:
    data = TransactionIndex(ENTRIES).to_bytes()
    assert len(data) == 34 * len(ENTRIES)
    assert data[:34].hex() == f"{0:04x}{1:016x}{0:016x}{10:016x}{5:016x}"
    assert TransactionIndex.from_bytes(data).entries == ENTRIES


def test_a_damaged_file_is_refused() -> None:
    data = TransactionIndex(ENTRIES).to_bytes()
    for damaged in (data[:-1], b"\0\1" + data[2:]):
        with pytest.raises(ValueError):
            TransactionIndex.from_bytes(damaged)


class Writer:
    """Producers that write transactions into a log, as the broker would have them written."""

    def __init__(self, log: LocalPartitionLog) -> None:
        self.log = log
        self._sequences: dict[int, int] = {}

    def data(self, producer_id: int, count: int = 1) -> int:
        """The first offset."""
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + count
        return self.log.append_trusted(
            batch(
                *[b"v" * 40] * count,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                attributes=TRANSACTIONAL,
            )
        ).base_offset

    def end(self, producer_id: int, marker: MarkerType) -> int:
        """The marker's offset."""
        return self.log.append_trusted(
            encode_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS)
        ).base_offset

    async def durable(self) -> None:
        await self.log.wait_durable(self.log.log_end_offset)


async def some_transactions(log: LocalPartitionLog) -> None:
    """0-1 aborted, 2 committed, 3 aborted; markers at 4, 5, 6; an open one from 7 on."""
    writer = Writer(log)
    writer.data(1, 2)
    writer.data(2)
    writer.data(3)
    writer.end(1, MarkerType.ABORT)
    writer.end(2, MarkerType.COMMIT)
    writer.end(3, MarkerType.ABORT)
    writer.data(2, 3)
    await writer.durable()


async def check(log: LocalPartitionLog) -> None:
    assert log.log_end_offset == log.high_watermark == 10
    assert log.last_stable_offset == 7
    first, third = AbortedTransaction(1, 0), AbortedTransaction(3, 3)
    assert await log.aborted_transactions(0, 7) == [first, third]
    assert await log.aborted_transactions(0, 3) == [first]
    assert await log.aborted_transactions(5, 7) == [third]
    log.check_invariants()


def test_the_last_stable_offset_follows_durable_markers(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            writer = Writer(log)
            assert log.last_stable_offset == 0
            await log.append(batch(b"plain"))
            writer.data(1, 3)
            await writer.durable()
            assert (log.last_stable_offset, log.high_watermark) == (1, 4)
            writer.data(2)
            writer.end(1, MarkerType.COMMIT)
            assert log.last_stable_offset == 1
            await writer.durable()
            assert (log.last_stable_offset, log.high_watermark) == (4, 6)
            writer.end(2, MarkerType.ABORT)
            await writer.durable()
            assert log.last_stable_offset == log.high_watermark == 7
            assert await log.aborted_transactions(0, 7) == [AbortedTransaction(2, 4)]
            writer.end(9, MarkerType.ABORT)  # nothing was open: no entry
            await writer.durable()
            assert await log.aborted_transactions(0, 8) == [AbortedTransaction(2, 4)]

    run(main())


def test_a_moved_log_start_moves_the_last_stable_offset(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            await some_transactions(log)
            await log.delete_records(9)
            assert log.last_stable_offset == log.log_start_offset == 9

    run(main())


@pytest.mark.parametrize("settings", [LogSettings(), SMALL], ids=["one segment", "several"])
def test_the_index_survives_a_clean_shutdown(tmp_path: Path, settings: LogSettings) -> None:
    async def main() -> None:
        async with opened(tmp_path, settings) as folder:
            log = await one_log(folder)
            await some_transactions(log)
            await check(log)
        for _ in range(2):
            async with opened(tmp_path, settings) as folder:
                assert folder.recovered.clean
                await check(await one_log(folder))
        assert list((tmp_path / "t-0").glob("*.txnindex"))

    run(main())


@pytest.mark.parametrize("settings", [LogSettings(), SMALL], ids=["one segment", "several"])
def test_the_index_survives_a_crash(tmp_path: Path, settings: LogSettings) -> None:
    async def main() -> None:
        folder = await open_folder(tmp_path, settings)
        log = await one_log(folder)
        await some_transactions(log)
        await abandon(folder)
        async with opened(tmp_path, settings) as folder:
            assert not folder.recovered.clean
            log = await one_log(folder)
            await check(log)
            Writer(log).end(2, MarkerType.ABORT)
            await log.wait_durable(11)
            assert await log.aborted_transactions(7, 11) == [AbortedTransaction(2, 7)]
        async with opened(tmp_path, settings) as folder:
            log = await one_log(folder)
            assert log.last_stable_offset == 11
            assert await log.aborted_transactions(7, 11) == [AbortedTransaction(2, 7)]

    run(main())


def test_a_damaged_index_is_rebuilt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            await some_transactions(await one_log(folder))
        for path in (tmp_path / "t-0").glob("*.txnindex"):
            path.write_bytes(path.read_bytes() + b"torn")
        for _ in range(2):
            async with opened(tmp_path, SMALL) as folder:
                await check(await one_log(folder))
        assert "is rebuilt" in caplog.text

    run(main())


def test_producers_behind_an_empty_control_batch_are_known_after_a_crash(tmp_path: Path) -> None:
    """As the log cleaner leaves it where a whole transaction is gone."""

    async def main() -> None:
        folder = await open_folder(tmp_path)
        log = await one_log(folder)
        marker = MarkerType.COMMIT
        full = encode_marker(marker, producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS)
        log.append_trusted(with_records(parse_header(full)._replace(record_count=0), b""))
        writer = Writer(log)
        writer.data(2, 2)
        await writer.durable()
        before = log.producer_states.snapshot()
        await abandon(folder)
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            assert [each._replace(timestamp_ms=0) for each in log.producer_states.snapshot()] == [
                each._replace(timestamp_ms=0) for each in before if each.producer_id == 2
            ]
            assert log.last_stable_offset == before[-1].transaction_start

    run(main())


def test_retention_deletes_it_with_its_segment(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            await some_transactions(log)
            log._roll()
            await folder.flusher.idle()
            assert list((tmp_path / "t-0").glob("*.txnindex"))
            await log.delete_records(-1)
            assert not list((tmp_path / "t-0").glob("*.txnindex"))

    run(main())


class _Died(BaseException):
    """The process ends here."""


class _DyingDisk(LocalDisk):
    """A disk whose process dies before it opens or replaces a transaction index."""

    def open(self, path: str) -> LocalFile:
        self._check(path)
        return super().open(path)

    def write_file(self, path: str, data: bytes) -> None:
        self._check(path)
        super().write_file(path, data)

    def _check(self, path: str) -> None:
        if path.endswith(TRANSACTION_INDEX):
            raise _Died


@pytest.mark.parametrize("power_lost", [False, True])
def test_aborts_are_known_after_a_crash_in_the_middle_of_a_roll(
    tmp_path: Path, power_lost: bool
) -> None:
    """The recovery point is where the new segment begins, and the sealed one has no index yet."""

    async def main() -> None:
        disk = LocalDisk() if power_lost else _DyingDisk()
        folder = await open_folder(tmp_path, disk=disk)
        log = await one_log(folder)
        await some_transactions(log)
        assert folder.checkpoint()
        assert log.recovery_point == 10
        if power_lost:
            log._roll()
        else:
            with pytest.raises(_Died):
                log._roll()
        await abandon(folder)
        assert (tmp_path / "t-0" / f"{10:020d}.log").exists()
        for path in (tmp_path / "t-0").glob("*index"):
            path.write_bytes(b"")  # the name is on the disk, the content is not
        assert not power_lost or (tmp_path / "t-0" / f"{0:020d}.txnindex").exists()
        assert {kind for kind, _, _ in check_folder(tmp_path)} == {"not-clean"}
        for _ in range(2):
            async with opened(tmp_path) as folder:
                await check(await one_log(folder))
        assert not check_folder(tmp_path)

    run(main())


def test_aborts_are_known_if_a_start_dies_while_it_rebuilds_their_index(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            await some_transactions(log)
            log._roll()
            await append_durably(log, batch(b"of the last segment"))
        path = tmp_path / "t-0" / f"{0:020d}.txnindex"
        path.write_bytes(path.read_bytes() + b"torn")
        disk = _DyingDisk()
        with pytest.raises(_Died):
            await open_folder(tmp_path, disk=disk)
        disk.close()
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            assert await log.aborted_transactions(0, 3) == [AbortedTransaction(1, 0)]

    run(main())


def test_the_index_is_rebuilt_where_all_indexes_of_a_segment_are_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            await some_transactions(await one_log(folder))
        for path in (tmp_path / "t-0").glob("*index"):
            path.unlink()
        for _ in range(2):
            async with opened(tmp_path, SMALL) as folder:
                await check(await one_log(folder))

    run(main())
