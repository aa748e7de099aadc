"""The indexes of one segment: kept up while it grows, read from their files, held against the log.

An entry is a hint. What it leads to must bear it out: the batch there ends at the entry's offset,
or has the entry's timestamp. An entry that does not fit is dropped, and with many of them, or with
a file that cannot be an index, both are made again from the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, Protocol

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.storage.files import write_unsynced
from sharegroup.storage.index import OffsetEntry, OffsetIndex, TimeEntry, TimeIndex
from sharegroup.wire.batch import HEADER_BYTES, BatchHeader, parse_header

logger = logging.getLogger(__name__)

DROPS_MAX: Final = 8
"""Wrong entries taken out one by one; then the whole index is made again."""


class IndexedLog(Protocol):
    """The log file that the indexes are of."""

    file: DiskFile
    size: int
    base_offset: int
    path: str

    def headers(self, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a boundary on."""
        ...


class SegmentIndexes:
    """Offset index and time index of ``log``. ``interval_bytes``: log between two entries."""

    def __init__(self, disk: Disk, log: IndexedLog, interval_bytes: int) -> None:
        self._disk = disk
        self._log = log
        self.interval_bytes = interval_bytes
        self._unindexed_bytes = 0
        self._dropped = 0
        self._loaded: tuple[OffsetIndex, TimeIndex] | None = None

    # Growing ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """Forget all entries: they are made again by :meth:`note`."""
        self._loaded = OffsetIndex(), TimeIndex()
        self._unindexed_bytes = 0

    def note(self, header: BatchHeader, last_offset: int, position: int, timestamp: int) -> None:
        """Take in a batch at ``position`` with its largest timestamp; batches come in order."""
        offsets, times = self.both
        relative = last_offset - self._log.base_offset
        times.saw(timestamp, relative)
        if self._unindexed_bytes > self.interval_bytes:
            offsets.append(relative, position)
            times.mark()
            self._unindexed_bytes = 0
        self._unindexed_bytes += header.length

    def resume(self, header: BatchHeader) -> None:
        """Count a batch after the last entry, when the log is opened and the indexes are right."""
        relative = header.last_offset - self._log.base_offset
        self.both[1].saw(header.max_timestamp, relative)
        self._unindexed_bytes += header.length

    def index_next(self) -> None:
        """Make an entry for the next batch whatever the interval (the first one after a damage)."""
        self._unindexed_bytes = self.interval_bytes + 1

    # Looking up ------------------------------------------------------------------------------

    @property
    def both(self) -> tuple[OffsetIndex, TimeIndex]:
        """Both indexes, read on first use, and made again when they are missing or wrong."""
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
                if last is not None and not self._has(last):
                    self._rebuild("the largest timestamp is not where the time index says")
        assert self._loaded is not None
        return self._loaded

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment; -1 when there is none."""
        return self.both[1].max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch that has :attr:`max_timestamp`; -1 without one."""
        relative = self.both[1].max_timestamp_offset
        return -1 if relative < 0 else self._log.base_offset + relative

    def boundary(self, offset: int) -> int:
        """The nearest batch boundary at or before the batch that holds ``offset`` that the index
        knows and the log bears out.
        """
        while (entry := self.both[0].before(offset - self._log.base_offset)) is not None:
            if self._bears_out(entry):
                return entry.position
            self._drop(entry)
        return 0

    def boundary_before(self, position: int) -> int:
        """The last boundary at or before ``position`` that the index knows; 0 when none."""
        while (entry := self.both[0].boundary_before(position)) is not None:
            if self._bears_out(entry):
                return entry.position
            self._drop(entry)
        return 0

    def last_boundary(self) -> int:
        """The last boundary that the index knows, without loading the index."""
        if self._loaded is None and self._disk.exists(self._log.path + ".index"):
            entry = OffsetIndex.last_entry(self._disk.read_file(self._log.path + ".index"))
            if entry is not None and self._bears_out(entry):
                return entry.position
        return self.boundary(OFFSET_MAX)

    def time_start(self, timestamp: int) -> int:
        """An offset such that no batch that ends before it has a record at or after
        ``timestamp``.
        """
        entry = self.both[1].before(timestamp)
        if entry is not None and not self._has(entry):
            self._rebuild("a time index entry does not fit the log")
            entry = self.both[1].before(timestamp)
        return self._log.base_offset + (0 if entry is None else entry.relative_offset)

    def _bears_out(self, entry: OffsetEntry) -> bool:
        """Whether the log has the batch that an offset index entry says."""
        if not 0 <= entry.position < self._log.size:
            return False
        try:
            header = parse_header(self._log.file.pread(HEADER_BYTES, entry.position))
        except CorruptMessage:
            return False
        return header.last_offset == self._log.base_offset + entry.relative_offset

    def _has(self, entry: TimeEntry) -> bool:
        """Whether the log has the timestamp that a time index entry says."""
        offset = self._log.base_offset + entry.relative_offset
        for _, header in self._log.headers(self.boundary(offset), self._log.size):
            if header.last_offset >= offset:
                return header.last_offset == offset and header.max_timestamp == entry.timestamp
        return False

    # Files and repair ------------------------------------------------------------------------

    def write(self, files: list[DiskFile]) -> None:
        """Write the index files, not yet synced, and add them to ``files``: the caller syncs and
        closes those. Indexes that were never needed are right as they are.
        """
        if self._loaded is None:
            return
        offsets, times = self._loaded
        times.mark()
        write_unsynced(self._disk, self._log.path + ".index", offsets.to_bytes(), files)
        write_unsynced(self._disk, self._log.path + ".timeindex", times.to_bytes(), files)

    def replace_files(self) -> None:
        """Replace index files that are there: those of a segment that takes appends come later."""
        if not self._disk.exists(self._log.path + ".index"):
            return
        offsets, times = self.both
        times.mark()
        try:
            self._disk.write_file(self._log.path + ".index", offsets.to_bytes())
            self._disk.write_file(self._log.path + ".timeindex", times.to_bytes())
        except OSError as error:  # the next start finds the same and makes them again
            logger.warning("indexes of %s.log cannot be written: %s", self._log.path, error)

    def rebuild(self) -> None:
        """Make both indexes again from the headers of the log."""
        self.begin()
        end = 0
        for position, header in self._log.headers(0, self._log.size):
            if position != end:
                self.index_next()
            self.note(header, header.last_offset, position, header.max_timestamp)
            end = position + header.length

    def _drop(self, entry: OffsetEntry) -> None:
        """Take out an entry that the log does not bear out, also from the file."""
        if self._dropped >= DROPS_MAX:
            self._rebuild("many entries do not fit the log")
            return
        self._dropped += 1
        path, position = self._log.path, entry.position
        logger.warning("an entry of %s.index does not fit the log: byte %d", path, position)
        self.both[0].drop(entry)
        self.replace_files()

    def _rebuild(self, reason: str) -> None:
        logger.warning("indexes of %s.log are made again: %s", self._log.path, reason)
        self._dropped = 0
        self.rebuild()
        self.replace_files()
