"""Giving records to a member: redelivery first, then new ones (KIP-932 "Acquiring records").

Offsets that the log has lost, and offsets of aborted transactions, are archived on the way. Poison
records are throttled (:mod:`sharegroup.share.throttle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sharegroup.share.archived import ArchivedRange, Reason
from sharegroup.share.locks import Lock
from sharegroup.share.offset_codes import runs
from sharegroup.share.ranges import AcquiredRange, Fetched
from sharegroup.share.record_state import ACQUIRED, AVAILABLE, TRANSITIONS, Verb
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import ABSENT, Span, Status, clipped
from sharegroup.share.stretches import Stretch, recoded, spans_of
from sharegroup.share.throttle import portion, threshold
from sharegroup.share.window import Window

_ACQUIRED = TRANSITIONS[AVAILABLE, Verb.ACQUIRE]
_GONE = TRANSITIONS[AVAILABLE, Verb.DISCARD]


class Acquisition(NamedTuple):
    """Records given to a member: sorted, disjoint ranges. An acquisition need not be durable."""

    ranges: tuple[AcquiredRange, ...] = ()

    @property
    def records(self) -> int:
        """How many offsets were acquired."""
        return sum(last - first + 1 for first, last, _ in self.ranges)


NOTHING = Acquisition()


@dataclass(slots=True)
class Request:
    """What a member asks for, and when its acquisition lock expires."""

    member_id: str
    records_max: int
    batch_size: int
    strict: bool
    """record_limit: never more than ``records_max`` records, no cuts by ``batch_size``."""
    deadline_ms: int


@dataclass(slots=True)
class _Redelivery:
    """The records to redeliver: all available records in ``region``, ``size`` in total."""

    region: tuple[int, int] | None
    size: int
    alone: bool = False
    """A throttled portion is taken or was left out: no record after it may be delivered now."""


def acquired(
    window: Window, fetched: Fetched, request: Request, settings: DeliverySettings
) -> Acquisition:
    """Acquire what ``request`` asks for from the ``fetched`` records, under the member's lock."""
    if fetched.missing:
        discard(window, fetched.missing)
    again = _redelivery(window, fetched, request, settings.delivery_count_limit)
    wanted = 0 if again.alone else request.records_max - again.size
    # Every offset of the window counts, as in Kafka: a finished record keeps its place until the
    # start offset passes it, so one stuck record bounds how many are delivered after it.
    wanted = min(wanted, settings.record_locks_max - (window.end - window.start))
    new = _new_ranges(window, fetched, wanted, strict=request.strict)
    given: list[AcquiredRange] = []
    if again.region or new:
        lock = window.locks.take(request.member_id, request.deadline_ms)
        given += _lock_again(window, again.region, lock) if again.region else ()
        # Before the window is extended: that makes a delivery batch of each span that has none.
        _note_batches(window, fetched, new, request)
        given += _lock_new(window, new, lock)
    # Offsets were read past the window, and all of them are of aborted transactions. The end moves
    # over them, or the next fetch would read the same bytes again, for ever.
    if wanted > 0 and fetched.end > window.end and fetched.from_offset(window.end) is None:
        window.extend([Span(window.end, fetched.end - 1, _GONE, ABSENT, None)])
    window.pass_terminal()
    return Acquisition(tuple(fetched.answer(given, None if request.strict else request.batch_size)))


def discard(window: Window, missing: list[tuple[int, int]]) -> None:
    """Archive available offsets that are no longer in the log or belong to aborted transactions.

    The change need not be written: after a reload, the next read finds the same offsets missing.
    """
    for hole_first, hole_last in missing:
        first, last = max(hole_first, window.start), min(hole_last, window.end - 1)
        if first > last:
            continue
        old = window.pieces(first, last)
        window.replace(old, [stretch for piece in old for stretch in _discarded(piece)])
    window.pass_terminal()


def _discarded(piece: Stretch) -> list[Stretch]:
    gone = Status(_GONE, 0, None)
    status_of = {
        code: gone if status.state is AVAILABLE else status for code, status in piece.met()
    }
    return recoded(piece.first, piece.last, piece.codes, status_of)


def lose(window: Window, first: int, last: int) -> None:
    """Archive offsets ``first`` … ``last``, which the log has lost, as if they were never there.
    Acquired records stay acquired: their holder has read them.
    """
    discard(window, [(first, last)])
    end = window.end
    if end <= last:
        window.extend([Span(end, last, _GONE, ABSENT, None)])
        window.batches.add(end, last)
        window.pass_terminal()


def unfinished(window: Window, first: int, last: int, reason: Reason) -> Iterator[ArchivedRange]:
    """The unfinished records among offsets ``first`` … ``last``, to be archived for ``reason``.

    Acquired records are included only for DELETED: the holder of damaged records has read them.
    """
    first, inside = max(first, window.start), min(last, window.end - 1)
    for span in spans_of(window.pieces(first, inside)) if first <= inside else ():
        held = span.state is ACQUIRED
        if span.state is AVAILABLE or (held and reason is Reason.DELETED):
            yield ArchivedRange(span.first, span.last, reason, max(0, span.delivery_count))
    if last >= window.end:
        yield ArchivedRange(max(first, window.end), last, reason, 0)


