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
from sharegroup.share.ranges import AcquiredRange, Fetched
from sharegroup.share.record_state import TRANSITIONS, RecordState, Verb
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import ABSENT, Span, clipped
from sharegroup.share.throttle import portion, threshold
from sharegroup.share.window import Window

_ACQUIRED = TRANSITIONS[RecordState.AVAILABLE, Verb.ACQUIRE]
_GONE = TRANSITIONS[RecordState.AVAILABLE, Verb.DISCARD]


@dataclass(frozen=True, slots=True)
class Acquisition:
    """Records given to a member: sorted, disjoint ranges. An acquisition need not be durable."""

    ranges: tuple[AcquiredRange, ...] = ()

    @property
    def records(self) -> int:
        """How many offsets were acquired."""
        return sum(last - first + 1 for first, last, _ in self.ranges)


NOTHING = Acquisition()


class Request(NamedTuple):
    """What a member asks for, and when its acquisition lock expires."""

    member_id: str
    records_max: int
    batch_size: int
    strict: bool
    """record_limit: never more than ``records_max`` records, no cuts by ``batch_size``."""
    deadline_ms: int


class _Redelivery(NamedTuple):
    """Available records to redeliver: all of those in ``region``, ``size`` in total."""

    region: tuple[int, int] | None
    size: int
    alone: bool = False
    """A throttled portion is taken or was left out: nothing behind it may be delivered."""


def acquired(
    window: Window, fetched: Fetched, request: Request, settings: DeliverySettings
) -> Acquisition:
    """Acquire what ``request`` asks for from the ``fetched`` records, under the member's lock."""
    if fetched.missing:
        discard(window, fetched.missing)
    again = _redelivery(window, fetched, request, settings.delivery_count_limit)
    wanted = 0 if again.alone else request.records_max - again.size
    # Every offset of the window counts, as in Kafka: a finished record keeps its place until the
    # start offset passes it, so one stuck record bounds what is delivered behind it.
    wanted = min(wanted, settings.record_locks_max - (window.end - window.start))
    new = _new_ranges(window, fetched, wanted, strict=request.strict)
    given: list[Span] = []
    if again.region or new:
        lock = window.locks.take(request.member_id, request.deadline_ms)
        given += _lock_again(window, again.region, lock) if again.region else ()
        _note_batches(window, fetched, new, request)
        given += _lock_new(window, new, lock)
    # Offsets were read past the window and none holds a record (control batches, compaction). The
    # end moves over them, or the next fetch would read the same bytes again, for ever.
    if wanted > 0 and fetched.end > window.end and fetched.from_offset(window.end) is None:
        window.extend([Span(window.end, fetched.end - 1, _GONE, ABSENT, None)])
    window.pass_terminal()
    return Acquisition(tuple(fetched.answer(given, None if request.strict else request.batch_size)))


def discard(window: Window, missing: list[tuple[int, int]]) -> None:
    """Archive available offsets that are no longer in the log or are of aborted transactions.

    The change need not be written: after a reload, the next read finds the same.
    """
    for hole_first, hole_last in missing:
        first, last = max(hole_first, window.start), min(hole_last, window.end - 1)
        if first > last:
            continue
        new = [
            Span(s.first, s.last, _GONE, 0, None) if s.state is RecordState.AVAILABLE else s
            for s in window.pieces(first, last)
        ]
        window.replace(first, last, new)
    window.pass_terminal()


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
    for span in window.pieces(first, inside) if first <= inside else ():
        held = span.state is RecordState.ACQUIRED
        if span.state is RecordState.AVAILABLE or (held and reason is Reason.DELETED):
            yield ArchivedRange(span.first, span.last, reason, max(0, span.delivery_count))
    if last >= window.end:
        yield ArchivedRange(max(first, window.end), last, reason, 0)


def _redelivery(window: Window, fetched: Fetched, request: Request, limit: int) -> _Redelivery:
    # ``reach``: the last offset that may be taken. Without a record limit, a stored batch is never
    # divided (KIP-1206), so it may lie behind the record that fills the request.
    first, last, reach, size = -1, -1, -1, 0
    available = _available_in(window, fetched)
    # Nothing was delivered often enough to be throttled: the bounds of delivery batches do not
    # matter, and one pass over the spans is enough.
    calm = window.deliveries_max < threshold(limit)
    for spans in [available] if calm else _by_batch(window, available):
        if not calm and (found := _throttled(window, list(spans), request, limit)):
            return _Redelivery((first, last), size, alone=True) if size else found
        for span in spans:
            wanted = request.records_max - size
            if wanted > span.last - span.first + 1:
                reach = span.last
            elif wanted > 0:
                reach = fetched.cut(span.first, wanted, exact=request.strict)
                # Not past the delivery batch: what follows may have another delivery count.
                reach = min(reach, window.batches.find(span.first + wanted - 1)[1])
            elif span.first > reach:
                return _Redelivery((first, last), size)
            if not size:
                first = span.first
            # Only a part of the span, when the request is filled inside it.
            last = min(span.last, reach)
            size += last - span.first + 1
    return _Redelivery((first, last) if size else None, size)


def _by_batch(window: Window, spans: Iterable[Span]) -> Iterator[list[Span]]:
    """``spans`` cut at the bounds of delivery batches, and grouped by them."""
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


def _available_in(window: Window, fetched: Fetched) -> Iterator[Span]:
    """Available spans within what was read, clipped to it, ascending."""
    lowest = window.first_available()
    if lowest is None or not fetched.bases:
        return
    first, last = max(lowest, fetched.bases[0]), min(fetched.lasts[-1], window.end - 1)
    if first > last:
        return
    unseen = window.counts[RecordState.AVAILABLE]
    for span in window.iterate_from(first):
        if span.first > last or not unseen:
            return
        if span.state is RecordState.AVAILABLE:
            unseen -= span.size
            yield clipped(span, first, last)


def _new_ranges(
    window: Window, fetched: Fetched, size: int, *, strict: bool
) -> list[tuple[int, int]]:
    """Ranges past the window's end to take, about ``size`` offsets, without missing ones."""
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


def _lock_again(window: Window, region: tuple[int, int], lock: Lock) -> list[Span]:
    """Acquire every available record in ``region``; returns the acquired spans."""
    pieces = window.pieces(*region)
    given = []
    new = tuple.__new__  # what Span(...) does, without a Python call for each
    for i, (first, last, state, count, _) in enumerate(pieces):
        if state is RecordState.AVAILABLE:
            span = new(Span, (first, last, _ACQUIRED, count + 1, lock))
            pieces[i] = span
            lock.add_range(first, last)
            given.append(span)
    window.replace(*region, pieces)
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
            window.batches.add(first, fetched.cut(last, 1, exact=False))
        else:
            whole = AcquiredRange(first, last, 1)
            for batch in fetched.cut_at_bases(whole, request.batch_size):
                window.batches.add(batch.first, batch.last)
        end = last + 1


def _lock_new(window: Window, ranges: list[tuple[int, int]], lock: Lock) -> list[Span]:
    """Extend the window over ``ranges`` and acquire them; returns the acquired spans.

    Offsets between the ranges do not exist and are archived.
    """
    spans, given = [], []
    end = window.end
    for first, last in ranges:
        if first > end:
            spans.append(Span(end, first - 1, _GONE, ABSENT, None))
        span = Span(first, last, _ACQUIRED, 1, lock)
        lock.add_range(first, last)
        spans.append(span)
        given.append(span)
        end = last + 1
    if spans:
        window.extend(spans)
    return given
