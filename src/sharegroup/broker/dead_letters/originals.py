"""Reads the records that dead letters are about: where there are any, and what letters copy."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

from sharegroup.broker.delivery.unpacking import Unpacking, is_compressed
from sharegroup.cooperative.intervals import Interval, Intervals, minus
from sharegroup.model.errors import CorruptMessage, InvalidRecord, OffsetOutOfRange
from sharegroup.model.log import ReadableLog
from sharegroup.records.check import plain_records
from sharegroup.wire.batch import parse_headers
from sharegroup.wire.markers import aborted_ranges, is_control
from sharegroup.wire.record import StoredRecord, read_records

READ_BYTES: Final = 1 << 20
"""Bytes of one read, as in Kafka: dead records seldom lie near each other."""
LOOK_BYTES: Final = 1 << 16
"""Bytes of one read that only asks where records are."""
_LAST = itemgetter(1)


class Wish(NamedTuple):
    """What the letters of a group need of the log."""

    copies: bool
    """The records themselves."""
    committed: bool
    """The group reads committed: to it, aborted records that it never got are none."""


class _Found(NamedTuple):
    """What one read has found."""

    holding: Intervals
    """The offsets of records, ascending."""
    records: dict[int, StoredRecord]
    """The records, if copies are wanted."""
    end: int
    """The end of the offsets that were read, exclusive."""


class Originals:
    """The records of one log. Ask for ascending offsets: one read serves those near each other."""

    def __init__(self, log: ReadableLog, unpacking: Unpacking, wish: Wish) -> None:
        self._log = log
        self._unpacking = unpacking
        self._wish = wish
        self._found = _Found((), {}, -1)
        self._visible: Intervals = ()
        self._begin = -1

    async def first_in(self, first: int, last: int, *, delivered: bool) -> int | None:
        """The first offset in ``first`` … ``last`` at which a record may be: the log has one there,
        or can no longer tell. None: there is none, as where compaction has removed it.

        Args:
            delivered: the group has got what is there. If not, a record that it may not read is
                none.
        """
        at = first
        while at <= last:
            if not await self._covers(at):
                return at
            holding = self._found.holding if delivered else self._visible
            near = bisect_right(holding, at - 1, key=_LAST)
            if near < len(holding):
                found = max(at, holding[near][0])
                return found if found <= last else None
            at = self._found.end
        return None

    async def find(self, offset: int) -> StoredRecord | None:
        """The record at ``offset``; None if the log has none there, or has lost it, or if no copies
        are wanted.

        Raises:
            KafkaStorageError: the disk failed.
        """
        if not self._wish.copies or not await self._covers(offset):
            return None
        return self._found.records.get(offset)

    async def _covers(self, offset: int) -> bool:
        """Read the batch at ``offset`` and some after it, unless it is read. False: it is deleted
        or damaged."""
        if self._begin <= offset < self._found.end:
            return True
        copies, committed = self._wish
        try:
            data = bytes((await self._log.read(offset, READ_BYTES if copies else LOOK_BYTES)).data)
            if not data:
                return False
            work = partial(_found_in, data, copies=copies)
            packed = is_compressed(data)
            found = await self._unpacking.in_thread(work) if packed else work()
            void = await self._log.aborted_transactions(offset, found.end) if committed else ()
            aborted = aborted_ranges(data, void) if void else ()
        except (OffsetOutOfRange, CorruptMessage, InvalidRecord):
            return False
        self._found, self._begin = found, offset
        self._visible = minus(found.holding, aborted) if aborted else found.holding
        return offset < found.end


def _found_in(data: bytes, *, copies: bool) -> _Found:
    """What whole batches hold. A batch that cannot be read ends the run; the first one must be
    readable. Without ``copies`` only batches are unpacked that have lost some of their records.

    Raises:
        CorruptMessage: the first batch cannot be read.
    """
    holding: list[Interval] = []
    records: dict[int, StoredRecord] = {}
    position, end = 0, -1
    for header in parse_headers(data):
        batch = data[position : position + header.length]
        position += header.length
        whole = header.record_count == header.last_offset_delta + 1
        if not is_control(header):
            own: list[StoredRecord] = []
            if copies or not whole:
                try:
                    own = list(read_records(header, bytes(plain_records(header, batch))))
                except CorruptMessage:
                    if end < 0:
                        raise
                    break
            if whole:
                holding.append((header.base_offset, header.last_offset))
            else:
                holding += [(one.offset, one.offset) for one in own]
            records |= {one.offset: one for one in own}
        end = header.last_offset + 1
    return _Found(tuple(holding), records, end)
