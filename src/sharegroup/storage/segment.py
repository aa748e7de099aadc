"""One segment: a ``.log`` file of record batches with its indexes (Kafka class LogSegment).

Invariants:

* batches lie back to back from byte 0 to ``size``, except for the ranges in ``quarantine``;
* their offsets ascend from ``base_offset`` and stay below ``next_offset``, without gaps except for
  damages and offsets removed by compaction;
* an index may lack entries of the log, but never contradicts it.

Old data on disk is not trusted. A batch is checked when this process reads it for the first time.
An index entry is a hint that is verified by the batch header it points to. Data that fails is
quarantined: the bytes stay, the range is saved, and reads continue after it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.log import StoredBatches
from sharegroup.storage.batch_reader import UNREADABLE, BatchReader, Offsets
from sharegroup.storage.checked_ranges import CheckedRanges
from sharegroup.storage.damage import BrokenBatch, Damage
from sharegroup.storage.files import write_unsynced
from sharegroup.storage.indexes.segment_indexes import SegmentIndexes
from sharegroup.storage.indexes.transaction_index import TransactionIndex
from sharegroup.storage.quarantine import DAMAGED, Quarantine
from sharegroup.wire.batch import HEADER_BYTES, BatchHeader, parse_header

logger = logging.getLogger(__name__)

HINTS_MAX: Final = 64
"""Read positions remembered per segment; a reader whose position was dropped pays one index lookup.
"""
WALK_BYTES: Final = 16 * 1024
"""Bytes per read when walking headers: four index intervals."""
STORED_BYTES_MIN: Final = 32 * 1024
"""Fewer bytes than this are read, not sent from the file: sending would cost more than it saves."""
TRANSACTION_INDEX: Final = ".txnindex"
INDEX_SUFFIXES: Final = (".index", ".timeindex", TRANSACTION_INDEX)
SIDE_SUFFIXES: Final = (*INDEX_SUFFIXES, ".snapshot", DAMAGED)


def log_bases(names: Iterable[str]) -> list[int]:
    """The base offsets of the log files among these names, ascending."""
    stems = (name.removesuffix(".log") for name in names if name.endswith(".log"))
    return sorted(int(stem) for stem in stems if stem.isdigit())


class _Place(NamedTuple):
    """A batch boundary, and the next offset there."""

    position: int
    offset: int


class _Span(NamedTuple):
    """What one read covers: from ``place`` to the boundary ``end``, at most to ``limit``."""

    place: _Place
    end: int
    end_offset: int | None
    """The next offset at ``end``, if it became known on the way."""
    limit: int
    limit_offset: int


class Segment:
    """One segment of one partition."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        base_offset: int,
        index_interval_bytes: int,
        sparse_below: int = 0,
    ) -> None:
        self._disk = disk
        self.base_offset = base_offset
        self.offsets = Offsets(base_offset, sparse_below)
        self.path = f"{folder}/{base_offset:020d}"
        self.file: DiskFile = disk.open(self.path + ".log")
        self.size = self.file.size()
        self.next_offset = base_offset
        self.first_timestamp = -1
        self.begun_ms = 0
        """Wall clock of the first append by this process; 0: no append yet."""
        self.durable = True
        """Whether the file's name is on stable storage; for its content, the log knows."""
        self.quarantine = Quarantine(disk, self.path)
        self.transactions = TransactionIndex()
        """The transactions aborted by a marker in this segment."""
        self.indexes = SegmentIndexes(disk, self, index_interval_bytes)
        self._hints: dict[int, int] = {}
        self._checked = CheckedRanges()
        self.end_known = True
        """Whether ``next_offset`` is known; otherwise nothing can be quarantined."""
        self._written_from = self.size
        """Bytes from here on were written, and so checked, by this process."""
        if self.size == 0:
            self.indexes.begin()

    def following(self, disk: Disk, base_offset: int) -> Segment:
        """Create the next segment of the log, with the same settings."""
        folder = self.path.rpartition("/")[0]
        interval = self.indexes.interval_bytes
        return Segment(disk, folder, base_offset, interval, self.offsets.sparse_below)

    # Appending -------------------------------------------------------------------------------

    def note(
        self, header: BatchHeader, base_offset: int, position: int, max_timestamp: int
    ) -> None:
        """Update the indexes for the batch at ``position``; batches must come in order."""
        last_offset = base_offset + header.last_offset_delta
        self.indexes.note(header, last_offset, position, max_timestamp)
        if self.first_timestamp < 0:
            self.first_timestamp = max_timestamp

    # Looking up ------------------------------------------------------------------------------

    def newest_ms(self) -> int:
        """The largest timestamp in the segment; if no batch has one, when the file was last
        written. Retention and cleaning count the segment's age from here. Raises OSError."""
        largest = self.indexes.max_timestamp
        return largest if largest >= 0 else self.file.modified_ms()

    def position_of(self, offset: int) -> int:
        """The position of the batch that holds ``offset``; if no batch does, of the next batch.

        Raises:
            CorruptMessage: ``offset`` lies in a damaged range.
        """
        return self._find(offset).position

    def limit_of(self, offset: int) -> int:
        """The batch boundary at ``offset``: all batches before it are below ``offset``."""
        try:
            return self.position_of(offset)
        except CorruptMessage:
            damage = self.quarantine.at(offset)
            assert damage is not None, "position_of fails at damages only"
            return damage.position

    def after_damage(self, offset: int) -> int:
        """``offset``, or the first offset after the damaged range that contains it."""
        damage = self.quarantine.at(offset)
        return offset if damage is None else damage.last_offset + 1

    def remember(self, offset: int, position: int) -> None:
        """Remember for a sequential reader that the batch with base offset ``offset`` is, or will
        be, at ``position``.
        """
        hints = self._hints
        hints[offset] = position
        if len(hints) > HINTS_MAX:
            del hints[next(iter(hints))]

    def headers(self, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from the boundary ``position`` to ``end``. Damages are
        skipped, also those found on the way.

        Raises:
            CorruptMessage: there is damage, and the end of the segment is not known yet.
        """
        start, before = position, position - 1
        expected = self._offset_at(position)
        jumps = {damage.position: damage for damage in self.quarantine.damages}
        chunk, chunk_start = b"", 0
        while position < end:
            damage = jumps.pop(position, None)
            if damage is not None:
                position, expected = damage.end_position, damage.last_offset + 1
                continue
            if not chunk_start <= position <= chunk_start + len(chunk) - HEADER_BYTES:
                chunk, chunk_start = self.file.pread(WALK_BYTES, position), position
            try:
                header = self._followed(chunk, position - chunk_start, position, expected)
            except BrokenBatch as broken:
                if not self.end_known or not self._search(start, broken):
                    raise
                damages = [d for d in self.quarantine.damages if d.end_position > before]
                jumps = {damage.position: damage for damage in damages}
                position = damages[0].position
                continue
            yield position, header
            before, position = position, position + header.length
            expected = header.last_offset + 1

    def _offset_at(self, position: int) -> int | None:
        """The next offset at a batch boundary; None if the batch there is damaged."""
        if position == 0:
            return self.base_offset
        reach = self._checked.reach(position)
        if reach is not None and reach.end == position:
            return reach.next_offset
        try:
            return parse_header(self.file.pread(HEADER_BYTES, position)).base_offset
        except CorruptMessage:
            return None

    def _followed(self, chunk: bytes, at: int, position: int, expected: int | None) -> BatchHeader:
        try:
            header = parse_header(chunk, at)
        except CorruptMessage as error:
            raise BrokenBatch(position, error) from error
        if expected is not None and not self.offsets.follows(header, expected):
            raise BrokenBatch(position, f"it begins at offset {header.base_offset}")
        if position + header.length > self.size:
            raise BrokenBatch(position, f"it ends {header.length} bytes later, past the last batch")
        return header

    def _find(self, offset: int) -> _Place:
        """The place of the batch that holds ``offset``. Raises CorruptMessage: ``offset`` lies in a
        damaged range."""
        damage = self.quarantine.at(offset)
        if damage is None:
            place = self._remembered(offset) or self._walk(offset)
            damage = self.quarantine.at(offset)  # the walk may just have found this damage
            if damage is None:
                return place
        raise CorruptMessage(
            f"offsets {damage.first_offset} to {damage.last_offset} are damaged on disk"
        )

    def _remembered(self, offset: int) -> _Place | None:
        """Where an earlier read ended, if the batches before that place are checked."""
        position = self._hints.get(offset)
        if position is None:
            return None
        reach = self._checked.reach(position)
        if position < self._written_from and reach is None:
            return None
        at_its_end = reach is not None and reach.end == position
        return _Place(position, reach.next_offset if reach is not None and at_its_end else offset)

    def _walk(self, offset: int) -> _Place:
        for position, header in self.headers(self.indexes.boundary(offset), self.size):
            if header.last_offset >= offset:
                return _Place(position, header.base_offset)
        return _Place(self.size, self.next_offset)

    # Healing ---------------------------------------------------------------------------------

    def reader(self) -> BatchReader:
        """A reader that checks each batch of the file."""
        return BatchReader(self.file, self.size, self.offsets)

    def _search(self, start: int, broken: BrokenBatch) -> list[Damage]:
        """Quarantine the damages between the boundary ``start`` and the place where a walk failed.
        If the offset at ``start`` is not known, search from the segment's start.
        """
        expected = self._offset_at(start)
        if expected is None:
            start, expected = 0, self.base_offset
        self._hints.clear()
        return self.quarantine.search(self.reader(), start, expected, broken, self.next_offset)

    def take_in(self, before: int, broken: BrokenBatch) -> bool:
        """Quarantine a batch that another reader of the file found broken. Returns False if the
        batch is not broken. ``before``: a batch boundary before it."""
        return bool(self._search(before, broken))

    # Reading ---------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, limit: int, limit_offset: int) -> bytes:
        """Read whole checked batches from the one that holds ``offset`` up to ``limit``: about
        ``max_bytes``, but at least one batch.

        ``limit`` is the batch boundary of ``limit_offset``. A damaged range ends the read early.

        Raises:
            CorruptMessage: ``offset`` lies in a damaged range.
        """
        while True:
            place, end, _, limit, limit_offset = self._span(offset, max_bytes, limit, limit_offset)
            data = self.file.pread(end - place.position, place.position)
            try:
                self._check(data, place)
                if data:  # nobody has looked at its first header if the place was remembered
                    self._followed(data, 0, place.position, None)
            except BrokenBatch as broken:
                if not self._search(broken.position, broken):
                    raise
                continue
            self._remember_end(end, limit, limit_offset)
            return data

    def stored(
        self, offset: int, max_bytes: int, limit: int, limit_offset: int
    ) -> StoredBatches | None:
        """Where the batches lie that :meth:`read` would return. None if they must be read instead:
        they are few bytes, not all checked, or in a file that cannot be sent.

        Raises:
            CorruptMessage: ``offset`` lies in a damaged range.
        """
        (position, _), end, end_offset, limit, limit_offset = self._span(
            offset, max_bytes, limit, limit_offset
        )
        if end - position < STORED_BYTES_MIN or not self._is_checked(position, end):
            return None
        if end == limit:
            end_offset = limit_offset
        elif end_offset is None:
            end_offset = self._offset_at(end)
        found = self.file.range(end - position, position)
        if end_offset is None or found is None:
            return None
        self.remember(end_offset, end)
        return StoredBatches(found, end_offset)

    def _span(self, offset: int, max_bytes: int, limit: int, limit_offset: int) -> _Span:
        """What to read for ``offset``: up to ``limit``, or to the damage before it."""
        while True:
            place = self._find(offset)
            known = self.quarantine.damages
            for damage in known:
                if damage.first_offset > offset and place.position <= damage.position < limit:
                    limit, limit_offset = damage.position, damage.first_offset
                    break
            end, end_offset = limit, None
            if limit - place.position > max_bytes:
                end, end_offset = self._end_of_read(place.position, max_bytes, limit)
            if self.quarantine.damages is known:  # no new damage was found on the way
                return _Span(place, end, end_offset, limit, limit_offset)

    def _is_checked(self, position: int, end: int) -> bool:
        """Whether all batches between two batch boundaries were checked before."""
        reach = self._checked.reach(position)
        return max(position, reach.end if reach else 0) >= min(end, self._written_from)

    def _end_of_read(self, position: int, max_bytes: int, limit: int) -> tuple[int, int | None]:
        # An index entry is a batch boundary found without a walk. Only short reads contain none.
        boundary = self.indexes.boundary_before(position + max_bytes)
        if boundary is not None and boundary[0] > position:
            return boundary
        end = position
        for start, header in self.headers(position, limit):
            if end > position and start + header.length > position + max_bytes:
                break
            end = start + header.length
        return end, None

    def _remember_end(self, end: int, limit: int, limit_offset: int) -> None:
        """Remember ``end`` for the next read, if the offset there is known for certain."""
        if end == limit:
            self.remember(limit_offset, limit)
        elif end >= self._written_from or self._checked.reach(end) is not None:
            next_offset = self._offset_at(end)
            if next_offset is not None:
                self.remember(next_offset, end)

    def _check(self, data: bytes, place: _Place) -> None:
        """Check the batches of ``data``, read at ``place``, that were not checked before.

        Raises:
            BrokenBatch: a batch is invalid; the batches before it count as checked.
        """
        position, expected = place
        view, start = memoryview(data), position
        end = min(start + len(data), self._written_from)
        while position < end:
            reach = self._checked.reach(position)
            if reach is not None:
                if reach.end > position:
                    position = reach.end
                    continue
                expected = reach.next_offset
            limit = min(end, self._checked.next_start(position))
            position = self._check_run(view, start, _Place(position, expected), limit)

    def _check_run(self, view: memoryview, start: int, place: _Place, limit: int) -> int:
        """Check unchecked batches until one ends at or past ``limit``; returns where it ends."""
        first, expected = place
        position, end_offset = first, self.next_offset
        check, follows = self.offsets.check, self.offsets.follows
        try:
            while position < limit:
                at = position - start
                header = parse_header(view, at)
                batch = view[at : at + header.length]
                if len(batch) < header.length:
                    raise CorruptMessage(f"a batch of {header.length} bytes is incomplete")
                if not follows(header, expected) or header.last_offset >= end_offset:
                    raise CorruptMessage(f"it begins at {header.base_offset}, not at {expected}")
                check(header, batch)
                position += header.length
                expected = header.last_offset + 1
        except UNREADABLE as error:
            raise BrokenBatch(position, error) from error
        finally:
            if position > first:
                self._checked.add(first, position, expected)
        return position

    # Files -----------------------------------------------------------------------------------

    def write_indexes(self, files: list[DiskFile]) -> None:
        """Write the index files without a sync and add them to ``files``. The caller syncs and
        closes them.
        """
        path = self.path + TRANSACTION_INDEX
        if self.transactions.entries:
            write_unsynced(self._disk, path, self.transactions.to_bytes(), files)
        else:
            self._disk.remove(path)
        self.indexes.write(files)

    def remove_indexes(self) -> None:
        """Delete the index files; the next start rebuilds them. Raises OSError."""
        for suffix in INDEX_SUFFIXES:
            self._disk.remove(self.path + suffix)

    def load_transactions(self) -> None:
        """Read the transaction index, whose file must exist.

        Raises:
            ValueError: it is damaged.
        """
        data = self._disk.read_file(self.path + TRANSACTION_INDEX)
        self.transactions = TransactionIndex.from_bytes(data)

    def rewrite_indexes(self, files: list[DiskFile]) -> None:
        """As :meth:`write_indexes`, for a segment that the next start does not scan, even after a
        crash. It takes a missing transaction index for no aborted transactions, so a bad file stays
        until its successor is durable.
        """
        path = self.path + TRANSACTION_INDEX
        if self.transactions.entries:
            self._disk.write_file(path, self.transactions.to_bytes())
        else:
            self._disk.remove(path)
        self.indexes.write(files)

    def truncate(self, size: int) -> None:
        """Truncate the log file. The caller has adjusted the indexes already."""
        self.file.truncate(size)
        self.size = size
        self._hints.clear()
        self._checked.cut(size)
        self._written_from = size

    def close(self) -> None:
        """Close the log file."""
        self.file.close()

    def remove(self) -> None:
        """Close and delete all files of the segment.

        Raises:
            OSError: the log file cannot be removed; nothing has changed then.
        """
        self._disk.remove(self.path + ".log")
        self.close()
        self.remove_sides()

    def remove_sides(self) -> None:
        """Delete all files of the segment but its log; one that cannot be deleted is logged."""
        for suffix in SIDE_SUFFIXES:
            try:
                self._disk.remove(self.path + suffix)
            except OSError as error:
                logger.warning("%s cannot be removed: %s", self.path + suffix, error)
