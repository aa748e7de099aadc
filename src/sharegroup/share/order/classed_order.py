"""Records come by class: tenants take turns (``share.fairness``), or priorities go first
(``share.priority.header``).

All records of a tenant, or of a priority, are one *class*. :class:`Classes` has the waiting records
of each and says whose record is next: :mod:`sharegroup.share.order.tenants` by turns,
:mod:`sharegroup.share.order.priorities` by priority. The window has the states. Records come in no
order that could be relied upon: of one class about in the order of the log, also those that came
back. What else differs from the order of the log:

* **Records are loaded before they are delivered**, and far ahead: up to FAIR_WAITING_MAX records
  that nobody holds. So the window also holds records that were not delivered yet. Only acquired
  records count against the lock limit.
* **Each read begins at the next record** of the class that is next. Other classes get records from
  what was read, too, but do not get ahead of the classes whose records lie elsewhere by more than
  their rule allows. So a request may get fewer records than it asks for, and the next request gets
  records of another part of the log.
* **Turns are not durable.** After a reload all classes begin at once.
* **No throttling of poison records.** A record that fails is delivered alone or with others, as its
  class's turn comes.

Answers, ends of locks and an operator's decisions are those of the order of the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from sharegroup.model.dead_records import Cause
from sharegroup.model.limits import FAIR_ENTRIES_MAX, FAIR_WAITING_MAX
from sharegroup.share.acknowledge import Answer
from sharegroup.share.acquire import Request
from sharegroup.share.archived import Archived
from sharegroup.share.by_hand import Decided, Hand
from sharegroup.share.expiry import expire, letters_of, overlaps
from sharegroup.share.locks import Lock
from sharegroup.share.lost_records import discard, lose
from sharegroup.share.order.acquiring import acquire_offsets
from sharegroup.share.order.blocked import unheld
from sharegroup.share.order.log_order import LogOrder
from sharegroup.share.order.priorities import Priorities
from sharegroup.share.order.restored import unfinished
from sharegroup.share.order.tenants import Tenants
from sharegroup.share.order.waiting_records import WaitingRecords
from sharegroup.share.ranges import AcquiredRange, LogRead
from sharegroup.share.record_state import ACQUIRED, AVAILABLE, DELAYED
from sharegroup.share.resting import end_rest
from sharegroup.share.schedule import NotDue, Schedule, within
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import as_spans
from sharegroup.share.state_changes import Changes, StateChange
from sharegroup.share.window import Window


class _NoFree:
    """Instead of the ranges that the order of the log remembers: classes have what is available."""

    def offer(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Forget the ranges."""

    def first(self) -> int | None:
        """Nothing is known here."""
        return None

    def check_invariants(self) -> None:
        """Nothing can be wrong."""


class Classes(Protocol):
    """The classes of a share partition's records, and the rule that says whose is next."""

    @property
    def records(self) -> WaitingRecords:
        """The records of each class."""

    @property
    def next_ms(self) -> int | None:
        """When :meth:`come_ready` has something to do; None: never."""

    def configure(self, settings: DeliverySettings) -> None:
        """Obey the group's settings."""

    def load(self, offsets: Sequence[int], classes: Sequence[int], end: int) -> None:
        """As in :class:`WaitingRecords`."""

    def next_offset(self) -> int | None:
        """The first available record of the class that is next; None if no record may be taken."""

    def take(self, first: int, end: int, records_max: int, request: Request) -> list[int]:
        """Give a member up to ``records_max`` available records from ``first`` up to ``end``,
        exclusive. Returns their offsets, ascending."""

    def come_ready(self, now_ms: int) -> None:
        """Records may be taken that only had to wait until now."""

    def back(self, offsets: Sequence[int], *, rested: bool = False) -> None:
        """As in :class:`WaitingRecords`."""

    def pause(self, offsets: Sequence[int]) -> None:
        """As in :class:`WaitingRecords`."""

    def put_off(self, ranges: Iterable[tuple[int, int]]) -> None:
        """As in :class:`WaitingRecords`."""

    def gone(self, offsets: range) -> None:
        """As in :class:`WaitingRecords`."""

    def move_start(self) -> None:
        """As in :class:`WaitingRecords`."""

    def check_invariants(self, held: Iterable[int], resting: Iterable[int]) -> None:
        """Assert that what is known agrees with the window, which has these records held and
        resting below the end of what is loaded."""


