"""Records in the order of the log: redelivery first, then new ones (KIP-932).

Offsets that the log has lost, and offsets of aborted transactions, are archived on the way. Poison
records are throttled (:mod:`sharegroup.share.order.throttle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from sharegroup.model.dead_records import Cause
from sharegroup.model.limits import SCHEDULED_MAX
from sharegroup.share.acknowledge import Answer
from sharegroup.share.acquire import Request
from sharegroup.share.applying import apply, held_pieces
from sharegroup.share.archived import Archived
from sharegroup.share.by_hand import Decided, Hand
from sharegroup.share.expiry import expire, letters_of, new_spans, spans_up_to
from sharegroup.share.locks import Lock
from sharegroup.share.lost_records import GONE, discard, lose
from sharegroup.share.offset_codes import runs
from sharegroup.share.order.free_ranges import FreeRanges
from sharegroup.share.order.redelivery import redelivery
from sharegroup.share.pauses import Pauses
from sharegroup.share.ranges import AcquiredRange, LogRead
from sharegroup.share.record_state import (
    ACQUIRED,
    AVAILABLE,
    DELAYED,
    DUE,
    RENEW,
    TRANSITIONS,
    Verb,
    released,
)
from sharegroup.share.release import regions, take_back
from sharegroup.share.schedule import NotDue, Schedule, note_batches, reach
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import ABSENT, Span, Status
from sharegroup.share.state_changes import Changes, StateChange
from sharegroup.share.stretches import Stretch, recoded
from sharegroup.share.window import Window

_ACQUIRED = TRANSITIONS[AVAILABLE, Verb.ACQUIRE]
DELAYED_MAX: Final = 1_000_000
"""Records of one share partition that may rest at once: with more, no new ones are delivered. In
many pieces they take some 200 bytes each. In a group with scheduled delivery, where SCHEDULED_MAX
records may rest, it is a limit of the times at which they are due, and of the runs of finished
records among them."""
COUNTED_EVERY: Final = 65_536
"""The runs among so many records are counted anew when these are so many more or fewer."""
DECIDED_MAX: Final = 256
"""Stretches that one call decides about by hand, which takes some milliseconds."""
STRETCHES_MAX: Final = 200_000
"""Pieces of a window in which records rest."""


class Free(Protocol):
    """Finds available records for the order of the log."""

    def offer(self, ranges: Sequence[tuple[int, int]]) -> None:
        """``ranges`` hold all records that have become available."""

    def first(self) -> int | None:
        """The lowest available offset, or None."""

    def check_invariants(self) -> None:
        """Assert that every available record is found."""


class LogOrder:
    """The order of the log. See the module, and :class:`~sharegroup.share.order.Order`.

    Args:
        free: finds available records; by default in the order of their offsets.
    """

    needs_keys: Final = False
    in_order: Final = False
    reads_ahead: Final = False
    next_ms: Final = None
    may_load: Final = False
    disorder: Final = None
    blocked_keys: Final = 0

    def __init__(self, window: Window, archived: Archived, free: Free | None = None) -> None:
        self._window = window
        self._archived = archived
        self._free: Free = FreeRanges(window) if free is None else free
        self._counted: tuple[int, int] | None = None

    @property
    def loaded_end(self) -> int:
        """The window's end."""
        return self._window.end

    def configure(self, settings: DeliverySettings) -> None:
        """Nothing: each call has the settings."""

    def load(self, offsets: Sequence[int], hashes: Sequence[int], end: int) -> None:
        """Nothing: this order asks for no keys."""

    def next_offset(self, member_id: str) -> int:
        """Redelivery first, else new records."""
        available = self._free.first()
        return self._window.end if available is None else available

    def has_room(self, settings: DeliverySettings, member_id: str) -> bool:
        """Records are available, or the window may grow."""
        return self._window.counts[AVAILABLE] > 0 or self._room(settings) > 0

    def offers(self, end: int, settings: DeliverySettings) -> bool:
        """All members may acquire the same records."""
        return self.next_offset("") < end and self.has_room(settings, "")

    def take(
        self, fetched: LogRead, request: Request, settings: DeliverySettings
    ) -> tuple[AcquiredRange, ...]:
        """As in :class:`Order`; ranges are cut by the request's ``batch_size``."""
        window = self._window
        if fetched.missing:
            discard(window, fetched.missing)
        again = redelivery(
            window, fetched, request, self._free.first(), settings.delivery_count_limit
        )
        wanted = 0 if again.alone else request.records_max - again.size
        wanted = min(wanted, self._room(settings))
        new = _new_ranges(window, fetched, wanted, strict=request.strict)
        given: list[AcquiredRange] = []
        if again.region or new:
            lock = window.locks.take(request.member_id, request.deadline_ms)
            given += _lock_again(window, again.region, lock) if again.region else ()
            # Before the window is extended: that makes a delivery batch of each span without one.
            _note_batches(window, fetched, new, request)
            given += _lock_new(window, new, lock)
        # Offsets were read past the window, and all of them are of aborted transactions. The end
        # moves over them, or the next fetch would read the same bytes again, for ever.
        if wanted > 0 and fetched.end > window.end and fetched.from_offset(window.end) is None:
            window.extend([Span(window.end, fetched.end - 1, GONE, ABSENT, None)])
        window.pass_terminal()
        return tuple(fetched.answer(given, None if request.strict else request.batch_size))

    def give_back(
        self,
        answers: Sequence[Answer],
        member_id: str,
        now_ms: int,
        settings: DeliverySettings,
    ) -> StateChange | None:
        """As in :class:`Order`: all acknowledgements, or none."""
        window, limit, rests = self._window, settings.delivery_count_limit, settings.back_off
        held = [
            held_pieces(
                window.pieces(one.first, one.last),
                one,
                member_id,
                limit,
                delays=rests is not None if one.pause_ms is None else one.pause_ms > 0,
            )
            for one in answers
        ]
        dead = Cause.RELEASED if settings.dead_letters else None
        changes = Changes(self._archived, dead, Pauses(window.locks, rests, now_ms))
        apply(window, held, member_id, now_ms + settings.lock_ms, changes)
        return self._settled(changes)

    def take_back(
        self, locks: list[Lock], now_ms: int, cause: Cause, settings: DeliverySettings
    ) -> StateChange | None:
        """As in :class:`Order`."""
        window, limit, rests = self._window, settings.delivery_count_limit, settings.back_off
        dead = cause if settings.dead_letters else None
        changes = Changes(self._archived, dead, Pauses(window.locks, rests, now_ms))

        def verb_of(status: Status) -> Verb:
            return released(status.delivery_count, limit, delays=rests is not None)

        if locks:
            take_back(window, locks, changes, now_ms, verb_of)
        return self._settled(changes)

    def come_due(self, pauses: list[Lock], now_ms: int) -> None:
        """As in :class:`Order`."""
        ranges = list(regions(self._window, pauses))
        take_back(self._window, pauses, Changes(self._archived), now_ms, lambda _: DUE)
        # What is left to the next call is offered then.
        end = min((one.ranges[0][0] for one in pauses if one.held), default=self._window.end)
        self._free.offer([(first, min(last, end - 1)) for first, last in ranges if first < end])

    def _settled(self, changes: Changes) -> StateChange | None:
        if changes.available:
            self._free.offer(changes.available)
        return changes.settled(self._window)

    def is_blocked(self, offset: int, settings: DeliverySettings) -> bool:
        """As in :class:`Order`: no record is ever blocked."""
        return False

    def decide(self, first: int, last: int, hand: Hand, settings: DeliverySettings) -> Decided:
        """As in :class:`Order`."""
        window = self._window
        pieces = window.pieces(first, last)[:DECIDED_MAX]
        end = pieces[-1].last + 1
        hand.look(pieces)
        if hand.verb is RENEW:
            hand.extend(window, pieces)
            return hand.done(None, end)
        changes = Changes(self._archived, Cause.OPERATOR if settings.dead_letters else None)
        apply(window, [hand.answered(pieces)], "", 0, changes)
        return hand.done(self._settled(changes), end)

    def widened(self, first: int) -> None:
        """As in :class:`Order`."""
        self._free.offer([(first, self._window.end - 1)])

    def expire(
        self, fetched: LogRead, ranges: Sequence[tuple[int, int]], settings: DeliverySettings
    ) -> StateChange | None:
        """As in :class:`Order`. New records before an expired one come into the window, and are
        available."""
        window = self._window
        spans = new_spans(window, fetched, ranges, self._room(settings))
        if spans:
            window.extend(spans)
        changes = Changes(self._archived, letters_of(settings))
        expire(window, ranges, changes)
        self._free.offer([(one.first, one.last) for one in spans if one.state is AVAILABLE])
        return self._settled(changes)

    def let_rest(
        self,
        fetched: LogRead,
        later: Sequence[NotDue],
        schedule: Schedule,
        now_ms: int,
        settings: DeliverySettings,
    ) -> int | None:
        """As in :class:`Order`. New records between them come into the window, and are
        available."""
        window = self._window
        schedule.rest(later, now_ms)
        end = window.end
        last = reach(window, fetched, later, self._room(settings))
        if last >= end:
            note_batches(window, fetched, last)
            window.extend(spans_up_to(window, fetched, last))
            schedule.rest([one for one in later if one.last >= end], now_ms)
            self._free.offer([(end, last)])
            window.pass_terminal()
        return next((max(one.first, window.end) for one in later if one.last >= window.end), None)

    def is_full(self, settings: DeliverySettings) -> bool:
        """As in :class:`Order`."""
        return self._too_many_rest(settings)

    def lost(self, first: int, last: int) -> None:
        """As in :class:`Order`."""
        lose(self._window, first, last)

    def start_moved(self) -> None:
        """Nothing: the window has forgotten the records."""

    def check_invariants(self) -> None:
        """Assert that every available record is found."""
        self._free.check_invariants()

    def _room(self, settings: DeliverySettings) -> int:
        """By how many offsets the window may grow.

        Every offset of it counts, as in Kafka: a finished record keeps its place until the start
        offset passes it, so one stuck record bounds how many are delivered after it. But if records
        rest, the first of them would keep all others from being delivered: then only records count
        that members hold or may get.
        """
        window = self._window
        counts = window.counts
        if settings.back_off is None and not settings.scheduled and not counts[DELAYED]:
            return settings.record_locks_max - (window.end - window.start)
        if self._too_many_rest(settings):
            return 0
        return settings.record_locks_max - counts[ACQUIRED] - counts[AVAILABLE]

    def _too_many_rest(self, settings: DeliverySettings) -> bool:
        """Whether so many records rest that the window must not grow."""
        window = self._window
        delayed = window.counts[DELAYED]
        if len(window) >= STRETCHES_MAX:
            return True
        if not settings.scheduled:
            return delayed >= DELAYED_MAX
        if delayed >= SCHEDULED_MAX or window.locks.count >= DELAYED_MAX:
            return True
        # Nothing is written for records that rest until their time, but much for what is finished
        # among them: a row for each run.
        among = min(delayed, window.finished)
        return among >= DELAYED_MAX and self._runs(among) >= 2 * DELAYED_MAX

    def _runs(self, among: int) -> int:
        """How many spans the window has, counted anew only when ``among``, which their number
        depends on, has changed by much."""
        about = among // COUNTED_EVERY
        if self._counted is None or self._counted[0] != about:
            self._counted = about, self._window.span_count()
        return self._counted[1]


def _new_ranges(
    window: Window, fetched: LogRead, size: int, *, strict: bool
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
    window: Window, fetched: LogRead, ranges: list[tuple[int, int]], request: Request
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
            spans.append(Span(end, first - 1, GONE, ABSENT, None))
        lock.add_range(first, last)
        spans.append(Span(first, last, _ACQUIRED, 1, lock))
        given.append(AcquiredRange(first, last, 1))
        end = last + 1
    if spans:
        window.extend(spans)
    return given