def _redelivery(window: Window, fetched: Fetched, request: Request, limit: int) -> _Redelivery:
    if not window.counts[AVAILABLE]:
        return _Redelivery(None, 0)
    available = _available_in(window, fetched)
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
    fetched: Fetched,
    request: Request,
    limit: int,
    available: Iterator[tuple[Stretch, int]],
) -> _Redelivery:
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

    def __init__(self, window: Window, fetched: Fetched, request: Request) -> None:
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

    def result(self, *, alone: bool = False) -> _Redelivery:
        """What was taken."""
        region = (self._first, self._last) if self.size else None
        return _Redelivery(region, self.size, alone=alone)


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
) -> _Redelivery | None:
    """The portion to take of available ``spans`` of one delivery batch; None: no restriction."""
    if max(span.delivery_count for span in spans) < threshold(limit):
        return None
    first, last = window.batches.find(spans[0].first)
    taken = portion(
        spans, batch_size=last - first + 1, limit=limit, records_max=request.records_max
    )
    return _Redelivery((spans[0].first, taken.last), taken.size, alone=True)


def _available_in(window: Window, fetched: Fetched) -> Iterator[tuple[Stretch, int]]:
    """The stretches with available records among the offsets that were read, ascending and cut to
    these; each with the number of its available records.
    """
    lowest = window.first_available()
    if lowest is None or not fetched.bases:
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


def _new_ranges(
    window: Window, fetched: Fetched, size: int, *, strict: bool
) -> list[tuple[int, int]]:
    """The ranges past the window's end to acquire: about ``size`` offsets, without missing ones."""
    first = fetched.from_offset(window.end)
    if first is None or size <= 0:
        return []
    last = fetched.cut(first, size, exact=strict)
    ranges = []
    for hole_first, hole_last in fetched.missing:
        if first < hole_first and hole_last < last:
            ranges.append((first, hole_first - 1))
            first = hole_last + 1
    return [*ranges, (first, last)]


def _lock_again(window: Window, region: tuple[int, int], lock: Lock) -> list[AcquiredRange]:
    """Acquire every available record in ``region``; returns what was acquired."""
    given: list[AcquiredRange] = []
    new: list[Stretch] = []
    pieces = window.pieces(*region)
    for piece in pieces:
        if piece.uniform:
            if piece.statuses[0].state is AVAILABLE:
                count = piece.statuses[0].delivery_count + 1
                lock.add_range(piece.first, piece.last)
                given.append(AcquiredRange(piece.first, piece.last, count))
                piece = Stretch(piece.first, piece.last, (Status(_ACQUIRED, count, lock),))
            new.append(piece)
            continue
        status_of: dict[int, Status] = {}
        counts: dict[int, int] = {}
        for code, status in piece.met():
            if status.state is AVAILABLE:
                counts[code] = status.delivery_count + 1
                status = Status(_ACQUIRED, counts[code], lock)
            status_of[code] = status
        if counts:
            lock.add_range(piece.first, piece.last)
            found = runs(piece.first, piece.last, piece.codes)
            given += [
                AcquiredRange(first, last, counts[code])
                for first, last, code in zip(*found, strict=True)
                if code in counts
            ]
        new += recoded(piece.first, piece.last, piece.codes, status_of)
    window.replace(pieces, new)
    return given


def _note_batches(
    window: Window, fetched: Fetched, ranges: list[tuple[int, int]], request: Request
) -> None:
    """Note the delivery batches that new ``ranges`` make (Kafka's createBatches)."""
    end = window.end
    for first, last in ranges:
        if first > end:
            window.batches.add(end, first - 1)  # a hole: every offset belongs to a batch
        if request.strict:
            # To the end of the log batch: its rest, acquired later, is of the same delivery batch.
            window.batches.add(first, fetched.cut(last, 1, exact=False))
        else:
            whole = AcquiredRange(first, last, 1)
            for at, until, _ in fetched.cut_at_bases(whole, request.batch_size):
                window.batches.add(at, until)
        end = last + 1


def _lock_new(window: Window, ranges: list[tuple[int, int]], lock: Lock) -> list[AcquiredRange]:
    """Extend the window over ``ranges`` and acquire them; returns what was acquired.

    Offsets between the ranges do not exist and are archived.
    """
    spans, given = [], []
    end = window.end
    for first, last in ranges:
        if first > end:
            spans.append(Span(end, first - 1, _GONE, ABSENT, None))
        lock.add_range(first, last)
        spans.append(Span(first, last, _ACQUIRED, 1, lock))
        given.append(AcquiredRange(first, last, 1))
        end = last + 1
    if spans:
        window.extend(spans)
    return given
