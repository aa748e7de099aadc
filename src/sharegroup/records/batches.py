"""Find the batches in fetched bytes, without trusting anything else in them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from sharegroup.model.errors import CorruptMessage
from sharegroup.wire.batch import HEADER_BYTES

_BOUNDS = struct.Struct(">qi11xi")
_LENGTH_END: Final = 12

T = TypeVar("T")


class Bounds(NamedTuple):
    """The offsets that one batch claims, both included, and its bytes."""

    first: int
    last: int
    batch: memoryview


def bounds_of(data: memoryview) -> Iterator[Bounds]:
    """Each whole batch of a Fetch response, unchecked.

    Raises:
        CorruptMessage: a length that no batch can have; the start of the next batch is unknown.
    """
    position, size = 0, len(data)
    while size - position >= HEADER_BYTES:
        base_offset, length, last_offset_delta = _BOUNDS.unpack_from(data, position)
        if length < HEADER_BYTES - _LENGTH_END:
            raise CorruptMessage(f"a record batch cannot have a length of {length} bytes")
        end = position + length + _LENGTH_END
        if end > size:
            return
        yield Bounds(base_offset, base_offset + last_offset_delta, data[position:end])
        position = end


def end_offset(data: memoryview) -> int | None:
    """The offset after the last whole batch; None when there is no whole batch.

    Raises:
        CorruptMessage: as :func:`bounds_of`.
    """
    end = None
    for _, last, _ in bounds_of(data):
        end = last + 1
    return end


@dataclass(slots=True)
class PlacedBatch(Generic[T]):
    """One batch in its place: the value read from it, or the error."""

    first: int
    last: int
    """Of a damaged batch it is below the next batch: the last offset that a damaged batch claims
    may be wrong."""
    value: T | None
    damage: Exception | None


class Placed(NamedTuple, Generic[T]):
    """The batches of a run: the ones in offset order, and the ones out of order."""

    pieces: list[PlacedBatch[T]]
    """They ascend, and no two have an offset in common."""
    astray: list[Bounds]
    """Batches that are out of order."""
    cut: CorruptMessage | None
    """Why no batches could be found after the pieces; None without such an error."""

    @property
    def end(self) -> int:
        """The offset after the last piece; -1 when there is none."""
        return self.pieces[-1].last + 1 if self.pieces else -1


def place(data: memoryview, last_wanted: int, read: Callable[[Bounds], T]) -> Placed[T]:
    """Read the whole batches of a Fetch response that hold offsets up to ``last_wanted``. Each is
    read by itself: an exception of ``read`` is the damage of that batch.

    No checksum covers a batch's base offset. So a batch is astray if its base offset goes back, or
    is past ``last_wanted`` although a later batch's base offset is not. A batch that is astray does
    not displace the batches after it, nor does a damaged batch by the last offset that it claims.
    """
    pieces: list[PlacedBatch[T]] = []
    astray: list[Bounds] = []
    ahead: list[Bounds] = []
    end = 0
    try:
        for one in bounds_of(data):
            if one.first > last_wanted:
                ahead.append(one)
            elif one.first < end:
                astray.append(one)
            else:
                astray += ahead  # a later batch is wanted: their base offsets are wrong
                ahead.clear()
                if pieces:
                    pieces[-1].last = min(pieces[-1].last, one.first - 1)
                pieces.append(_piece(one, read))
                end = one.first + 1 if pieces[-1].damage else pieces[-1].last + 1
    except CorruptMessage as error:
        return Placed(pieces, astray, error)
    return Placed(pieces, astray, None)


def _piece(one: Bounds, read: Callable[[Bounds], T]) -> PlacedBatch[T]:
    last = max(one.first, one.last)
    try:
        return PlacedBatch(one.first, last, read(one), None)
    except Exception as error:  # noqa: BLE001  # a reader that is not ours may raise anything
        return PlacedBatch(one.first, last, None, error)
