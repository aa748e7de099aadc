"""A transaction whose marker is damaged keeps its outcome: the files beside the log know it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sharegroup.model.errors import CorruptMessage
from sharegroup.model.log import AbortedTransaction
from sharegroup.storage import LocalPartitionLog, LogSettings
from sharegroup.wire.markers import MarkerType
from tests.storage.support import abandon, batch, one_log, open_folder, opened, run
from tests.storage.test_checkup import found
from tests.storage.test_damage_at_rest import file_of, flip
from tests.storage.test_transaction_index import Writer

ABORTED = [AbortedTransaction(1, 0), AbortedTransaction(3, 6)]
ABORT, COMMIT = 2, 5
"""Offsets of the markers that a test damages."""
END = 10
EPOCH = range(12, 16)
"""The bytes of a batch that no CRC covers and nobody needs: its leader epoch."""


async def fill(path: Path, *, sealed: bool) -> tuple[dict[int, int], int]:
    """0-1 aborted, marker at 2; 3-4 committed, marker at 5; 6-7 aborted, marker at 8; a record at
    9. A clean end. Returns the places of the markers, and their length."""
    async with opened(path) as folder:
        log = await one_log(folder)
        writer = Writer(log)
        for producer_id, marker in enumerate(
            (MarkerType.ABORT, MarkerType.COMMIT, MarkerType.ABORT), start=1
        ):
            writer.data(producer_id, 2)
            writer.end(producer_id, marker)
        if sealed:
            log._roll()
        await log.append(batch(b"plain"))
        await writer.durable()
        await check(log)
        places = {at: log._segments[0].position_of(at) for at in (ABORT, COMMIT, 6, 8)}
        return places, places[6] - places[COMMIT]


async def check(log: LocalPartitionLog) -> None:
    assert log.last_stable_offset == log.high_watermark == END
    assert await log.aborted_transactions(0, END) == ABORTED
    log.check_invariants()


async def find(log: LocalPartitionLog, offset: int) -> None:
    with pytest.raises(CorruptMessage):
        await log.read(offset, 1 << 20)


@pytest.mark.parametrize("sealed", [False, True], ids=["last segment", "sealed segment"])
@pytest.mark.parametrize("marker", [ABORT, COMMIT], ids=["abort", "commit"])
def test_no_flipped_bit_of_a_marker_changes_an_outcome(
    marker: int, sealed: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        places, size = await fill(tmp_path / "whole", sealed=sealed)
        for position in range(size):
            shutil.copytree(tmp_path / "whole", tmp_path / "copy")
            flip(file_of(tmp_path / "copy", 0), places[marker] + position, position % 8)
            for _ in range(2):
                async with opened(tmp_path / "copy") as folder:
                    assert folder.recovered.clean
                    log = await one_log(folder)
                    await check(log)
                    if position not in EPOCH:
                        await find(log, marker)
            shutil.rmtree(tmp_path / "copy")

    run(main())


def test_a_damaged_first_batch_keeps_its_transaction_aborted(tmp_path: Path) -> None:
    async def main() -> None:
        places, _ = await fill(tmp_path, sealed=True)
        flip(file_of(tmp_path, 0), places[6] + 70, 0)
        for _ in range(2):
            async with opened(tmp_path) as folder:
                log = await one_log(folder)
                await check(log)
                await find(log, 6)

    run(main())


def test_a_bit_of_a_marker_that_flips_while_the_broker_runs_changes_no_outcome(
    tmp_path: Path,
) -> None:
    """Where another index is bad as well, and is rebuilt by a replay."""

    async def main() -> None:
        places, _ = await fill(tmp_path, sealed=True)
        index = file_of(tmp_path, 0, ".txnindex")
        async with opened(tmp_path) as folder:
            flip(file_of(tmp_path, 0), places[ABORT] + 70, 0)
            await find(await one_log(folder), ABORT)
        entry = 34
        index.write_bytes(index.read_bytes()[: entry + 18] + bytes(8) + index.read_bytes()[-8:])
        for _ in range(2):
            async with opened(tmp_path) as folder:
                await check(await one_log(folder))

    run(main())


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("sealed", [False, True], ids=["last segment", "sealed segment"])
def test_a_damaged_abort_marker_still_ends_its_transaction_after_a_crash(
    sealed: bool, known: bool, tmp_path: Path
) -> None:
    """All that comes before the last clean end is in the index of that end."""

    async def main() -> None:
        places, _ = await fill(tmp_path, sealed=sealed)
        folder = await open_folder(tmp_path)
        flip(file_of(tmp_path, 0), places[ABORT] + 70, 0)
        if known:
            await find(await one_log(folder), ABORT)
        await abandon(folder)
        for path in (tmp_path / "t-0").glob("*.snapshot"):
            path.unlink()
        for _ in range(2):
            async with opened(tmp_path) as folder:
                log = await one_log(folder)
                await check(log)
                await find(log, ABORT)

    run(main())


def test_damage_at_the_end_of_a_crashed_log_leaves_its_index_to_the_log(tmp_path: Path) -> None:
    """An index that was torn by the crash says nothing, and what the log has needs none."""

    async def main() -> None:
        folder = await open_folder(tmp_path, LogSettings())
        log = await one_log(folder)
        writer = Writer(log)
        writer.data(1, 2)
        writer.end(1, MarkerType.ABORT)
        await writer.durable()
        await abandon(folder)
        file_of(tmp_path, 0, ".txnindex").write_bytes(b"torn")
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            assert log.last_stable_offset == 3
            assert await log.aborted_transactions(0, 3) == [AbortedTransaction(1, 0)]

    run(main())


@pytest.mark.parametrize("lost_from", [8, 9], ids=["a marker", "a record"])
@pytest.mark.parametrize("marker", [ABORT, COMMIT], ids=["abort", "commit"])
@pytest.mark.parametrize("clean_end", [False, True], ids=["killed", "stopped"])
def test_a_repair_of_a_log_that_has_lost_its_end_keeps_outcomes(
    clean_end: bool, marker: int, lost_from: int, tmp_path: Path
) -> None:
    """It begins a new segment behind the lost offsets, so no start scans the old one any more."""

    async def main() -> None:
        places, size = await fill(tmp_path, sealed=False)
        places[9] = places[8] + size
        folder = await open_folder(tmp_path)
        if clean_end:
            await folder.close()
        else:
            await abandon(folder)
        flip(file_of(tmp_path, 0), places[marker] + 70, 0)
        os.truncate(file_of(tmp_path, 0), places[lost_from])
        findings = found(tmp_path, repair=True)
        assert {finding.kind for finding in findings} >= {"damaged-batches", "missing-records"}
        for _ in range(2):
            async with opened(tmp_path) as folder:
                log = await one_log(folder)
                await find(log, marker)
                assert await log.aborted_transactions(0, END) == ABORTED
                assert log.high_watermark == END
                if marker == ABORT or clean_end:
                    assert log.last_stable_offset == END
                log.check_invariants()

    run(main())
