"""One run of the cleaner over one log, in slices that may run in a thread (Kafka class Cleaner).

First the keys of the dirty segments are read, as many as the table holds. Then all segments that
begin before the first unread key are written anew, a group at a time. Only the steps between two
slices touch the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.log_settings import SEGMENT_BYTES_MAX
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.records.keys import KeyTable
from sharegroup.storage import swapping
from sharegroup.storage.batch_reader import UNREADABLE
from sharegroup.storage.cleaner.batch_cleaning import Aborted, BatchCleaner, CleanRules, note_keys
from sharegroup.storage.cleaner.next_log import Candidate, groups
from sharegroup.storage.damage import BrokenBatch
from sharegroup.storage.files import write_unsynced
from sharegroup.storage.indexes.segment_indexes import SegmentIndexes
from sharegroup.storage.indexes.transaction_index import TransactionIndex
from sharegroup.storage.segment import Segment
from sharegroup.wire.batch import BatchHeader, Buffer, parse_header

SLICE_BYTES: Final = 4 << 20
"""Bytes of log per slice: some ten milliseconds of a thread."""
_WRITE_BYTES: Final = 1 << 20


class BrokenSegment(Exception):
    """A batch of ``segment`` is damaged. ``before``: a valid batch boundary before that batch."""

    def __init__(self, segment: Segment, before: int, broken: BrokenBatch) -> None:
        super().__init__(str(broken))
        self.segment = segment
        self.before = before
        self.broken = broken


class GoodBatch(NamedTuple):
    """A batch whose CRC is good."""

    segment: Segment
    before: int
    """A batch boundary before it."""
    position: int
    header: BatchHeader
    batch: Buffer

    @property
    def is_last(self) -> bool:
        """Whether it is the last one of its segment."""
        return self.position + self.header.length == self.segment.size


def batches(segment: Segment) -> Iterator[GoodBatch]:
    """All batches of a sealed segment; known damages are skipped. Raises BrokenSegment, OSError."""
    reader = segment.reader()
    damages = {damage.position: damage for damage in segment.quarantine.damages}
    before = position = 0
    offset = segment.base_offset
    while position < segment.size:
        damage = damages.pop(position, None)
        if damage is not None:
            position, offset = damage.end_position, damage.last_offset + 1
            continue
        try:
            header = reader.batch(position, offset, records=False)
        except BrokenBatch as error:
            raise BrokenSegment(segment, before, error) from error
        yield GoodBatch(segment, before, position, header, reader.bytes_of(position, header))
        before, position = position, position + header.length
        offset = header.last_offset + 1


@contextmanager
def blamed(place: GoodBatch) -> Iterator[None]:
    """Turn the error of a batch whose records cannot be read into BrokenSegment."""
    try:
        yield
    except UNREADABLE as error:
        broken = BrokenBatch(place.position, error)
        raise BrokenSegment(place.segment, place.before, broken) from error


class CleanRun:
    """See the module."""

    def __init__(
        self,
        disk: Disk,
        candidate: Candidate,
        keys: KeyTable,
        now_ms: int,
    ) -> None:
        log = candidate.log
        self._disk = disk
        self._segments = candidate.segments
        self._dirty_from = candidate.dirty_from
        self._keys = keys
        self._now_ms = now_ms
        self._settings = log.settings
        self._held_from = log.cleaning.needed.held_from if log.settings.names_groups else OFFSET_MAX
        self._producers = log.cleaning.last_of_producers()
        self._aborted = Aborted(
            entry for segment in log.cleaning.segments for entry in segment.transactions.entries
        )
        self.end_offset = candidate.segments[-1].next_offset
        """The log is clean up to this offset when the run has ended."""

    def read_keys(self) -> Iterator[None]:
        """Read the keys of the dirty segments, a slice at each step.

        Raises:
            BrokenSegment: a batch is damaged.
            OSError: the disk failed, or the segment was deleted meanwhile.
        """
        read = 0
        for segment in self._segments:
            if segment.next_offset <= self._dirty_from:
                continue
            for place in batches(segment):
                header = place.header
                if header.last_offset < self._dirty_from:
                    continue
                if not self._keys.has_room(header.record_count):
                    self.end_offset = header.base_offset
                    return
                if not self._aborted.holds(header):
                    with blamed(place):
                        note_keys(self._keys, header, place.batch)
                read += header.length
                if read >= SLICE_BYTES:
                    read = 0
                    yield

    def groups(self) -> list[CleanedGroup]:
        """What to write, in order; call it after :meth:`read_keys`."""
        segments = [each for each in self._segments if each.base_offset < self.end_offset]
        rules = CleanRules(
            now_ms=self._now_ms,
            delete_retention_ms=self._settings.delete_retention_ms,
            end_offset=self.end_offset,
            hold=any(segment.quarantine.damages for segment in segments),
            held_from=self._held_from,
            producers=self._producers,
        )
        cleaner = BatchCleaner(self._keys, self._aborted, rules)
        return [
            CleanedGroup(self._disk, group, cleaner) for group in groups(segments, self._settings)
        ]


class CleanedGroup:
    """Adjoining segments that are written anew as one."""

    def __init__(self, disk: Disk, segments: Sequence[Segment], cleaner: BatchCleaner) -> None:
        self._disk = disk
        self._cleaner = cleaner
        self.segments = segments
        self.path = segments[0].path
        self.base_offset = segments[0].base_offset
        self.end_offset = segments[-1].next_offset
        self.size = 0
        self.transactions = TransactionIndex()
        self.changed = len(segments) > 1
        """Whether the cleaned segment is not the same as the old one, byte for byte."""
        self.files: list[DiskFile] = []
        """The caller must sync these files before :func:`swapping.commit`, then close them."""

    @property
    def fits(self) -> bool:
        """Whether the result is no larger than a segment can be."""
        return self.size <= SEGMENT_BYTES_MAX

    def write(self) -> Iterator[None]:
        """Write the ``.cleaned`` files, a slice at each step; raises as
        :meth:`CleanRun.read_keys`."""
        swapping.discard(self._disk, self.path)
        self.file = self._disk.open(f"{self.path}{swapping.LOG}{swapping.CLEANED}")
        self.files.append(self.file)
        indexes = SegmentIndexes(self._disk, self, self.segments[0].indexes.interval_bytes)
        indexes.begin()
        read, unwritten, parts = 0, 0, list[bytes]()
        for place in (place for segment in self.segments for place in batches(segment)):
            last = place.is_last and place.segment is self.segments[-1]
            with blamed(place):
                left = self._cleaner.cleaned(place.header, place.batch, last=last)
            self.changed = self.changed or left is not place.batch
            if left is not None:
                header = parse_header(left)
                indexes.note(header, header.last_offset, self.size, header.max_timestamp)
                self.size += header.length
                unwritten += header.length
                parts.append(bytes(left))
                if unwritten >= _WRITE_BYTES:
                    self.file.append(parts)
                    unwritten, parts = 0, []
            read += place.header.length
            if read >= SLICE_BYTES:
                read = 0
                yield
        if parts:
            self.file.append(parts)
        self._write_sides(indexes)

    def _write_sides(self, indexes: SegmentIndexes) -> None:
        offsets, times = indexes.both
        times.mark()
        kept = self._cleaner.kept_markers
        self.transactions = TransactionIndex(
            entry
            for segment in self.segments
            for entry in segment.transactions.entries
            if entry.last_offset in kept
        )
        for suffix, data in (
            (".index", offsets.to_bytes()),
            (".timeindex", times.to_bytes()),
            (".txnindex", self.transactions.to_bytes()),
        ):
            path = f"{self.path}{suffix}{swapping.CLEANED}"
            write_unsynced(self._disk, path, data, self.files)

    def headers(self, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yields nothing: the indexes of a segment that is being written are never rebuilt."""
        return iter(())

    def close(self) -> None:
        """Close the written files."""
        for file in self.files:
            file.close()
