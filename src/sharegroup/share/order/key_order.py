"""Records in the order of each key (``share.ordering=key``).

Two rules hold always: no record is accepted while an earlier record of its key is unfinished, and
no two members hold records of one key. :mod:`sharegroup.share.order.key_queues` has the queues of
the keys, the window has the states. What differs from the order of the log:

* **Records are loaded before they are delivered.** The window also holds records that wait for
  earlier records of their key: AVAILABLE, not delivered yet. Only acquired records count against
  the lock limit, so a key that stalls holds back no other key. At most about :data:`WAITING_MAX`
  records wait.
* **A release or an expiry takes back the later records of its key.** Their delivery does not count:
  only the record that failed keeps its delivery.
* **An accept out of order is no accept.** The record is taken back, and is delivered again after
  the earlier record. Its delivery does not count either: at the delivery limit, a release would
  archive a record that its consumer has processed.
* **An acknowledgement may apply in part.** A member no longer holds the records that were taken
  back from it: to acknowledge them has no effect, and the rest of the request is applied. The
  answer reports such records, and records accepted out of order. It does not report an accepted
  record if the same request releases an earlier record of its key: the member expects it back.
* **No throttling of poison records.** A record that fails brings no other record nearer to the
  delivery limit.

A record that is rejected, or that fails at the delivery limit, is archived, and its key goes on.
A record that rests keeps back the later records of its key.
With ``share.ordering.on.failure=block`` a record that fails at the limit is *blocked* instead: it
stays available, but is delivered only when an operator decides so
(:meth:`KeyOrder.decide`). Durable state knows a blocked record by its delivery count
only, so an operator's release takes back the delivery that reached the limit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from sharegroup.model.dead_records import Cause
from sharegroup.model.errors import InvalidRecordState
from sharegroup.model.share_state import DelayedRow
from sharegroup.share.acknowledge import SILENT, Answer
from sharegroup.share.acquire import Request
from sharegroup.share.applying import AnsweredPiece, apply, types_of
from sharegroup.share.archived import Archived
from sharegroup.share.by_hand import Decided, Hand
from sharegroup.share.expiry import expire, letters_of, overlaps
from sharegroup.share.locks import Lock
from sharegroup.share.lost_records import discard, lose
from sharegroup.share.order.acquiring import acquire_offsets
from sharegroup.share.order.blocked import Blocked, unheld
from sharegroup.share.order.key_queues import KeyQueues
from sharegroup.share.order.offsets_by_verb import (
    TAKE_BACK,
    as_answers,
    said_pieces,
    sort_all,
    sort_ended,
    sort_out,
)
from sharegroup.share.order.order_violations import Disorder
from sharegroup.share.order.pace import Pace
from sharegroup.share.order.restored import unfinished
from sharegroup.share.pauses import Pauses
from sharegroup.share.ranges import AcquiredRange, LogRead, apart
from sharegroup.share.record_state import ACQUIRED, AVAILABLE, DELAYED, Verb
from sharegroup.share.release import put_off, regions
from sharegroup.share.resting import alike, end_rest, rest
from sharegroup.share.schedule import NotDue, Schedule, within
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import Status, as_spans
from sharegroup.share.state_changes import Changes, StateChange
from sharegroup.share.stretches import Stretch
from sharegroup.share.stretches import clipped as cut_out
from sharegroup.share.window import Window

WAITING_MAX: Final = 100_000
"""No more of the log is loaded while this many loaded records are held by nobody."""
SOFT_LIMIT: Final = 4
"""A member may get up to this many times the records that it asks for: finding few records costs as
much as finding many."""
RELEASED_MAX: Final = 4_096
"""About how many records one call takes back from ended locks, which takes some milliseconds."""


class KeyOrder:
    """The order of each key. See the module, and :class:`~sharegroup.share.order.Order`."""

    needs_keys: Final = True
    in_order: Final = True
    reads_ahead: Final = False
    next_ms: Final = None

    def __init__(self, window: Window, archived: Archived) -> None:
        self.disorder: Final = Disorder()
        self._window = window
        self._archived = archived
        self._queues = KeyQueues(window.start, 1)
        self._pace = Pace()
        self._blocked = Blocked(window, self._queues)

    @property
    def loaded_end(self) -> int:
        """One past the last offset whose key is known: :meth:`load` goes on from here."""
        return self._queues.end

    @property
    def waiting(self) -> int:
        """Loaded records that nobody holds."""
        return len(self._queues) - self._window.counts[ACQUIRED]

    @property
    def blocked_keys(self) -> int:
        """Loaded keys with a blocked record."""
        return self._queues.blocked_keys

    @property
    def may_load(self) -> bool:
        """Whether more records may be loaded."""
        return self.waiting < WAITING_MAX

    def next_offset(self, member_id: str) -> int:
        """The lowest record that the member may get, else where :meth:`load` goes on."""
        offset = self._queues.next_offset(member_id)
        return self._queues.end if offset is None else offset

    def has_room(self, settings: DeliverySettings, member_id: str) -> bool:
        """The lock limit is not reached, and there is a record for the member, or room to load
        more."""
        self.configure(settings)
        if self._window.counts[ACQUIRED] >= settings.record_locks_max:
            return False
        return self.may_load or self._queues.next_offset(member_id) is not None

    def offers(self, end: int, settings: DeliverySettings) -> bool:
        """As in :class:`Order`. True also where only a look at each member could tell: the holder
        of a key may get records that others must wait for."""
        return self.waiting > 0 or self.loaded_end < end

    # -- acquire ----------------------------------------------------------------------------

    def load(self, offsets: Sequence[int], hashes: Sequence[int], end: int) -> None:
        """Take in the records that the log has from :attr:`loaded_end` up to ``end``, exclusive.
        Every other offset in this range has no record and is archived.

        Args:
            offsets: of the records, ascending; offsets below :attr:`loaded_end` are ignored.
            hashes: of the records' keys.
        """
        window, queues = self._window, self._queues
        since = queues.end
        if end <= since:
            return
        skipped = bisect_left(offsets, since)
        offsets, hashes = offsets[skipped:], hashes[skipped:]
        if since < window.end:  # these offsets have states already
            offsets, hashes = unfinished(window, since, offsets, hashes, min(end, window.end) - 1)
        known = min(end, window.end) - 1
        if window.end < end:
            new = offsets[bisect_left(offsets, window.end) :]
            window.extend(as_spans(new, window.end, end - 1))
        queues.load(offsets, hashes, end)
        # Only restored records can be at the limit, or rest: new ones were never delivered.
        self._blocked.look(since, known)
        for span in list(unheld(window, since, known)) if window.counts[DELAYED] else ():
            if span.state is DELAYED:
                for offset in range(span.first, span.last + 1):
                    queues.rest(offset)
        window.pass_terminal()

    def take(
        self, fetched: LogRead, request: Request, settings: DeliverySettings
    ) -> tuple[AcquiredRange, ...]:
        """Give the member up to ``records_max`` of the records that were read. They must be loaded
        (:meth:`load`), and the order of their keys must allow it.

        Ranges are not cut by ``batch_size``. Unless ``strict``, the log batch that holds the last
        record is taken to its end; in total at most :data:`SOFT_LIMIT` times ``records_max``
        records.
        """
        window, queues, member_id = self._window, self._queues, request.member_id
        if fetched.missing:
            self._discard(fetched.missing)
        self.configure(settings)
        room = settings.record_locks_max - window.counts[ACQUIRED]
        wanted = min(request.records_max, room)
        first = queues.next_offset(member_id)
        # The member's next record lies below the data: it became free since the read began, and
        # `take` would give it, although it was not read. It is for the next read.
        if wanted <= 0 or first is None or first < fetched.begin:
            return ()
        taken = queues.take(member_id, fetched.end - 1, wanted)
        if len(taken) == request.records_max and not request.strict:
            # To the end of this log batch: finding few of its records costs as much as many.
            last = fetched.lasts[bisect_left(fetched.lasts, taken[-1])]
            more = min(SOFT_LIMIT * request.records_max, room) - wanted
            taken = sorted(taken + queues.take(member_id, last, more))
        if not taken:
            return ()
        return tuple(acquire_offsets(window, taken, member_id, request.deadline_ms))

    # -- give back --------------------------------------------------------------------------

    def give_back(
        self,
        answers: Sequence[Answer],
        member_id: str,
        now_ms: int,
        settings: DeliverySettings,
    ) -> StateChange | None:
        """Apply the acknowledgements of a member for records that it holds.

        In the result, ``late`` counts acknowledged records that the member does not hold, and
        records accepted out of order. An accepted record is in ``gone_back`` instead if the same
        request releases an earlier record of its key.

        Raises:
            InvalidRecordState: the member holds none of the records.
        """
        window, queues = self._window, self._queues
        self.configure(settings)
        said: list[list[int]] = [[] for _ in range(SILENT + 1)]
        limit = settings.delivery_count_limit
        pieces = [
            [
                sort_out(stretch, types_of(one, stretch), member_id, limit, said)
                for stretch in window.pieces(one.first, one.last)
            ]
            for one in answers
        ]
        sort_all(said)
        stuck = self._blocked.kept(said)
        late, said[SILENT] = len(said[SILENT]), []
        self.disorder.late += late
        # These are finished first, so that they do not make later accepts of this request early.
        queues.finish(chain(said[Verb.GAP], said[Verb.REJECT], said[Verb.EXHAUST]))
        early = queues.accept(said[Verb.ACCEPT])
        finished = len(said[Verb.ACCEPT]) - len(early)
        # Before records are given back: from then on their keys are failing already.
        failed = queues.failing(said[Verb.RELEASE])
        refused = self._put_back(said, early)
        self._pace.answered(finished, failed)
        queues.width = self._pace.most
        if stuck or said[TAKE_BACK]:  # else what was said is what is done
            pieces = list(self._pieces(said))
        changes = Changes(self._archived, Cause.RELEASED if settings.dead_letters else None)
        apply(window, pieces, member_id, now_ms + settings.lock_ms, changes)
        asked = [(one.first, one.last, one.pause_ms) for one in answers if one.pause_ms is not None]
        delayed = self._rest(said[Verb.RELEASE], stuck, now_ms, settings, asked)
        change = self._settled(changes)
        self._blocked.failed(stuck.intersection(said[Verb.RELEASE]))
        if late and change is None:
            raise InvalidRecordState(f"{late} records are not acquired by the member.")
        gone_back = apart(early, refused)
        return change and change._replace(
            late=late + len(refused), gone_back=gone_back, delayed=delayed
        )

    def _rest(
        self,
        released: Sequence[int],
        stuck: set[int],
        now_ms: int,
        settings: DeliverySettings,
        asked: Sequence[tuple[int, int, int]] = (),
    ) -> tuple[DelayedRow, ...]:
        """Let ``released`` records rest, but for those that are stuck, and their keys with them.
        Records that went back with another one do not rest: nothing has failed there. ``asked``: as
        in :func:`alike`."""
        if settings.back_off is None and not asked:
            return ()
        rows: list[DelayedRow] = []
        pauses = Pauses(self._window.locks, settings.back_off, now_ms)
        resting = [offset for offset in released if offset not in stuck] if stuck else released
        for first, last, pause_ms in alike(resting, asked, backs_off=settings.back_off is not None):
            rows += rest(self._window, first, last, pauses, pause_ms)
            for offset in range(first, last + 1):
                self._queues.rest(offset)
        return tuple(rows)

    def _put_back(self, said: list[list[int]], early: list[int]) -> set[int]:
        """Put records that are released, or accepted too ``early``, back in line, each with the
        later held records of its key. The early and the later records move in ``said`` to
        TAKE_BACK. Returns the early records that follow no released record of their key."""
        back: set[int] = set()
        refused = set(early)
        # Ascending: the first record of a key takes the later ones with it.
        for offset in sorted(said[Verb.RELEASE] + early) if early else said[Verb.RELEASE]:
            if offset not in back:
                later = self._queues.give_back(offset)
                back.update(later)
                if offset not in refused:
                    refused.difference_update(later)
        self.disorder.taken_back += len(back)
        self.disorder.out_of_order += len(refused)
        back.update(early)
        if back:
            for verb in (Verb.ACCEPT, Verb.RELEASE, Verb.RENEW):
                said[verb] = [offset for offset in said[verb] if offset not in back]
            said[TAKE_BACK] = sorted(back)
        return refused

    def _pieces(self, said: list[list[int]]) -> Iterator[list[AnsweredPiece]]:
        """``said`` as :func:`apply` takes it: for each verb, by its number, ascending offsets."""
        for one in as_answers(said):
            yield said_pieces(self._window.pieces(one.first, one.last), one)

    def take_back(
        self, locks: list[Lock], now_ms: int, cause: Cause, settings: DeliverySettings
    ) -> StateChange | None:
        """As in :class:`Order`."""
        self.configure(settings)
        window, ended = self._window, set(locks)
        held = sum(lock.held for lock in locks)
        said: list[list[int]] = [[] for _ in range(SILENT + 1)]
        left: int | None = None
        for piece in self._parts_held(locks):
            if len(said[Verb.RELEASE]) + len(said[Verb.EXHAUST]) >= RELEASED_MAX:
                left = piece.first
                break
            sort_ended(piece, ended, settings.delivery_count_limit, said)
        sort_all(said)
        stuck = self._blocked.kept(said)
        # Exhausted records are given back like released ones, in one order: an exhausted record
        # after another of its key goes back uncharged. The other exhausted records are archived.
        exhausted = set(said[Verb.EXHAUST])
        said[Verb.RELEASE] = sorted(said[Verb.RELEASE] + said[Verb.EXHAUST])
        self._put_back(said, [])
        said[Verb.EXHAUST] = [one for one in said[Verb.RELEASE] if one in exhausted]
        said[Verb.RELEASE] = [one for one in said[Verb.RELEASE] if one not in exhausted]
        self._queues.finish(said[Verb.EXHAUST])
        changes = Changes(self._archived, cause if settings.dead_letters else None)
        apply(window, self._pieces(said), "", 0, changes)
        delayed = self._rest(said[Verb.RELEASE], stuck, now_ms, settings)
        self._blocked.failed(stuck.intersection(said[Verb.RELEASE]))
        if left is not None:
            put_off(window, ended, left, now_ms)
        changes.expired = held - sum(lock.held for lock in locks)
        for member_id in {lock.member_id for lock in ended}:
            if not window.locks.of_member(member_id):
                self._queues.forget_member(member_id)
        change = self._settled(changes)
        return change and change._replace(delayed=delayed)

    def come_due(self, pauses: list[Lock], now_ms: int) -> None:
        """As in :class:`Order`: the records' keys go on."""
        for first, last in end_rest(self._window, pauses):
            for offset in range(first, last + 1):
                self._queues.wake(offset)

    def _parts_held(self, locks: list[Lock]) -> Iterator[Stretch]:
        """The pieces of the window in which ``locks`` may hold records, cut to RELEASED_MAX."""
        for first, last in regions(self._window, locks) if locks else ():
            for piece in self._window.pieces(first, last):
                for at in range(piece.first, piece.last + 1, RELEASED_MAX):
                    yield cut_out(piece, at, at + RELEASED_MAX - 1)

    # -- blocked records --------------------------------------------------------------------

    def configure(self, settings: DeliverySettings) -> None:
        """Obey the group's settings of order."""
        self._queues.key_max = settings.key_max
        self._blocked.configure(settings)

    def is_blocked(self, offset: int, settings: DeliverySettings) -> bool:
        """Whether this record, whose key is loaded or not, waits for an operator."""
        return self._blocked.has(offset, settings)

    def decide(self, first: int, last: int, hand: Hand, settings: DeliverySettings) -> Decided:
        """As in :class:`Order`; the keys of the records may be loaded or not. With a record that is
        released the later held records of its key go back."""
        self.configure(settings)
        window, queues = self._window, self._queues
        if first < queues.end:
            last = min(last, first + RELEASED_MAX - 1)
        pieces = window.pieces(first, last)
        hand.look(pieces)
        if hand.verb is Verb.RENEW:
            hand.extend(window, pieces)
            return hand.done(None, last + 1)
        changes = Changes(self._archived, Cause.OPERATOR if settings.dead_letters else None)
        if hand.verb is Verb.RELEASE:
            self._release_by_hand(pieces, hand, changes)
        else:
            queues.finish(range(first, min(last + 1, queues.end)))
            apply(window, [hand.answered(pieces)], "", 0, changes)
        change = self._settled(changes)
        return hand.done(change, last + 1)

    def _release_by_hand(self, pieces: list[Stretch], hand: Hand, changes: Changes) -> None:
        said: list[list[int]] = [[] for _ in range(SILENT + 1)]
        for piece in pieces:
            for span in piece.spans():
                if hand.concerns(Status(*span[2:])):
                    said[Verb.RELEASE] += range(span.first, span.last + 1)
        kept_back = [one for one in said[Verb.RELEASE] if one < self._queues.end]
        self._put_back(said, [])
        answers = [
            hand.released(self._window.pieces(one.first, one.last), one) for one in as_answers(said)
        ]
        apply(self._window, answers, "", 0, changes)
        for offset in kept_back:
            self._queues.let_go(offset)

    def _settled(self, changes: Changes) -> StateChange | None:
        change = changes.settled(self._window)
        if self._window.start > self._queues.end:  # past records that an operator has finished
            self._queues.move_start(self._window.start)
        return change

    def widened(self, first: int) -> None:
        """Nothing: the keys of these records are loaded later, as after a restart."""

    def expire(
        self, fetched: LogRead, ranges: Sequence[tuple[int, int]], settings: DeliverySettings
    ) -> StateChange | None:
        """As in :class:`Order`, of the records that are loaded. Their keys go on."""
        self.configure(settings)
        window, queues = self._window, self._queues
        loaded = [*overlaps([(window.start, queues.end - 1)], ranges)]
        if not loaded:
            return None
        free = [(one.first, one.last) for one in unheld(window, loaded[0][0], loaded[-1][1])]
        for first, last in overlaps(free, loaded):
            queues.finish(range(first, last + 1))
        changes = Changes(self._archived, letters_of(settings))
        expire(window, loaded, changes)
        return self._settled(changes)

    def let_rest(
        self,
        fetched: LogRead,
        later: Sequence[NotDue],
        schedule: Schedule,
        now_ms: int,
        settings: DeliverySettings,
    ) -> int | None:
        """As in :class:`Order`, of the records that are loaded; nobody gets others. Their keys
        wait."""
        for first, last in schedule.rest(within(later, self._queues.end), now_ms):
            for offset in range(first, last + 1):
                self._queues.rest(offset)
        return None

    def is_full(self, settings: DeliverySettings) -> bool:
        """As in :class:`Order`. Not if most of the records that wait do so for members."""
        return not self.may_load and 2 * self._window.counts[DELAYED] > WAITING_MAX

    def lost(self, first: int, last: int) -> None:
        """As in :class:`Order`."""
        self._forget(first, last)
        lose(self._window, first, last)
        if first <= self._queues.end <= last:
            self._queues.load((), (), last + 1)

    def start_moved(self) -> None:
        """As in :class:`Order`."""
        self._queues.move_start(self._window.start)

    def _discard(self, missing: list[tuple[int, int]]) -> None:
        """Archive loaded records in ``missing``, ranges that are no longer in the log or belong to
        aborted transactions."""
        end = self._queues.end
        known = [(first, min(last, end - 1)) for first, last in missing if first < end]
        for first, last in known:
            self._forget(first, last)
        discard(self._window, known)

    def _forget(self, first: int, last: int) -> None:
        """Take available records in ``first`` … ``last`` out of the order. The caller archives them
        after that: here they are found by being available."""
        for at, until, *_ in list(unheld(self._window, first, last)):
            self._queues.finish(range(at, until + 1))

    def check_invariants(self) -> None:
        """Assert that the queues of the keys agree with the window."""
        self._queues.check_invariants()
        end = self._queues.end
        assert end <= self._window.end, "loaded past the window"
        holders: dict[int, str | None] = {
            offset: None if span.lock is None else span.lock.member_id or None
            for span in self._window
            if span.state in (AVAILABLE, ACQUIRED, DELAYED)
            for offset in range(span.first, span.last + 1)
        }
        assert not [offset for offset, one in holders.items() if offset >= end and one is not None]
        loaded = {offset: one for offset, one in holders.items() if offset < end}
        assert loaded == self._queues.holders(), "order and window differ"
