"""Arithmetic of acquiring: which offsets were read from the log, where a range may be cut."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import compress, repeat
from operator import add, le, lt, sub
from typing import Any, Final, NamedTuple

from sharegroup.model.offsets import OffsetRange
from sharegroup.share.offset_codes import Runs


class AcquiredRange(NamedTuple):
    """Offsets ``first`` … ``last`` delivered to one member for the ``delivery_count``-th time."""

    first: int
    last: int
    delivery_count: int


_AS_RANGE: Final[Callable[[tuple[int, int, int]], AcquiredRange]] = partial[Any](
    tuple.__new__, AcquiredRange
)
"""Does the same as AcquiredRange._make, but without a Python call for each of very many ranges."""
_IS_APART: Final = (1).__ne__


class LogRead:
    """The result of a log read from ``fetch_offset`` on: whole batches, in order.

    Offsets that the read passed over and that are in no batch were compacted away. Offsets of
    ``aborted`` batches are treated the same. The first batch may begin before ``fetch_offset``.
    """

    def __init__(
        self,
        fetch_offset: int,
        batches: Sequence[tuple[int, int]],
        aborted: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.bases = [base for base, _ in batches]
        self.lasts = [last for _, last in batches]
        self.begin = self.bases[0]
        """The first offset read."""
        self.end = self.lasts[-1] + 1
        """One past the last offset read."""
        adjoining = self._adjoining()
        for first, last in aborted:
            at = slice(bisect_left(self.bases, first), bisect_right(self.bases, last))
            if at.start < at.stop:
                adjoining = False
                del self.bases[at], self.lasts[at]
        self.missing = [] if adjoining else self._holes(fetch_offset)
        """Offsets read that must not be delivered: ascending ranges that do not adjoin."""
        if adjoining and fetch_offset < self.bases[0]:
            self.missing.append((fetch_offset, self.bases[0] - 1))

    def _adjoining(self) -> bool:
        """Whether each batch begins where the one before it ends; all of it at C speed."""
        bases, lasts = self.bases, self.lasts
        if not all(map(le, bases, lasts)):
            raise ValueError("log batches are out of order: one ends before it begins")
        following = bases[1:]
        if not following or list(map(add, lasts, repeat(1, len(following)))) == following:
            return True
        if not all(map(lt, lasts, following)):
            raise ValueError("log batches are out of order")
        return False

    def _holes(self, fetch_offset: int) -> list[tuple[int, int]]:
        holes, end = [], fetch_offset
        for base, last in zip(self.bases, self.lasts, strict=True):
            if base > end:
                holes.append((end, base - 1))
            end = max(end, last + 1)
        if self.end > end:
            holes.append((end, self.end - 1))
        return holes

    def from_offset(self, offset: int) -> int | None:
        """The lowest offset read that is not below ``offset``, or None."""
        index = bisect_left(self.lasts, offset)
        return None if index == len(self.lasts) else max(self.bases[index], offset)

    def cut(self, first: int, size: int, *, exact: bool) -> int:
        """The last offset of a range of about ``size`` offsets from ``first`` on.

        If ``exact``, the range has at most ``size`` offsets. Otherwise it extends to the end of the
        log batch that holds its last offset: a batch is sent whole, so a cut would send it twice.
        """
        last = first + size - 1
        batch_last = self.lasts[bisect_right(self.bases, last) - 1]
        return min(last, batch_last) if exact else batch_last

    def answer(self, given: list[AcquiredRange], batch_size: int | None) -> Iterator[AcquiredRange]:
        """Acquired ranges with equal neighbours joined, then cut every ``batch_size``.

        Cuts are made at log batch bases only, as soon as a range has ``batch_size`` offsets
        (KIP-932 "batch_optimized"); None makes no cuts (KIP-1206 "record_limit").
        """
        joined: list[AcquiredRange] = []
        before = (-1, -1)
        for one in given:
            first, last, count = one
            if before == (first - 1, count):
                one = AcquiredRange(joined.pop().first, last, count)
            joined.append(one)
            before = (last, count)
        for whole in joined:
            if batch_size is None or whole.last - whole.first < batch_size:
                yield whole
            else:
                yield from self.cut_at_bases(whole, batch_size)

    def cut_at_bases(self, whole: AcquiredRange, batch_size: int) -> Iterator[AcquiredRange]:
        """``whole`` cut at the next log batch base as soon as it has ``batch_size`` offsets."""
        first, last, count = whole
        batch_size = max(1, batch_size)
        while first + batch_size <= last:
            index = bisect_left(self.bases, first + batch_size)
            if index == len(self.bases) or self.bases[index] > last:
                break
            yield AcquiredRange(first, self.bases[index] - 1, count)
            first = self.bases[index]
        yield AcquiredRange(first, last, count)


def add_runs(given: list[AcquiredRange], found: Runs, counts: dict[int, int]) -> None:
    """Append the runs ``found`` to ``given``; ``counts`` has the delivery count of each code."""
    joins = given and given[-1].last + 1 == found.firsts[0]
    if joins and given[-1].delivery_count == counts[found.codes[0]]:
        given[-1] = given[-1]._replace(last=found.lasts[0])
        found = Runs(found.firsts[1:], found.lasts[1:], found.codes[1:])
    deliveries = map(counts.__getitem__, found.codes)
    given += map(_AS_RANGE, zip(found.firsts, found.lasts, deliveries, strict=True))


def ranges_of(offsets: Sequence[int], delivery_count: int) -> list[AcquiredRange]:
    """Ascending offsets, at least one, as ranges with this delivery count."""
    first, last, after = offsets[0], offsets[-1], offsets[1:]
    if last - first == len(after):
        return [AcquiredRange(first, last, delivery_count)]
    gaps = list(map(_IS_APART, map(sub, after, offsets)))
    firsts, lasts = [first, *compress(after, gaps)], [*compress(offsets, gaps), last]
    return [*map(_AS_RANGE, zip(firsts, lasts, repeat(delivery_count), strict=False))]


def apart(offsets: Iterable[int], left_out: Set[int]) -> tuple[OffsetRange, ...]:
    """The ranges of ascending ``offsets``, without the offsets in ``left_out``."""
    ranges: list[OffsetRange] = []
    for offset in offsets:
        if offset in left_out:
            continue
        if ranges and ranges[-1].last == offset - 1:
            ranges[-1] = OffsetRange(ranges[-1].first, offset)
        else:
            ranges.append(OffsetRange(offset, offset))
    return tuple(ranges)
