"""One segment: a ``.log`` file of record batches with its indexes (Kafka class LogSegment).

Invariants:

* batches lie back to back from byte 0 to ``size``, but for the ranges listed in ``damages``;
* their offsets ascend, from ``base_offset`` on, and stay below ``next_offset``;
* an index may know less than the log, never something else.

A damaged range stays in the file, byte for byte. A side file ``….log.damaged`` (JSON) remembers
where it is, so that a clean start, which scans nothing, knows it too; it goes when retention
removes the segment.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.errors import CorruptMessage
from sharegroup.storage.index import OffsetIndex, TimeIndex
from sharegroup.storage.transaction_index import TransactionIndex
from sharegroup.wire.batch import HEADER_BYTES, BatchHeader, parse_header

logger = logging.getLogger(__name__)

HINTS_MAX: Final = 64
"""Sequential readers remembered per segment; an older one pays one index look-up."""
WALK_BYTES: Final = 16 * 1024
"""Bytes read at once when walking headers: four index intervals."""
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
TRANSACTION_INDEX: Final = ".txnindex"
_SIDE_SUFFIXES: Final = (".index", ".timeindex", TRANSACTION_INDEX, ".snapshot", ".log.damaged")


class Damage(NamedTuple):
    """Bytes ``position`` … ``end_position`` (exclusive) that are no valid batches, and the offsets
    they took away.
    """

    position: int
    end_position: int
    first_offset: int
    last_offset: int


class Segment:
    """One segment of one partition."""

    def __init__(
        self, disk: Disk, folder: str, base_offset: int, index_interval_bytes: int
    ) -> None:
        self._disk = disk
        self.base_offset = base_offset
        self.path = f"{folder}/{base_offset:020d}"
        self.file: DiskFile = disk.open(self.path + ".log")
        self.size = self.file.size()
        self.next_offset = base_offset
        self.first_timestamp = -1
        self.durable = True
        """The file's name is on stable storage (its content is the log's business)."""
        self.damages: list[Damage] = []
        self.transactions = TransactionIndex()
        """Those aborted by a marker in this segment."""
        self._index_interval_bytes = index_interval_bytes
        self._unindexed_bytes = 0
        self._indexes: tuple[OffsetIndex, TimeIndex] | None = None
        self._hints: dict[int, int] = {}
        if self.size == 0:
            self.begin_indexes()

    # Appending -------------------------------------------------------------------------------

    def note(
        self, header: BatchHeader, base_offset: int, position: int, max_timestamp: int
    ) -> None:
        """Take a batch that stands at ``position`` into the indexes; batches come in order."""
        offsets, times = self.indexes
        relative = base_offset + header.last_offset_delta - self.base_offset
        times.saw(max_timestamp, relative)
        if self._unindexed_bytes > self._index_interval_bytes:
            offsets.append(relative, position)
            times.mark()
            self._unindexed_bytes = 0
        self._unindexed_bytes += header.length
        if self.first_timestamp < 0:
            self.first_timestamp = max_timestamp

    def resume(self, header: BatchHeader) -> None:
        """Count a batch after the last index entry, when the log is opened and its indexes are
        right.
        """
        relative = header.last_offset - self.base_offset
        self.indexes[1].saw(header.max_timestamp, relative)
        self._unindexed_bytes += header.length

    def begin_indexes(self) -> None:
        """Forget the indexes: they are built again from the batches by :meth:`note`."""
        self._indexes = OffsetIndex(), TimeIndex()
        self._unindexed_bytes = 0

    def index_next(self) -> None:
        """Index the next batch whatever the interval (the first one after a damage)."""
        self._unindexed_bytes = self._index_interval_bytes + 1

    # Looking up ------------------------------------------------------------------------------

    @property
    def indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Both indexes, read from their files on first use and rebuilt when they are missing or
        wrong.
        """
        if self._indexes is None:
            try:
                self._indexes = (
                    OffsetIndex.from_bytes(self._disk.read_file(self.path + ".index"), self.size),
                    TimeIndex.from_bytes(self._disk.read_file(self.path + ".timeindex"), self.size),
                )
            except (FileNotFoundError, ValueError) as error:
                logger.warning("indexes of %s are rebuilt: %s", self.file.path, error)
                self.rebuild_indexes()
        assert self._indexes is not None
        return self._indexes

    def rebuild_indexes(self) -> None:
        """Make both indexes again from the headers of the log."""
        self.begin_indexes()
        expected = 0
        for position, header in self.headers(0, self.size):
            if position != expected:
                self.index_next()
            self.note(header, header.base_offset, position, header.max_timestamp)
            expected = position + header.length

    def position_of(self, offset: int) -> int:
        """Where the batch begins that holds ``offset``, or the next one when none does.

        Raises:
            CorruptMessage: ``offset`` lies in a damaged range.
        """
        damage = self._damage_at(offset)
        if damage is not None:
            raise CorruptMessage(
                f"offsets {damage.first_offset} to {damage.last_offset} are damaged on disk"
            )
        position = self._hints.get(offset)
        return self._walk(offset) if position is None else position

    def limit_of(self, offset: int) -> int:
        """The batch boundary before which everything is below ``offset``."""
        damage = self._damage_at(offset)
        return self.position_of(offset) if damage is None else damage.position

    def after_damage(self, offset: int) -> int:
        """``offset``, or the first one after the damaged range that it lies in."""
        damage = self._damage_at(offset)
        return offset if damage is None else damage.last_offset + 1

    def _damage_at(self, offset: int) -> Damage | None:
        for damage in self.damages:
            if damage.first_offset <= offset <= damage.last_offset:
                return damage
        return None

    def remember(self, offset: int, position: int) -> None:
        """The batch that begins with ``offset`` is (or will be) at ``position``: a reader goes on
        there.
        """
        hints = self._hints
        hints[offset] = position
        if len(hints) > HINTS_MAX:
            del hints[next(iter(hints))]

    def headers(self, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from the boundary ``position`` to ``end``; damages are
        jumped over.
        """
        jumps = {damage.position: damage.end_position for damage in self.damages}
        chunk, chunk_start = b"", 0
        while (position := jumps.get(position, position)) < end:
            if not chunk_start <= position <= chunk_start + len(chunk) - HEADER_BYTES:
                chunk, chunk_start = self.file.pread(WALK_BYTES, position), position
            header = parse_header(chunk, position - chunk_start)
            yield position, header
            position += header.length

    def _walk(self, offset: int) -> int:
        start = self.indexes[0].position_before(offset - self.base_offset)
        for position, header in self.headers(start, self.size):
            if header.base_offset + header.last_offset_delta >= offset:
                return position
        return self.size

    # Reading ---------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, limit: int, limit_offset: int) -> bytes:
        """Whole batches from the one that holds ``offset``, about ``max_bytes`` but at least one,
        before ``limit``.

        ``limit`` is the batch boundary where ``limit_offset`` begins. A damaged range ends the read
        early.
        """
        position = self.position_of(offset)
        for damage in self.damages:
            if position <= damage.position < limit:
                limit, limit_offset = damage.position, damage.first_offset
        if limit - position <= max_bytes:
            self.remember(limit_offset, limit)
            return self.file.pread(limit - position, position) if limit > position else b""
        # An index entry is a batch boundary that costs no walk; only short reads find none.
        end = self.indexes[0].boundary_before(position + max_bytes)
        if end <= position:
            end = self._walked_end(position, max_bytes, limit)
        next_offset = self.file.pread(8, end)
        if len(next_offset) == 8:
            self.remember(int.from_bytes(next_offset, "big"), end)
        return self.file.pread(end - position, position)

    def _walked_end(self, position: int, max_bytes: int, limit: int) -> int:
        end = position
        for start, header in self.headers(position, limit):
            if end > position and start + header.length > position + max_bytes:
                break
            end = start + header.length
        return end

    # Files -----------------------------------------------------------------------------------

    def write_indexes(self, files: list[DiskFile]) -> None:
        """Write the index files, not yet synced, and add them to ``files``: the caller syncs and
        closes those.
        """
        if self.transactions.entries:
            data = self.transactions.to_bytes()
            write_unsynced(self._disk, self.path + TRANSACTION_INDEX, data, files)
        if self._indexes is None:
            return
        offsets, times = self._indexes
        times.mark()
        write_unsynced(self._disk, self.path + ".index", offsets.to_bytes(), files)
        write_unsynced(self._disk, self.path + ".timeindex", times.to_bytes(), files)

    def load_transactions(self) -> None:
        """Read the transaction index, which is there.

        Raises:
            ValueError: it is damaged.
        """
        data = self._disk.read_file(self.path + TRANSACTION_INDEX)
        self.transactions = TransactionIndex.from_bytes(data)

    def forget_transactions(self) -> None:
        """Remove the transaction index: it is made again from the batches."""
        self.transactions = TransactionIndex()
        self._disk.remove(self.path + TRANSACTION_INDEX)

    def load_damages(self) -> None:
        """Read what an earlier recovery found."""
        path = self.path + ".log.damaged"
        if self._disk.exists(path):
            self.damages = [Damage(*entry) for entry in json.loads(self._disk.read_file(path))]

    def save_damages(self) -> None:
        """Remember :attr:`damages` durably."""
        self._disk.write_file(self.path + ".log.damaged", json.dumps(self.damages).encode())

    def truncate(self, size: int) -> None:
        """Cut the log file; the caller has the indexes right already."""
        self.file.truncate(size)
        self.size = size
        self._hints.clear()

    def close(self) -> None:
        """Close the log file."""
        self.file.close()

    def remove(self) -> None:
        """Close and delete all files of the segment.

        Raises:
            OSError: the log file cannot be removed; then nothing has changed.
        """
        self._disk.remove(self.path + ".log")
        self.close()
        for suffix in _SIDE_SUFFIXES:
            try:
                self._disk.remove(self.path + suffix)
            except OSError as error:
                logger.warning("%s stays: %s", self.path + suffix, error)


def write_unsynced(disk: Disk, path: str, data: bytes, files: list[DiskFile]) -> None:
    """Replace a file's content and add the open file to ``files``; it is durable once the caller
    has synced it.
    """
    file = disk.open(path)
    files.append(file)
    file.truncate(0)
    file.append(data)
