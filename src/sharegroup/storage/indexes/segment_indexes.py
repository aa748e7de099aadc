"""The indexes of one segment: updated while it grows, read from their files, verified by the log.

An entry is a hint: it must match the batch that it points to, by its last offset or its timestamp.
A wrong entry is dropped. If many entries are wrong, or if a file is not an index, both indexes are
rebuilt from the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.storage.files import write_unsynced
from sharegroup.storage.indexes.sparse_index import OffsetEntry, OffsetIndex, TimeEntry, TimeIndex
from sharegroup.wire.batch import HEADER_BYTES, BatchHeader, parse_header

logger = logging.getLogger(__name__)

DROPS_MAX: Final = 8
"""Wrong entries that are dropped one by one; after more, both indexes are rebuilt."""


class IndexedLog(Protocol):
    """The log file that the indexes point into."""

    file: DiskFile
    size: int
    base_offset: int
    path: str

    def headers(self, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from the boundary ``position`` to ``end``."""
        ...


class SegmentIndexes:
    """Offset index and time index of ``log``, with an entry for each ``interval_bytes`` of it."""

    def __init__(self, disk: Disk, log: IndexedLog, interval_bytes: int) -> None:
        self._disk = disk
        self._log = log
        self.interval_bytes = interval_bytes
        self._unindexed_bytes = 0
        self._dropped = 0
        self._loaded: tuple[OffsetIndex, TimeIndex] | None = None

    # Growing ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """Remove all entries; :meth:`note` adds them again."""
        self._loaded = OffsetIndex(), TimeIndex()
        self._unindexed_bytes = 0

    def note(self, header: BatchHeader, last_offset: int, position: int, timestamp: int) -> None:
        """Note a batch at ``position`` with its largest timestamp; batches must come in order."""
        offsets, times = self.both
        relative = last_offset - self._log.base_offset
        times.saw(timestamp, relative)
        if self._unindexed_bytes > self.interval_bytes:
            offsets.append(relative, position)
            times.mark()
            self._unindexed_bytes = 0
        self._unindexed_bytes += header.length

    def resume(self, header: BatchHeader) -> None:
        """Count a batch after the last entry, while a log with intact indexes is opened."""
        relative = header.last_offset - self._log.base_offset
        self.both[1].saw(header.max_timestamp, relative)
        self._unindexed_bytes += header.length

    def index_next(self) -> None:
        """Add an entry for the next batch whatever the interval: it is the first after a damage."""
        self._unindexed_bytes = self.interval_bytes + 1

    # Looking up ------------------------------------------------------------------------------

    @property
    def both(self) -> tuple[OffsetIndex, TimeIndex]:
        """Both indexes, read on first use, and rebuilt if they are missing or wrong."""
        if self._loaded is None:
            path, size = self._log.path, self._log.size
            try:
                offsets = OffsetIndex.from_bytes(self._disk.read_file(path + ".index"), size)
                times = TimeIndex.from_bytes(self._disk.read_file(path + ".timeindex"), size)
            except (FileNotFoundError, ValueError) as error:
                self._rebuild(str(error))
            else:
                self._loaded = offsets, times
                last = times.last()
                if last is None:
                    self._check_empty(offsets)
                elif not self._has(last):
                    self._rebuild("the largest timestamp in the time index is not in the log")
        assert self._loaded is not None
        return self._loaded

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment; -1 if no batch has one."""
        return self.both[1].max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch with :attr:`max_timestamp`; -1 if no batch has one."""
        relative = self.both[1].max_timestamp_offset
        return -1 if relative < 0 else self._log.base_offset + relative

    def boundary(self, offset: int) -> int:
        """The last indexed batch boundary at or before the batch that holds ``offset``; verified by
        the log.
        """
        while (entry := self.both[0].before(offset - self._log.base_offset)) is not None:
            if self._header_at(entry) is not None:
                return entry.position
            self._drop(entry)
        return 0

    def boundary_before(self, position: int) -> tuple[int, int] | None:
        """The last indexed boundary at or before ``position``, and the offset of the batch there;
        None if the index has none."""
        while (entry := self.both[0].boundary_before(position)) is not None:
            header = self._header_at(entry)
            if header is not None:
                return entry.position, header.base_offset
            self._drop(entry)
        return None

    def last_boundary(self) -> int:
        """The last indexed boundary; does not load the index."""
        if self._loaded is None and self._disk.exists(self._log.path + ".index"):
            entry = OffsetIndex.last_entry(self._disk.read_file(self._log.path + ".index"))
            if entry is not None and self._header_at(entry) is not None:
                return entry.position
        return self.boundary(OFFSET_MAX)

    def time_start(self, timestamp: int) -> int:
        """Where to start the search for ``timestamp``: all batches that end before this offset have
        only older records.
        """
        entry = self._verified(lambda times: times.before(timestamp))
        return self._log.base_offset + (0 if entry is None else entry.relative_offset)

    def largest_below(self, end_offset: int) -> tuple[int, int]:
        """(timestamp, last offset of its batch) of the last indexed maximum below ``end_offset``;
        (-1, -1) if there is none. Since both indexes grow together, only batches from
        ``boundary(end_offset - 1)`` on can have a larger timestamp."""
        relative = end_offset - self._log.base_offset
        entry = self._verified(lambda times: times.before_offset(relative))
        if entry is None:
            return -1, -1
        return entry.timestamp, self._log.base_offset + entry.relative_offset

    def _verified(self, find: Callable[[TimeIndex], TimeEntry | None]) -> TimeEntry | None:
        """The entry that ``find`` finds, verified by the log."""
        entry = find(self.both[1])
        if entry is not None and not self._has(entry):
            self._rebuild("an entry of the time index does not match the log")
            entry = find(self.both[1])
        return entry

    def _header_at(self, entry: OffsetEntry) -> BatchHeader | None:
        """The batch header where an offset index entry points; None if the log has another batch
        there."""
        if not 0 <= entry.position < self._log.size:
            return None
        try:
            header = parse_header(self._log.file.pread(HEADER_BYTES, entry.position))
        except CorruptMessage:
            return None
        matches = header.last_offset == self._log.base_offset + entry.relative_offset
        return header if matches else None

    def _has(self, entry: TimeEntry) -> bool:
        """Whether a time index entry matches the log."""
        offset = self._log.base_offset + entry.relative_offset
        for _, header in self._log.headers(self.boundary(offset), self._log.size):
            if header.last_offset >= offset:
                return header.last_offset == offset and header.max_timestamp == entry.timestamp
        return False

    # Files and repair ------------------------------------------------------------------------

    def write(self, files: list[DiskFile]) -> None:
        """Write the index files without a sync and add them to ``files``. The caller syncs and
        closes them. Indexes that were never loaded are not written: their files are unchanged.
        """
        if self._loaded is None:
            return
        offsets, times = self._loaded
        times.mark()
        write_unsynced(self._disk, self._log.path + ".index", offsets.to_bytes(), files)
        write_unsynced(self._disk, self._log.path + ".timeindex", times.to_bytes(), files)

    def replace_files(self) -> None:
        """Replace the index files if they exist; the active segment's are written when it rolls."""
        if not self._disk.exists(self._log.path + ".index"):
            return
        offsets, times = self.both
        times.mark()
        try:
            self._disk.write_file(self._log.path + ".index", offsets.to_bytes())
            self._disk.write_file(self._log.path + ".timeindex", times.to_bytes())
        except OSError as error:  # the next start rebuilds them again
            logger.warning("indexes of %s.log cannot be written: %s", self._log.path, error)

    def rebuild(self) -> None:
        """Rebuild both indexes from the headers of the log."""
        self.begin()
        end = 0
        for position, header in self._log.headers(0, self._log.size):
            if position != end:
                self.index_next()
            self.note(header, header.last_offset, position, header.max_timestamp)
            end = position + header.length

    def _check_empty(self, found: OffsetIndex) -> None:
        """Check an empty time index, and the offset index beside it. It may have lost its entries:
        only the whole log tells that no batch has a timestamp."""
        self.rebuild()
        offsets, times = self.both
        if times.max_timestamp >= 0 or (offsets and not found):
            self._replace("the time index has lost its entries")

    def _drop(self, entry: OffsetEntry) -> None:
        """Remove an entry that does not match the log, also from the file."""
        if self._dropped >= DROPS_MAX:
            self._rebuild("many entries do not match the log")
            return
        self._dropped += 1
        path, position = self._log.path, entry.position
        logger.warning("an entry of %s.index does not match the log: byte %d", path, position)
        self.both[0].drop(entry)
        self.replace_files()

    def _rebuild(self, reason: str) -> None:
        self._dropped = 0
        self.rebuild()
        self._replace(reason)

    def _replace(self, reason: str) -> None:
        logger.warning("indexes of %s.log are rebuilt: %s", self._log.path, reason)
        self.replace_files()
