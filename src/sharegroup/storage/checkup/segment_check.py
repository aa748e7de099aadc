"""Walk one segment: every batch checked, beside it the indexes. Nothing is written.

The walk is that of a scan at start (``storage.scan``), with two differences: the records of each
batch are checked too, and a batch that only stands at a wrong offset is told from damage. No CRC
covers the base offset; where the batches behind it say what it must be, it can be put right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.storage.batch_reader import CHUNK_BYTES, BatchReader, Offsets
from sharegroup.storage.checkup.index_check import IndexCheck
from sharegroup.storage.damage import BrokenBatch, Damage, merged
from sharegroup.wire.batch import BatchHeader

MISPLACED_RUN_MAX: Final = 1_000
"""Batches in a row whose offsets are put right together: more is no flipped bit."""

OnBatch = Callable[[DiskFile, int, BatchHeader, int], None]
"""(file, position, header, base offset) of each whole batch of a producer with an id."""
OnBytes = Callable[[int], None]
"""So many bytes more have been looked at."""


class Misplaced(NamedTuple):
    """A whole batch at ``position`` that must have ``base_offset``, and has another one."""

    position: int
    base_offset: int
    last_offset: int


class _AnyOffset(Offsets):
    """For looking at a batch whatever its offset."""

    def follows(self, header: BatchHeader, expected: int) -> bool:
        """Every batch may."""
        return True


@dataclass(slots=True, kw_only=True)
class SegmentReport:
    """What a walk has found."""

    base_offset: int
    size: int = 0
    end_offset: int = OFFSET_MAX
    """Where the next segment begins; OFFSET_MAX for the last one."""
    next_offset: int = 0
    valid_bytes: int = 0
    """The end of the last whole batch."""
    batches: int = 0
    damages: list[Damage] = field(default_factory=list)
    """Ascending, those that were known included."""
    misplaced: list[Misplaced] = field(default_factory=list)
    index_problems: list[tuple[str, str]] = field(default_factory=list)
    """(ending of the file, what is wrong)."""

    @property
    def tail_bytes(self) -> int:
        """Bytes behind the last whole batch."""
        return self.size - self.valid_bytes


class SegmentCheck:
    """The walk over one segment, whose file must be there.

    Args:
        path: the segment's files without their ending.
        offsets: as a segment that is read has them.
        end_offset: where the next segment begins; OFFSET_MAX for the last one.
        known_end: where the log is known to have ended, if this is the last one.
    """

    def __init__(
        self, disk: Disk, path: str, offsets: Offsets, end_offset: int, known_end: int | None
    ) -> None:
        self._disk = disk
        self._known_end = end_offset if known_end is None else known_end
        self._path = path
        self._offsets = offsets
        self._placed: set[int] = set()
        self.report = SegmentReport(base_offset=offsets.base_offset, end_offset=end_offset)

    def run(self, on_batch: OnBatch, on_bytes: OnBytes) -> SegmentReport:
        """Walk to the end. Raises OSError."""
        file = self._disk.open(self._path + ".log")
        try:
            self._walk(file, on_batch, on_bytes)
        finally:
            file.close()
        return self.report

    def _walk(self, file: DiskFile, on_batch: OnBatch, on_bytes: OnBytes) -> None:
        report, offsets = self.report, self._offsets
        report.size, report.next_offset = file.size(), offsets.base_offset
        self._reader = BatchReader(file, report.size, offsets)
        anywhere = _AnyOffset(offsets.base_offset, offsets.sparse_below)
        self._anywhere = BatchReader(file, report.size, anywhere)
        index = IndexCheck(report.base_offset, self._read(".index"), self._read(".timeindex"))
        position = told = 0
        while position < report.size:
            if position - told >= CHUNK_BYTES:
                on_bytes(position - told)
                told = position
            try:
                header, base_offset = self._batch(position)
            except BrokenBatch:
                if self._place(position):
                    continue
                found = self._reader.next_valid(position, report.next_offset, report.end_offset)
                if found is None:
                    break
                position = self._damaged(index, position, *found)
                continue
            last_offset = base_offset + header.last_offset_delta
            index.batch(position, header, last_offset)
            if header.producer_id >= 0:
                on_batch(file, position, header, base_offset)
            position += header.length
            report.batches += 1
            report.valid_bytes, report.next_offset = position, last_offset + 1
        report.damages = merged([], report.damages)
        if report.size:  # an empty one needs none
            complete = not report.damages and position >= report.size
            report.index_problems = index.problems(complete=complete)
        on_bytes(report.size - told)

    def _batch(self, position: int) -> tuple[BatchHeader, int]:
        """(header, base offset) of the batch at ``position``; raises BrokenBatch."""
        expected = self.report.next_offset
        if position in self._placed:
            return self._anywhere.batch(position, expected), expected
        header = self._reader.batch(position, expected)
        if header.last_offset >= self.report.end_offset:
            raise BrokenBatch(position, "the next segment has its offsets")
        return header, header.base_offset

    def _place(self, position: int) -> bool:
        """Whether the batch at ``position`` only stands at a wrong offset, which is known now."""
        run = self._misplaced(position, self.report.next_offset)
        self._placed.update(each.position for each in run)
        self.report.misplaced += run
        return bool(run)

    def _damaged(self, index: IndexCheck, position: int, end: int, base_offset: int) -> int:
        damage = Damage(position, end, self.report.next_offset, base_offset - 1)
        self.report.damages.append(damage)
        index.damaged(damage)
        self.report.next_offset = base_offset
        return end

    def _misplaced(self, start: int, expected: int) -> list[Misplaced]:
        """The whole batches from ``start`` on with wrong offsets, up to one with the offset that
        their numbers of records make; none when there is no such one.
        """
        run: list[Misplaced] = []
        position, end_offset = start, self.report.end_offset
        if expected < self._offsets.sparse_below:
            return []  # compaction has taken offsets: their number proves nothing
        while len(run) <= MISPLACED_RUN_MAX:
            if position == self.report.size:
                return run if run and expected == self._known_end else []
            try:
                header = self._anywhere.batch(position, expected)
            except BrokenBatch:
                return []
            if header.base_offset == expected:
                return run
            last = expected + header.last_offset_delta
            run.append(Misplaced(position, expected, last))
            position, expected = position + header.length, last + 1
            if expected > end_offset:
                return []
        return []

    def _read(self, ending: str) -> bytes | None:
        if not self._disk.exists(self._path + ending):
            return None
        return self._disk.read_file(self._path + ending)
