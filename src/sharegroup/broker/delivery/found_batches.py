"""The batches that a share fetch has found: read, or left in their file and sent from there, as a
plain fetch does (``network.outgoing``).

Of batches left in a file, only the headers are read, one by one. If the batches are large, this
costs less than copying them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sharegroup.broker.delivery.before_damage import walked
from sharegroup.model.environment import FileRange
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.log import ReadableLog, ReadBatches
from sharegroup.wire.batch import HEADER_BYTES, Walk, walk_headers
from sharegroup.wire.markers import aborted_ranges

HEADERS_ALONE_MIN: Final = 8 * 1024
"""Batches may be left in their file if they have at least so many bytes on average."""

Records = bytes | memoryview | FileRange


@dataclass(frozen=True, slots=True)
class FoundBatches:
    """Whole batches, and where each of them begins."""

    where: bytes | FileRange
    walk: Walk

    def __len__(self) -> int:
        """The bytes of all batches."""
        return len(self.where)

    @property
    def holds_records(self) -> bool:
        """Whether any batch is more than a header."""
        return len(self.where) > HEADER_BYTES * len(self.walk.bounds)

    @property
    def bytes_per_offset(self) -> float:
        """Bytes per offset; offsets that compaction has emptied count too."""
        return len(self) / (self.walk.end_offset - self.walk.bounds[0][0])

    @property
    def bytes_per_batch(self) -> float:
        """Bytes per batch, on average."""
        return len(self) / len(self.walk.bounds)

    @property
    def data(self) -> bytes:
        """The bytes of all batches, which must have been read."""
        assert isinstance(self.where, bytes), "whoever needs the bytes does not ask for a range"
        return self.where

    def between(self, first: int, last: int) -> Records:
        """The whole batches that hold the offsets ``first`` … ``last``."""
        if isinstance(self.where, bytes):
            return self.walk.between(self.where, first, last)
        return self.where.part(*self.walk.span(len(self.where), first, last))


def found_in(read: ReadBatches) -> FoundBatches | None:
    """The batches that ``read`` has found, before damage that the log has not seen; None if they
    must be read as bytes: they are small, or their file cannot be read or is damaged, and the log
    has to find that out.

    Raises:
        CorruptMessage: the first batch is damaged.
    """
    if read.stored is None:
        return FoundBatches(*walked(read.data))
    try:
        headers = walk_headers(read.stored.range, HEADERS_ALONE_MIN)
    except (OSError, CorruptMessage):
        return None
    return FoundBatches(read.stored.range, headers) if headers is not None else None


async def aborted_in(
    log: ReadableLog, offset: int, found: FoundBatches, *, committed: bool
) -> Sequence[tuple[int, int]]:
    """The aborted transactions among the batches that a read from ``offset`` found, for a group
    that reads ``committed``."""
    if not committed:
        return ()
    void = await log.aborted_transactions(offset, found.walk.end_offset)
    return aborted_ranges(found.data, void) if void else ()
