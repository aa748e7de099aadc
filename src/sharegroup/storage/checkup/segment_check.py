"""Checks one segment: every batch, and at the same time the indexes. Nothing is written.

The walk is that of a scan at start (``storage.scan``), with two differences. The records of each
batch are checked too. And a valid batch with a wrong base offset is not damage: no CRC covers the
base offset, and if the batches after it show what it must be, it can be corrected.
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
from sharegroup.storage.swapping import LOG, SWAP
from sharegroup.wire.batch import BatchHeader

MISPLACED_RUN_MAX: Final = 1_000
"""Most consecutive batches whose offsets are corrected; more are not the effect of flipped bits."""

OnBatch = Callable[[DiskFile, int, BatchHeader, int], None]
"""(file, position, header, base offset) of each valid batch whose producer has an id."""
OnBytes = Callable[[int], None]
"""Called with the number of bytes checked since the last call."""


class Misplaced(NamedTuple):
    """A valid batch at ``position`` that must have ``base_offset`` but has another one."""

    position: int
    base_offset: int
    last_offset: int


class _AnyOffset(Offsets):
    """Accepts a batch with any offset."""

    def follows(self, header: BatchHeader, expected: int) -> bool:
        """Always true."""
        return True


@dataclass(slots=True, kw_only=True)
class SegmentReport:
    """What the check of a segment has found."""

    base_offset: int
    size: int = 0
    end_offset: int = OFFSET_MAX
    """The base offset of the next segment; OFFSET_MAX for the last one."""
    next_offset: int = 0
    valid_bytes: int = 0
    """The end of the last valid batch."""
    batches: int = 0
    damages: list[Damage] = field(default_factory=list)
    """Ascending, including the known ones."""
    misplaced: list[Misplaced] = field(default_factory=list)
    index_problems: list[tuple[str, str]] = field(default_factory=list)
    """(file suffix, what is wrong)."""

    @property
    def tail_bytes(self) -> int:
        """Bytes after the last valid batch."""
        return self.size - self.valid_bytes


class SegmentCheck:
    """The check of one segment, whose file must exist.

    Args:
        path: the segment's files without their suffix.
        offsets: which offsets may follow, as when the segment is read.
        end_offset: the base offset of the next segment; OFFSET_MAX for the last one.
        known_end: the known end of the log, if this is the last segment.
        exchanged: the next start replaces the files by their ``.swap`` files; the check reads the
            ``.swap`` files.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        offsets: Offsets,
        end_offset: int,
        known_end: int | None,
        *,
        exchanged: bool = False,
    ) -> None:
        self._disk = disk
        self._known_end = end_offset if known_end is None else known_end
        self._path = path
        self._exchanged = exchanged
        self._offsets = offsets
        self._placed: set[int] = set()
        self.report = SegmentReport(base_offset=offsets.base_offset, end_offset=end_offset)

    def run(self, on_batch: OnBatch, on_bytes: OnBytes) -> SegmentReport:
        """Check the whole segment. Raises OSError."""
        file = self._disk.open(self._name(LOG))
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
        if report.size:  # an empty segment needs no indexes
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
        """Whether the batch at ``position`` is valid but has a wrong base offset; notes the right
        one.
        """
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
        """The valid batches from ``start`` on that have wrong base offsets. Empty unless the batch
        after them has the base offset that follows from their numbers of records.
        """
        run: list[Misplaced] = []
        position, end_offset = start, self.report.end_offset
        if expected < self._offsets.sparse_below:
            return []  # after compaction the number of records does not tell the next offset
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
        name = self._name(ending)
        return self._disk.read_file(name) if self._disk.exists(name) else None

    def _name(self, ending: str) -> str:
        """The file to check: in an interrupted exchange, some files have their final names already
        and others still end with ``.swap``."""
        name = self._path + ending
        return name + SWAP if self._exchanged and self._disk.exists(name + SWAP) else name