def fair_order(window: Window, archived: Archived) -> ClassedOrder:
    """Tenants take turns."""
    return ClassedOrder(window, archived, Tenants(window))


def priority_order(window: Window, archived: Archived) -> ClassedOrder:
    """Higher priorities go first."""
    return ClassedOrder(window, archived, Priorities(window))


class ClassedOrder:
    """Records come by class. See the module, and :class:`~sharegroup.share.order.Order`."""

    needs_keys: Final = True
    in_order: Final = False
    reads_ahead: Final = True
    disorder: Final = None
    blocked_keys: Final = 0

    def __init__(self, window: Window, archived: Archived, classes: Classes) -> None:
        self._window = window
        self._archived = archived
        self._log = LogOrder(window, archived, _NoFree())
        self._classes = classes

    @property
    def loaded_end(self) -> int:
        """One past the last offset whose class is known: :meth:`load` goes on from here."""
        return self._classes.records.end

    @property
    def may_load(self) -> bool:
        """Whether more records may be loaded. What is in the window already, as after a restart,
        must be."""
        window, records = self._window, self._classes.records
        if records.end < window.end:
            return True
        waiting = window.counts[AVAILABLE] + window.counts[DELAYED]
        return waiting < FAIR_WAITING_MAX and records.entries < FAIR_ENTRIES_MAX

    @property
    def next_ms(self) -> int | None:
        """As in :class:`Order`."""
        return self._classes.next_ms

    def configure(self, settings: DeliverySettings) -> None:
        """As in :class:`Order`."""
        self._classes.configure(settings)

    def next_offset(self, member_id: str) -> int:
        """The next record of the class that is next, else where :meth:`load` goes on."""
        offset = self._classes.next_offset()
        return self._classes.records.end if offset is None else offset

    def has_room(self, settings: DeliverySettings, member_id: str) -> bool:
        """The lock limit is not reached, and there is a record that may be taken, or room
        to load more."""
        self.configure(settings)
        if self._window.counts[ACQUIRED] >= settings.record_locks_max:
            return False
        return self.may_load or self._classes.next_offset() is not None

    def offers(self, end: int, settings: DeliverySettings) -> bool:
        """All members may acquire the same records."""
        return self.has_room(settings, "") and self.next_offset("") < end

    # -- acquire ----------------------------------------------------------------------------

    def load(self, offsets: Sequence[int], hashes: Sequence[int], end: int) -> None:
        """As in :class:`Order`. Offsets without a record are archived."""
        window, classes = self._window, self._classes
        since = classes.records.end
        if end <= since:
            return
        skipped = bisect_left(offsets, since)
        offsets, hashes = offsets[skipped:], hashes[skipped:]
        known = min(end, window.end) - 1
        if since <= known:  # these offsets have states already
            offsets, hashes = unfinished(window, since, offsets, hashes, known)
        if window.end < end:
            new = offsets[bisect_left(offsets, window.end) :]
            window.extend(as_spans(new, window.end, end - 1))
        classes.load(offsets, hashes, end)
        if window.counts[DELAYED]:  # only restored records can rest: new ones were never delivered
            found = unheld(window, since, known)
            classes.put_off([(one.first, one.last) for one in found if one.state is DELAYED])
        window.pass_terminal()
        classes.move_start()

    def take(
        self, fetched: LogRead, request: Request, settings: DeliverySettings
    ) -> tuple[AcquiredRange, ...]:
        """Give the member up to ``records_max`` of the records that were read, in turns. They must
        be loaded (:meth:`load`). Ranges are not cut by ``batch_size``, and no log batch is taken to
        its end for its own sake.
        """
        window = self._window
        if fetched.missing:
            end = self._classes.records.end
            discard(window, [(at, min(to, end - 1)) for at, to in fetched.missing if at < end])
            self._classes.move_start()
        self.configure(settings)
        wanted = min(request.records_max, settings.record_locks_max - window.counts[ACQUIRED])
        end = min(fetched.end, self._classes.records.end)
        if wanted <= 0 or fetched.begin >= end:
            return ()
        taken = self._classes.take(fetched.begin, end, wanted, request)
        if not taken:
            return ()
        return tuple(acquire_offsets(window, taken, request.member_id, request.deadline_ms))

    # -- give back --------------------------------------------------------------------------

    def give_back(
        self,
        answers: Sequence[Answer],
        member_id: str,
        now_ms: int,
        settings: DeliverySettings,
    ) -> StateChange | None:
        """As in :class:`Order`: all acknowledgements, or none."""
        return self._settled(self._log.give_back(answers, member_id, now_ms, settings))

    def take_back(
        self, locks: list[Lock], now_ms: int, cause: Cause, settings: DeliverySettings
    ) -> StateChange | None:
        """As in :class:`Order`."""
        return self._settled(self._log.take_back(locks, now_ms, cause, settings))

    def come_due(self, pauses: list[Lock], now_ms: int) -> None:
        """As in :class:`Order`."""
        for first, last in end_rest(self._window, pauses):
            self._classes.back(range(first, last + 1), rested=True)
        self._classes.come_ready(now_ms)

    def is_blocked(self, offset: int, settings: DeliverySettings) -> bool:
        """As in :class:`Order`: no record is ever blocked."""
        return False

    def decide(self, first: int, last: int, hand: Hand, settings: DeliverySettings) -> Decided:
        """As in :class:`Order`; the classes of the records may be known or not."""
        decided = self._log.decide(first, last, hand, settings)
        self._settled(decided.change, by_hand=True)
        return decided

    def _settled(self, change: StateChange | None, *, by_hand: bool = False) -> StateChange | None:
        """Tell the classes what has become of the records in ``change``. ``by_hand``: a rest may
        have ended, too."""
        classes = self._classes
        if change is not None:
            for row in change.delayed:
                classes.pause(range(row.first, row.last + 1))
            for first, last, state, _ in change.batches:
                if state == AVAILABLE:
                    classes.back(range(first, last + 1), rested=by_hand)
                else:
                    classes.gone(range(first, last + 1))
        classes.move_start()
        return change

    def widened(self, first: int) -> None:
        """Nothing: the classes of these records are learnt later, as after a restart."""

    def expire(
        self, fetched: LogRead, ranges: Sequence[tuple[int, int]], settings: DeliverySettings
    ) -> StateChange | None:
        """As in :class:`Order`, of the records that are loaded."""
        loaded = [*overlaps([(self._window.start, self._classes.records.end - 1)], ranges)]
        if not loaded:
            return None
        changes = Changes(self._archived, letters_of(settings))
        expire(self._window, loaded, changes)
        return self._settled(changes.settled(self._window))

    def let_rest(
        self,
        fetched: LogRead,
        later: Sequence[NotDue],
        schedule: Schedule,
        now_ms: int,
        settings: DeliverySettings,
    ) -> int | None:
        """As in :class:`Order`, of the records that are loaded; nobody gets others."""
        self._classes.put_off(schedule.rest(within(later, self._classes.records.end), now_ms))
        return None

    def is_full(self, settings: DeliverySettings) -> bool:
        """As in :class:`Order`. Not if most of the records that wait do so for members."""
        return not self.may_load and 2 * self._window.counts[DELAYED] > FAIR_WAITING_MAX

    def lost(self, first: int, last: int) -> None:
        """As in :class:`Order`."""
        lose(self._window, first, last)
        if first <= self._classes.records.end <= last:
            self._classes.load((), (), last + 1)
        self._classes.move_start()

    def start_moved(self) -> None:
        """As in :class:`Order`."""
        self._classes.move_start()

    def check_invariants(self) -> None:
        """Assert that the classes agree with the window."""
        end = self._classes.records.end
        assert end <= self._window.end, "loaded past the window"
        by_state = {
            state: [
                offset
                for span in self._window
                if span.state is state
                for offset in range(span.first, span.last + 1)
            ]
            for state in (ACQUIRED, DELAYED)
        }
        assert not [offset for offset in by_state[ACQUIRED] if offset >= end]
        resting = [offset for offset in by_state[DELAYED] if offset < end]
        self._classes.check_invariants(by_state[ACQUIRED], resting)
