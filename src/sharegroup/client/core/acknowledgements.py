"""Acknowledgements on their way to the broker: ranges of offsets, each with one type or one type
per offset.

Where all offsets of a range have the same type, one byte says so; only where types are mixed there
is one byte per offset (KIP-932, "AcknowledgeTypes"). Runs longer than ten equal types become a
range of their own, as in the Java client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from sharegroup.model.ack_type import AckType as AckType
from sharegroup.model.offsets import OffsetRange

UNDECIDED: Final = 0xFF
"""In an array of types: this offset is not acknowledged yet."""
SENT: Final = 0xFE
"""In an array of types: acknowledged and handed on; it cannot be acknowledged again."""
RENEWING: Final = 0xFD
"""In an array of types: its lock is being renewed, and it will be returned once more."""
KEPT: Final = 0xFC
"""In an array of types: a loop ended before this record was given; the next loop or poll gives
it."""
IN_TRANSACTION: Final = 0xFB
"""In an array of types: handed to a transaction, which has not told the broker yet."""

_GAP: Final = bytes([AckType.GAP])
_DECIDED_RUN = re.compile(rb"[\x00-\x0f]+")
_LONG_RUN = re.compile(rb"\0{10,}")
"""More than ten equal types in a row, as :func:`_differences` shows them."""


class AcknowledgedRange(NamedTuple):
    """Offsets ``first`` … ``last``, both included, and their types: one byte for all, or one for
    each.
    """

    first: int
    last: int
    types: bytes

    @property
    def offsets(self) -> OffsetRange:
        """The offsets alone."""
        return OffsetRange(self.first, self.last)

    @property
    def decides(self) -> bool:
        """Whether the application has decided about a record of it: it is not a gap only."""
        return bool(self.types.strip(_GAP))


def ranges_of(first: int, types: bytes | bytearray) -> list[AcknowledgedRange]:
    """Ranges in which offset ``first + i`` has ``types[i]``, without undecided and sent offsets."""
    ranges: list[AcknowledgedRange] = []
    for run in _DECIDED_RUN.finditer(types):
        start, end = run.span()
        if types.count(types[start], start, end) == end - start:  # mostly, and at a glance
            ranges.append(AcknowledgedRange(first + start, first + end - 1, bytes([types[start]])))
            continue
        for long_run in _LONG_RUN.finditer(_differences(types[start:end])):
            since, until = run.start() + long_run.start(), run.start() + long_run.end() + 1
            _mixed(ranges, first, types, start, since)
            one = bytes(types[since : since + 1])
            ranges.append(AcknowledgedRange(first + since, first + until - 1, one))
            start = until
        _mixed(ranges, first, types, start, end)
    return ranges


def _differences(types: bytes | bytearray) -> bytes:
    """For each byte but the first: 0 if it equals the byte before it. Computed for all bytes at
    once, as two long numbers.
    """
    change = int.from_bytes(types[1:], "big") ^ int.from_bytes(types[:-1], "big")
    return change.to_bytes(len(types) - 1, "big")


def _mixed(
    ranges: list[AcknowledgedRange], first: int, types: bytes | bytearray, start: int, end: int
) -> None:
    if start < end:
        part = bytes(types[start:end])
        uniform = part.count(part[0]) == len(part)
        ranges.append(
            AcknowledgedRange(first + start, first + end - 1, part[:1] if uniform else part)
        )


class AcknowledgementQueue:
    """Acknowledgements of one partition for the next request; per offset, the last one wins."""

    def __init__(self) -> None:
        self._ranges: list[AcknowledgedRange] = []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, first: int, last: int, types: bytes) -> None:
        """Queue one range.

        Raises:
            ValueError: ``last`` is before ``first``, or ``types`` is neither one byte nor one per
                offset.
        """
        if last < first or len(types) not in (1, last - first + 1):
            raise ValueError(
                f"{len(types)} acknowledgement types for the offsets {first} to {last}"
            )
        self._ranges.append(AcknowledgedRange(first, last, types))

    def extend(self, ranges: Iterable[AcknowledgedRange]) -> None:
        """Queue ranges that :func:`ranges_of` made."""
        self._ranges.extend(ranges)

    def take(self) -> list[AcknowledgedRange]:
        """Empty the queue: ascending, disjoint ranges, neighbours of one type joined."""
        ranges, self._ranges = self._ranges, []
        if all(_ends_apart(one, after) for one, after in pairwise(ranges)):
            return ranges
        return [one for cluster in _clusters(ranges) for one in _merged(cluster)]


def _ends_apart(one: AcknowledgedRange, after: AcknowledgedRange) -> bool:
    """Whether ``one`` ends before ``after`` begins, and the two need not be joined."""
    if one.last + 1 < after.first:
        return True
    return one.last < after.first and not (one.types == after.types and len(one.types) == 1)


def _clusters(ranges: list[AcknowledgedRange]) -> Iterator[list[AcknowledgedRange]]:
    """Groups of ranges that touch or overlap; in each, the order in which they were added."""
    order = sorted(range(len(ranges)), key=lambda i: ranges[i].first)
    members = [order[0]]
    end = ranges[order[0]].last
    for i in order[1:]:
        if ranges[i].first > end + 1:
            yield [ranges[m] for m in sorted(members)]
            members = []
        members.append(i)
        end = max(end, ranges[i].last)
    yield [ranges[m] for m in sorted(members)]


def _merged(cluster: list[AcknowledgedRange]) -> list[AcknowledgedRange]:
    """Merge overlapping ranges: for each offset, the range added last wins."""
    if len(cluster) == 1:
        return cluster
    first = min(r.first for r in cluster)
    types = bytearray([UNDECIDED]) * (max(r.last for r in cluster) - first + 1)
    for one in cluster:
        size = one.last - one.first + 1
        start = one.first - first
        types[start : start + size] = one.types * size if len(one.types) == 1 else one.types
    return ranges_of(first, types)
