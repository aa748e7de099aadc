"""Looking at the records that a fetch has read, before it acquires them: which have expired, which
are not due.

Batches that are small when unpacked are looked at once, others in the thread for unpacking
(:mod:`sharegroup.broker.delivery.unpacking`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.model.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from sharegroup.model.limits import DECOMPRESSED_BATCH_BYTES_MAX, UNPACKED_ON_LOOP_BYTES_MAX
from sharegroup.records.check import Buffer, plain_records
from sharegroup.wire.batch import COMPRESSION_MASK, BatchHeader, Walk, check_crc, parse_header
from sharegroup.wire.markers import is_control


class Read(NamedTuple):
    """The batches that were read from a log."""

    data: bytes
    batches: Walk
    aborted: Sequence[tuple[int, int]]
    """Batches of aborted transactions, whose records nobody gets."""
    since: int
    """Batches before this offset are not looked at."""


class Found(Protocol):
    """What a look has found in a batch."""

    @property
    def ranges(self) -> Sequence[tuple[int, ...]]:
        """The records, by ranges."""

    @property
    def unreadable(self) -> int:
        """How many records have a header that says no time."""


F = TypeVar("F", bound=Found)
Look: TypeAlias = Callable[[BatchHeader, Callable[[], Buffer]], F]
"""Looks at a batch: its header, and what returns its plain records, if they are needed."""


class _TooLarge(Exception):
    """The batches unpack to too many bytes for the loop's thread."""


async def looked_at(read: Read, look: Look[F], unpacking: Unpacking) -> list[F]:
    """What ``look`` finds in the batches. Of a damaged batch it finds nothing: the batch's reader
    must see the damage."""
    try:
        return _look_at(read, look, UNPACKED_ON_LOOP_BYTES_MAX)
    except _TooLarge:
        return await unpacking.in_thread(partial(_look_at, read, look, None))


def _look_at(read: Read, look: Look[F], unpacked_max: int | None) -> list[F]:
    """As :func:`looked_at`.

    Args:
        unpacked_max: the most bytes to which all compressed batches together may unpack; None: each
            batch has a limit of its own.

    Raises:
        _TooLarge: they unpack to more.
    """
    view = memoryview(read.data)
    every: list[F] = []
    plain = _Plain(unpacked_max)
    for (base, last), position in zip(*read.batches, strict=True):
        if last < read.since or any(at <= base and last <= to for at, to in read.aborted):
            continue
        header = parse_header(read.data, position)
        if is_control(header):
            continue
        batch = view[position : position + header.length]
        try:
            found = look(header, partial(plain.records, header, batch))
            if found.ranges:
                check_crc(batch)
        except (CorruptMessage, InvalidRecord, UnsupportedCompressionType):
            continue
        every.append(found)
    return every


class _Plain:
    """Unpacks batches, up to so many bytes in total."""

    def __init__(self, room: int | None) -> None:
        self._room = room

    def records(self, header: BatchHeader, batch: memoryview) -> Buffer:
        """The plain records of a batch."""
        packed = bool(header.attributes & COMPRESSION_MASK)
        most = DECOMPRESSED_BATCH_BYTES_MAX if self._room is None else self._room
        try:
            records = plain_records(header, batch, most)
        except CorruptMessage:
            if packed and self._room is not None:  # corrupt, or too large: the thread finds out
                raise _TooLarge from None
            raise
        if packed and self._room is not None:
            self._room -= len(records)
        return records


def bounds_before(bounds: Sequence[tuple[int, int]], end: int) -> Sequence[tuple[int, int]]:
    """The part of these batches below the offset ``end``; the last one may end earlier."""
    at = bisect_left(bounds, end, key=itemgetter(1))
    if at == len(bounds) or bounds[at][0] >= end:
        return bounds[:at]
    return [*bounds[:at], (bounds[at][0], end - 1)]
