"""Reading a partition by key ranges (KIP-X): only records whose key's hash lies in them.

The log is read in chunks. A small chunk is hashed and cut at once, a larger or compressed chunk on
a thread. The thread takes one chunk at a time, so that a hundred requests take the memory of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from sharegroup.broker.delivery.before_damage import before_damage
from sharegroup.broker.delivery.hash_index import HashIndex
from sharegroup.broker.delivery.unpacking import is_compressed
from sharegroup.cooperative.hash_split import HASH_MAX
from sharegroup.cooperative.intervals import Interval, Intervals, normal
from sharegroup.model.errors import CorruptMessage, InvalidRequest
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.limits import KEY_RANGES_MAX
from sharegroup.model.log import ReadableLog
from sharegroup.records.filtering import Room, Wish, filtered
from sharegroup.wire.batch import Buffer, walk
from sharegroup.wire.messages.ranges import Range

CHUNK_BYTES: Final = 1024 * 1024
"""The log is read in pieces of this many bytes."""
ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
"""The most bytes of one partition in an answer, unless one record is larger. They are joined on the
event loop's thread, at some gigabytes a second."""
HOLES_MAX: Final = 10_000
"""An answer with more ranges of offsets without records than this ends after the current chunk."""
ON_LOOP_BYTES_MAX: Final = 16 * 1024
"""Up to this many bytes, some hundred batches or a millisecond at most, are filtered on the event
loop's thread."""


def checked_ranges(ranges: Sequence[Range]) -> Intervals:
    """The key ranges of a request.

    Raises:
        InvalidRequest: a range is no range of hashes, or there are more than KEY_RANGES_MAX.
    """
    if len(ranges) > KEY_RANGES_MAX:
        raise InvalidRequest(f"{len(ranges)} key ranges; there may be {KEY_RANGES_MAX}")
    for one in ranges:
        if not 0 <= one.first <= one.last <= HASH_MAX:
            raise InvalidRequest(f"{one.first}-{one.last} is no key range")
    return normal((one.first, one.last) for one in ranges)


@dataclass(slots=True)
class Allowance:
    """How many bytes of the log may still be looked at for one request
    (``max.bytes.fetcher.filtering``)."""

    bytes_left: int

    @property
    def spent(self) -> bool:
        """Whether no byte of the allowance is left."""
        return self.bytes_left <= 0


class RangeChunk(NamedTuple):
    """The records of one chunk of the log that a request wants."""

    data: bytes
    next_offset: int
    """Where the next chunk begins; 0: the answer had no room for any record of this one."""
    has_records: bool
    """Whether ``data`` has records, not only control batches."""
    full: bool
    """Whether the read ends with this chunk: the answer has no room for the rest of it, or the rest
    is damaged."""
    holes: Intervals
    """The offsets that no record has."""


@dataclass(slots=True)
class RangeRead:
    """One partition's part of a request, and the batches found for it.

    Args:
        bytes_max: room in the answer.
        must: the first batch is sent even if it is larger.
        values: keep the unpacked records of compressed batches.
    """

    offset: int
    """The partition was read up to this offset."""
    end_offset: int
    ranges: Intervals
    bytes_max: int
    must: bool
    values: bool
    batches: list[bytes] = field(default_factory=list)
    has_records: bool = False
    holes: list[Interval] = field(default_factory=list)
    """The offsets that no record has, whatever its key range."""

    @property
    def data(self) -> bytes:
        """The batches found. If they are only markers, they are left out: they end no transaction
        whose records are in the answer."""
        return b"".join(self.batches) if self.has_records else b""

    def take(self, found: RangeChunk) -> None:
        """Add the batches found in one chunk."""
        self.offset = max(self.offset, found.next_offset)
        self.holes += found.holes
        if found.data:
            self.batches.append(found.data)
            self.bytes_max -= len(found.data)
            self.must = False
            self.has_records = self.has_records or found.has_records


class RangeReading:
    """See the module.

    Args:
        index: what is known about batches; the thread uses it.
    """

    def __init__(self, index: HashIndex) -> None:
        self.index = index
        self._turn = asyncio.Lock()

    async def read(self, log: ReadableLog, wanted: RangeRead, allowance: Allowance) -> None:
        """Read on until the answer has no room, the allowance is spent, or the log ends.

        Raises:
            CorruptMessage: the log is damaged where the read begins. Behind that, the read ends
                before the damage, and ``wanted.offset`` is where it begins.
            KafkaStorageError: the disk failed.
        """
        where = TopicIdPartition(log.topic_id, log.topic_partition.partition)
        begin = wanted.offset
        while wanted.offset < wanted.end_offset and not allowance.spent:
            size = min(CHUNK_BYTES, allowance.bytes_left)
            try:
                read = await log.read(wanted.offset, size, end_offset=wanted.end_offset)
                if not read.data:
                    return
                allowance.bytes_left -= len(read.data)
                found = await self._good(where, read.data, wanted)
            except CorruptMessage:
                if wanted.offset == begin:
                    raise
                return
            wanted.take(found)
            if found.full or len(wanted.holes) > HOLES_MAX:
                return

    async def _good(self, where: TopicIdPartition, data: bytes, wanted: RangeRead) -> RangeChunk:
        """The records that the request wants of the batches before the first broken header.

        Raises:
            CorruptMessage: the first header is broken.
        """
        try:
            return await self._filtered(where, data, wanted)
        except CorruptMessage:
            good = before_damage(data)
            if not good:
                raise
        # "full": the next read begins at the damage, where the log sees it.
        return (await self._filtered(where, good, wanted))._replace(full=True)

    async def _filtered(
        self, where: TopicIdPartition, data: bytes, wanted: RangeRead
    ) -> RangeChunk:
        """The records of these batches that the request wants."""
        wish = Wish(wanted.ranges, wanted.offset, Room(wanted.bytes_max, wanted.must))
        work = partial(self._filter, where, data, wish, wanted.values)
        async with self._turn:
            if len(data) <= ON_LOOP_BYTES_MAX and not is_compressed(data):
                return work()
            running = asyncio.get_running_loop().run_in_executor(None, work)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                await asyncio.wait([running])  # until it ends, the thread alone uses the index
                raise

    def _filter(self, where: TopicIdPartition, data: bytes, wish: Wish, values: bool) -> RangeChunk:
        index = self.index
        end_offset = walk(data).end_offset
        batches: list[Buffer] = []
        next_offset, has_records = 0, False
        holes: list[Interval] = []
        for one in filtered(data, wish, partial(index.recall, where)):
            if one.known is not None:
                whole = one.next_offset > one.header.last_offset
                served = wish.ranges if whole else ()
                index.keep(where, one.header, one.known, served, values=values)
            next_offset = one.next_offset
            holes += one.holes
            if one.data:
                batches.append(one.data)
                has_records = has_records or one.has_records
        full = next_offset < end_offset
        return RangeChunk(b"".join(batches), next_offset, has_records, full, normal(holes))
