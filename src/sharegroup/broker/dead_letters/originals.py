"""Reads the records that dead letters are copies of."""

from __future__ import annotations

from functools import partial
from typing import Final

from sharegroup.broker.delivery.unpacking import Unpacking, is_compressed
from sharegroup.model.errors import CorruptMessage, InvalidRecord, OffsetOutOfRange
from sharegroup.model.log import ReadableLog
from sharegroup.records.check import plain_records
from sharegroup.wire.batch import parse_headers
from sharegroup.wire.markers import is_control
from sharegroup.wire.record import StoredRecord, read_records

READ_BYTES: Final = 1 << 20
"""Bytes of one read, as in Kafka: dead records seldom lie near each other."""


class Originals:
    """The records of one log. Ask for ascending offsets: one read serves those near each other."""

    def __init__(self, log: ReadableLog, unpacking: Unpacking) -> None:
        self._log = log
        self._unpacking = unpacking
        self._records: dict[int, StoredRecord] = {}
        self._begin = self._end = -1

    async def may_be_at(self, offset: int) -> bool:
        """Whether a record may be at ``offset``: the log has one there, or can no longer tell."""
        known = await self._covers(offset)
        return not known or offset in self._records

    async def find(self, offset: int) -> StoredRecord | None:
        """The record at ``offset``; None if the log has none there, or has lost it.

        Raises:
            KafkaStorageError: the disk failed.
        """
        return self._records.get(offset) if await self._covers(offset) else None

    async def _covers(self, offset: int) -> bool:
        """Read the batch at ``offset`` and some after it, unless it is read. False: it is deleted
        or damaged."""
        if self._begin <= offset < self._end:
            return True
        try:
            data = bytes((await self._log.read(offset, READ_BYTES)).data)
            if not data:
                return False
            work = partial(_records, data)
            packed = is_compressed(data)
            found = await self._unpacking.in_thread(work) if packed else work()
        except (OffsetOutOfRange, CorruptMessage, InvalidRecord):
            return False
        self._records, self._end = found
        self._begin = offset
        return offset < self._end


def _records(data: bytes) -> tuple[dict[int, StoredRecord], int]:
    """The records of whole batches by offset, and the end of their offsets. A batch that cannot be
    read ends the run; the first one must be readable.

    Raises:
        CorruptMessage: the first batch cannot be read.
    """
    found: dict[int, StoredRecord] = {}
    position, end = 0, -1
    for header in parse_headers(data):
        batch = data[position : position + header.length]
        position += header.length
        if not is_control(header):
            try:
                plain = bytes(plain_records(header, batch))
                found |= {one.offset: one for one in read_records(header, plain)}
            except CorruptMessage:
                if end < 0:
                    raise
                break
        end = header.last_offset + 1
    return found, end
