"""Arithmetic of acquiring: which offsets were read from the log, where a range may be cut."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sharegroup.share.spans import Span


class AcquiredRange(NamedTuple):
    """Offsets ``first`` … ``last`` delivered to one member for the ``delivery_count``-th time."""

    first: int
    last: int
    delivery_count: int


class Fetched:
    """What a read of the log from ``fetch_offset`` on returned: whole batches, in order.

    Offsets that the read passed over and that lie in no batch do not exist: they were compacted
    away. The first batch may begin before ``fetch_offset``.
    """

    def __init__(self, fetch_offset: int, batches: Sequence[tuple[int, int]]) -> None:
        self.bases = [base for base, _ in batches]
        self.lasts = [last for _, last in batches]
        self.missing: list[tuple[int, int]] = []
        end, previous_last = fetch_offset, -1
        for base, last in batches:
            if last < base or base <= previous_last:
                raise ValueError(f"log batch {base}-{last} is out of order")
            if base > end:
                self.missing.append((end, base - 1))
            end, previous_last = max(end, last + 1), last

    @property
    def last(self) -> int:
        """The last offset read."""
        return self.lasts[-1]

    def from_offset(self, offset: int) -> int | None:
        """The lowest offset read that is not below ``offset``, or None."""
        index = bisect_left(self.lasts, offset)
        return None if index == len(self.lasts) else max(self.bases[index], offset)

    def cut(self, first: int, size: int, *, exact: bool) -> int:
        """Where a range of about ``size`` offsets from ``first`` on ends.

        Exact, or at the end of the log batch that holds its last offset: a batch goes over the
        wire whole, so cutting it would send it twice.
        """
        last = first + size - 1
        batch_last = self.lasts[bisect_right(self.bases, last) - 1]
        return min(last, batch_last) if exact else batch_last

    def answer(self, spans: list[Span], batch_size: int | None) -> Iterator[AcquiredRange]:
        """Acquired ``spans`` as ranges; equal neighbours joined, then cut every ``batch_size``.

        Cuts are made at log batch bases only, as soon as a range has ``batch_size`` offsets
        (KIP-932 "batch_optimized"); None makes no cuts (KIP-1206 "record_limit").
        """
        joined: list[AcquiredRange] = []
        for span in spans:
            first = span.first
            if joined and joined[-1][1:] == (first - 1, span.delivery_count):
                first = joined.pop().first
            joined.append(AcquiredRange(first, span.last, span.delivery_count))
        if batch_size is None:
            yield from joined
            return
        for whole in joined:
            yield from self._cut_at_bases(whole, max(1, batch_size))

    def _cut_at_bases(self, whole: AcquiredRange, batch_size: int) -> Iterator[AcquiredRange]:
        first, last, count = whole
        while first + batch_size <= last:
            index = bisect_left(self.bases, first + batch_size)
            if index == len(self.bases) or self.bases[index] > last:
                break
            yield AcquiredRange(first, self.bases[index] - 1, count)
            first = self.bases[index]
        yield AcquiredRange(first, last, count)
