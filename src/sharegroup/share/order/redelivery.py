"""Which records are delivered again, in the order of the log.

Poison records are throttled (:mod:`sharegroup.share.order.throttle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sharegroup.share.acquire import Request
from sharegroup.share.order.throttle import portion, threshold
from sharegroup.share.ranges import LogRead
from sharegroup.share.record_state import AVAILABLE
from sharegroup.share.spans import Span, clipped
from sharegroup.share.stretches import Stretch
from sharegroup.share.window import Window


@dataclass(slots=True)
class Redelivery:
    """The records to redeliver: all available records in ``region``, ``size`` in total."""

    region: tuple[int, int] | None
    size: int
    alone: bool = False
    """A throttled portion is taken or was left out: no record after it may be delivered now."""


def redelivery(
    window: Window, fetched: LogRead, request: Request, lowest: int | None, limit: int
) -> Redelivery:
    """What to take of the available records that were read; ``lowest`` is the lowest available
    offset of the window, if there is one. ``limit`` is the delivery limit."""
    if lowest is None:
        return Redelivery(None, 0)
    available = _available_in(window, fetched, lowest)
    if window.deliveries_max >= threshold(limit):
        return _throttled_redelivery(window, fetched, request, limit, available)
    # No record was delivered often enough to be throttled: the bounds of delivery batches do not
    # matter, and a stretch that is taken whole is taken without a look at its spans.
    taking = _Taking(window, fetched, request)
    for stretch, size in available:
        if taking.fits(size):
            taking.take(stretch.first, stretch.last, size)
        elif not all(map(taking.add, _available_spans(stretch))):
            break
    return taking.result()


def _throttled_redelivery(
    window: Window,
    fetched: LogRead,
    request: Request,
    limit: int,
    available: Iterator[tuple[Stretch, int]],
) -> Redelivery:
    taking = _Taking(window, fetched, request)
    spans = (span for stretch, _ in available for span in _available_spans(stretch))
    for batch in _by_batch(window, spans):
        if found := _throttled(window, batch, request, limit):
            # A throttled portion goes out alone: it must not take other records with it.
            return taking.result(alone=True) if taking.size else found
        if not all(map(taking.add, batch)):
            break
    return taking.result()


class _Taking:
    """Available records as they are taken, in the order of their offsets."""

    def __init__(self, window: Window, fetched: LogRead, request: Request) -> None:
        self._window = window
        self._fetched = fetched
        self._request = request
        self._first = self._last = -1
        # The last offset that may be taken. Without a record limit, a stored batch is never divided
        # (KIP-1206), so this offset may lie past the record that fills the request.
        self._reach = -1
        self.size = 0

    def fits(self, size: int) -> bool:
        """Whether more than ``size`` records are still wanted. The record that fills the request is
        taken by :meth:`add`, which finds how far to go on after it."""
        return size < self._request.records_max - self.size

    def take(self, first: int, last: int, size: int) -> None:
        """Take ``size`` records, which are all available ones in ``first`` … ``last``."""
        if not self.size:
            self._first = first
        self._last = last
        self.size += size

    def add(self, span: Span) -> bool:
        """Take ``span``, or the part of it that fills the request and its last stored batch. False:
        the request was filled before this span."""
        wanted = self._request.records_max - self.size
        if wanted > span.last - span.first + 1:
            self._reach = span.last
        elif wanted > 0:
            reach = self._fetched.cut(span.first, wanted, exact=self._request.strict)
            # Not past the delivery batch: what follows may have another delivery count.
            self._reach = min(reach, self._window.batches.find(span.first + wanted - 1)[1])
        elif span.first > self._reach:
            return False
        last = min(span.last, self._reach)
        self.take(span.first, last, last - span.first + 1)
        return True

    def result(self, *, alone: bool = False) -> Redelivery:
        """What was taken."""
        region = (self._first, self._last) if self.size else None
        return Redelivery(region, self.size, alone=alone)


def _by_batch(window: Window, spans: Iterable[Span]) -> Iterator[list[Span]]:
    """``spans`` cut at the bounds of delivery batches; one list for each delivery batch."""
    group: list[Span] = []
    group_last = -1
    for whole in spans:
        first = whole.first
        while first <= whole.last:
            if first > group_last:
                if group:
                    yield group
                group, group_last = [], window.batches.find(first)[1]
            span = clipped(whole, first, group_last)
            group.append(span)
            first = span.last + 1
    if group:
        yield group


def _throttled(
    window: Window, spans: list[Span], request: Request, limit: int
) -> Redelivery | None:
    """The portion to take of available ``spans`` of one delivery batch; None: no restriction."""
    if max(span.delivery_count for span in spans) < threshold(limit):
        return None
    first, last = window.batches.find(spans[0].first)
    taken = portion(
        spans, batch_size=last - first + 1, limit=limit, records_max=request.records_max
    )
    return Redelivery((spans[0].first, taken.last), taken.size, alone=True)


def _available_in(window: Window, fetched: LogRead, lowest: int) -> Iterator[tuple[Stretch, int]]:
    """The stretches with available records among the offsets that were read, ascending and cut to
    these; each with the number of its available records.
    """
    if not fetched.bases:
        return
    first, last = max(lowest, fetched.bases[0]), min(fetched.lasts[-1], window.end - 1)
    if first > last:
        return
    unseen = window.counts[AVAILABLE]
    for stretch in window.pieces(first, last):
        available = 0
        for status, size in stretch.sizes():
            if status.state is AVAILABLE:
                available += size
        if available:
            yield stretch, available
        unseen -= available
        if not unseen:
            return


def _available_spans(stretch: Stretch) -> Iterator[Span]:
    return (span for span in stretch.spans() if span.state is AVAILABLE)
