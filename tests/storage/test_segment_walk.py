"""A start and a check walk a segment by one piece of code: whatever is wrong, both find it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sharegroup.model.errors import CorruptMessage
from sharegroup.model.ids import TopicPartition
from sharegroup.storage import LocalPartitionLog, checkpoints
from sharegroup.storage.checkup.partition_check import PartitionReport
from sharegroup.wire.batch import parse_headers
from tests.storage.support import batch, one_log, opened, run
from tests.storage.test_checkup import checked
from tests.storage.test_damage_at_rest import RECORDS, SMALL, file_of, value
from tests.storage.test_partition_log import damaged
from tests.storage.test_recovery import FIRST_LOG, crashed_with

KEY = TopicPartition("t", 0)
SIZE = len(batch(value(0), value(1)))
FOREIGN = bytes(range(1, 101))

Change = Callable[[bytes], bytes]
"""The content of a segment, before → after."""


def flip(position: int) -> Change:
    def change(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[position] ^= 0x40
        return bytes(changed)

    return change


def with_offsets_of_the_next(data: bytes) -> bytes:
    return data + batch(b"next", base_offset=parse_headers(data)[-1].last_offset + 1)


CHANGES: dict[str, Change] = {
    "nothing": lambda data: data,
    "a torn tail": lambda data: data[:-5],
    "zeros at the end": lambda data: data + bytes(300),
    "foreign bytes at the end": lambda data: data + FOREIGN,
    "a lost batch at the end": lambda data: data[:-SIZE],
    "an empty file": lambda _: b"",
    "high byte of a base offset": flip(SIZE + 1),
    "low byte of a base offset": flip(SIZE + 7),
    "base offset of the first batch": flip(7),
    "base offset of the last batch": flip(-SIZE + 7),
    "length": flip(SIZE + 11),
    "leader epoch": flip(SIZE + 15),
    "magic": flip(SIZE + 16),
    "CRC": flip(SIZE + 20),
    "last offset": flip(SIZE + 26),
    "records": flip(SIZE + 70),
    "records of the last batch": flip(-20),
    "a hole": lambda data: data[:SIZE] + data[2 * SIZE :],
    "a batch twice": lambda data: data[: 2 * SIZE] + data[SIZE:],
    "a batch in the place of another": lambda data: data[:SIZE] + data[:SIZE] + data[2 * SIZE :],
    "foreign bytes between two batches": lambda data: data[:SIZE] + FOREIGN + data[SIZE:],
    "offsets of the next segment": with_offsets_of_the_next,
}


def damages_of(report: PartitionReport) -> list[tuple[int, int]]:
    return [(damage.first_offset, damage.last_offset) for damage in report.damages()]


def known_to(log: LocalPartitionLog) -> list[tuple[int, int]]:
    return [(damage.first, damage.last) for damage in log.damages()]


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("what", CHANGES)
def test_a_start_after_a_crash_finds_what_a_check_finds(
    what: str, which: int, tmp_path: Path
) -> None:
    async def main() -> None:
        batches = [batch(value(first), value(first + 1)) for first in range(0, RECORDS, 2)]
        await crashed_with(tmp_path, *batches, settings=SMALL)
        (tmp_path / checkpoints.RECOVERY_POINTS).unlink(missing_ok=True)
        bases = sorted(int(file.stem) for file in (tmp_path / "t-0").glob("*.log"))
        file = file_of(tmp_path, bases[which])
        assert file.stat().st_size >= 3 * SIZE
        file.write_bytes(CHANGES[what](file.read_bytes()))
        report = checked(tmp_path).partitions[KEY]
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            assert known_to(log) == damages_of(report)
            assert log.log_end_offset == report.end_offset
            log.check_invariants()

    run(main())


@pytest.mark.parametrize("torn", [b"", b"torn"])
def test_wrong_records_at_the_end_are_damage_and_no_torn_tail(torn: bytes, tmp_path: Path) -> None:
    """Their CRC fits, and a start looks no further: the log ends after them."""

    async def main() -> None:
        await crashed_with(tmp_path, batch(b"a"))
        with (tmp_path / FIRST_LOG).open("ab") as file:
            file.write(damaged(batch(b"b", base_offset=1), record_count=2) + torn)
        check = checked(tmp_path)
        report = check.partitions[KEY]
        assert damages_of(report) == [(1, 1)]
        assert ("torn-tail" in {finding.kind for finding in check.findings}) is bool(torn)
        async with opened(tmp_path) as folder:
            assert folder.recovered.truncated_bytes == len(torn)
            log = await one_log(folder)
            assert log.log_end_offset == report.end_offset == 2
            with pytest.raises(CorruptMessage):
                await log.read(1, 1000)
            assert known_to(log) == [(1, 1)]

    run(main())


def test_a_wrong_base_offset_after_a_broken_batch_does_not_cut_the_log(tmp_path: Path) -> None:
    """Two faults side by side: the second batch is valid, but for its base offset, which no CRC
    covers. It was believed, so all batches after it were a tail, and were truncated."""

    async def main() -> None:
        batches = [batch(value(first), value(first + 1)) for first in range(0, 20, 2)]
        await crashed_with(tmp_path, *batches)
        (tmp_path / checkpoints.RECOVERY_POINTS).unlink(missing_ok=True)
        file = tmp_path / FIRST_LOG
        broken = flip(2 * SIZE + 70)(file.read_bytes())
        file.write_bytes(flip(3 * SIZE + 5)(broken))
        report = checked(tmp_path).partitions[KEY]
        assert damages_of(report) == [(4, 7)]
        async with opened(tmp_path) as folder:
            assert folder.recovered.truncated_bytes == 0
            log = await one_log(folder)
            assert known_to(log) == [(4, 7)]
            assert log.log_end_offset == report.end_offset == 20
            log.check_invariants()

    run(main())
