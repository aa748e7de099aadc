"""Where the batches of a fetched run lie, without a belief in anything else that they say."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from sharegroup.model.errors import CorruptMessage
from sharegroup.wire.batch import HEADER_BYTES

_BOUNDS = struct.Struct(">qi11xi")
_LENGTH_END: Final = 12
_OFFSET_MAX: Final = 2**63 - 1


class Bounds(NamedTuple):
    """The offsets of one batch, both included, and its bytes."""

    first: int
    last: int
    batch: memoryview

    @property
    def are_possible(self) -> bool:
        """There can be such offsets."""
        return 0 <= self.first <= self.last <= _OFFSET_MAX


def bounds_of(data: memoryview) -> Iterator[Bounds]:
    """Each whole batch of a Fetch response, unchecked.

    Raises:
        CorruptMessage: a length no batch has: where the next one begins cannot be known.
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


class Placed(NamedTuple):
    """The batches of a run that stand in the order of their offsets, and those that do not."""

    batches: list[Bounds]
    astray: list[Bounds]
    damage: CorruptMessage | None
    """Why nothing behind them could be told apart."""

    @property
    def end(self) -> int:
        """The offset after the last one in its place; -1 when there is none."""
        return self.batches[-1].last + 1 if self.batches else -1


def place(data: memoryview, last_wanted: int) -> Placed:
    """The whole batches of a Fetch response that hold offsets up to ``last_wanted``, as far as
    their offsets ascend.

    No checksum covers a batch's base offset. One that goes back, or far ahead although others
    follow that do not, is astray, and does not take the place of those behind it.
    """
    batches: list[Bounds] = []
    astray: list[Bounds] = []
    ahead: list[Bounds] = []
    damage = None
    end = 0
    try:
        for one in bounds_of(data):
            if one.first > last_wanted:
                ahead.append(one)
            elif one.are_possible and one.first >= end:
                batches.append(one)
                astray += ahead
                ahead.clear()
                end = one.last + 1
            else:
                astray.append(one)
    except CorruptMessage as error:
        damage = error
    return Placed(batches, astray, damage)
