"""Change the statuses of records, and collect the state change that must be written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import repeat
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, TypeVar

from sharegroup.model.dead_records import Cause, DeadRecords
from sharegroup.model.limits import ARCHIVED_RANGES_MAX
from sharegroup.model.offsets import OffsetRange
from sharegroup.model.pending_acks import PendingAck, TransactionMark
from sharegroup.model.share_state import DelayedRow, StateRow
from sharegroup.share.archived import Archived, ArchivedRange, Reason
from sharegroup.share.locks import Lock
from sharegroup.share.offset_codes import marked_runs
from sharegroup.share.pauses import Pauses
from sharegroup.share.record_state import (
    ACQUIRED,
    AVAILABLE,
    DELAY,
    DELAYED,
    DUE,
    RENEW,
    TERMINAL,
    TRANSITIONS,
    RecordState,
    Verb,
)
from sharegroup.share.spans import Status
from sharegroup.share.stretches import Stretch, recoded
from sharegroup.share.window import Window

_LAST = itemgetter(1)


class _Outcome(NamedTuple):
    """What a verb makes of an acquired record; of EXPIRE, of a record that nobody holds."""

    state: RecordState
    number: int
    """The state as it is written: of a delayed record AVAILABLE, since Kafka knows no other."""
    finished: Status | None
    """The status after the verb, if the verb finishes the record: without a delivery count."""
    reason: Reason | None
    """Why the record is given up, if it is given up."""


_GIVEN_UP = {
    Verb.EXHAUST: Reason.DELIVERY_LIMIT,
    Verb.REJECT: Reason.REJECTED,
    Verb.EXPIRE: Reason.EXPIRED,
}
_OUTCOMES: Final = [
    _Outcome(
        state,
        int(AVAILABLE if state is DELAYED else state),
        Status(state, 0, None) if state in TERMINAL else None,
        _GIVEN_UP.get(verb),
    )
    for verb in Verb
    for state in [TRANSITIONS.get((AVAILABLE if verb is Verb.EXPIRE else ACQUIRED, verb), ACQUIRED)]
]
"""By the number of the verb. Verbs that do not apply to acquired records have an entry, too; no
caller uses it."""


class StateChange(NamedTuple):
    """A change that the caller must make durable before it answers, with counts about it."""

    start_offset: int
    """SPSO after the change."""
    delivery_complete_count: int
    """Finished offsets from ``start_offset`` on."""
    batches: tuple[StateRow, ...]
    """What changed at or above ``start_offset``: sorted, disjoint, equal neighbours joined."""
    made_available: int = 0
    """Records that may be delivered again: waiting fetches should be tried."""
    expired: int = 0
    """Records taken back from their holder (lock expiry, end of a session)."""
    late: int = 0
    """Order per key: how many records the member acknowledged without holding them, or accepted out
    of order. The other acknowledgements were applied; the answer must report these."""
    lowers: bool = False
    """Delivery counts may be below the stored counts: an operator has released a record."""
    gone_back: tuple[OffsetRange, ...] = ()
    """Order per key: accepted records that went back because the same request releases an earlier
    record of their key. That is no error."""
    delayed: tuple[DelayedRow, ...] = ()
    """Of the records in ``batches``, those that must not be delivered again before they are due."""
    dead: tuple[DeadRecords, ...] = ()
    """Records that failed for good and must become dead letters; empty unless the group has dead
    letters. The caller adds when they failed."""
    pending: tuple[PendingAck, ...] = ()
    """Acknowledgements that wait for a transaction from now on."""
    ended: tuple[TransactionMark, ...] = ()
    """Transactions whose acknowledgements wait no longer."""


NOT_DELAYED: Final = -1


class _Written(NamedTuple):
    """What is written of records."""

    state: int
    delivery_count: int
    due_ms: int
    """NOT_DELAYED: at once."""


_Notes: TypeAlias = dict[int, _Written]
"""By code."""


class _GivenUp(NamedTuple):
    """What is remembered of records that are given up."""

    reason: Reason
    delivery_count: int
    cause: Cause
    member_id: str


class Changes:
    """The records that one call changes, in the order of their offsets.

    Records that are given up go to ``archived`` at once.

    Args:
        dead: with it, the records that are given up are noted as :attr:`StateChange.dead`, too.
            It is the cause of records that are given up at the delivery limit.
        pauses: begins the pauses of records under DELAY.
    """

    def __init__(
        self, archived: Archived, dead: Cause | None = None, pauses: Pauses | None = None
    ) -> None:
        self._archived = archived
        self._pauses = pauses
        self._delayed: list[DelayedRow] = []
        self._cause = dead
        self._dead: list[DeadRecords] = []
        self.batches: list[StateRow] = []
        self.available: list[tuple[int, int]] = []
        """Ranges that hold all records that became available."""
        self._made_available = 0
        self.expired = 0

    def moved(
        self,
        piece: Stretch,
        codes: bytes,
        met: Mapping[int, tuple[Status, Verb | None]],
        renewed: Lock | None = None,
        pause_ms: int | None = None,
    ) -> list[Stretch]:
        """Apply verbs to ``piece`` and note what must be written; returns the stretches that take
        its place.

        ``codes`` has one byte for all offsets or one for each. ``met`` has for each of these bytes
        the status and the verb; with None the status stays. RENEW moves a record to the lock
        ``renewed``. ``pause_ms``: how long records under DELAY rest, if not as the group's back-off
        says.
        """
        first, last = piece.first, piece.last
        if len(met) == 1:
            ((status, verb),) = met.values()
            lock = renewed if verb is not DELAY else self._pause(first, last, status, pause_ms)
            return [self._moved_whole(first, last, status, verb, lock)]
        status_of: dict[int, Status] = {}
        written: _Notes = {}
        given_up: dict[int, _GivenUp] = {}
        for code, (status, verb) in met.items():
            lock = renewed if verb is not DELAY else self._pause(first, last, status, pause_ms)
            status_of[code], outcome = self._after(status, verb, lock)
            if outcome is not None:
                due_ms = lock.deadline_ms if verb is DELAY and lock else NOT_DELAYED
                written[code] = _Written(outcome.number, status.delivery_count, due_ms)
                if outcome.reason is not None:
                    given_up[code] = self._given_up(status, outcome.reason)
        if written:
            self._note(first, last, codes, written)
        if given_up:
            self._give_up(first, last, codes, given_up)
        return recoded(first, last, codes, status_of)

    def _pause(self, first: int, last: int, status: Status, pause_ms: int | None) -> Lock:
        assert self._pauses is not None, "records are delayed by calls that may delay them"
        return self._pauses.begin(first, last, status.delivery_count, pause_ms)

    def _after(
        self, status: Status, verb: Verb | None, lock: Lock | None
    ) -> tuple[Status, _Outcome | None]:
        """The status after ``verb``, and the outcome if it must be written. ``lock``: the lock that
        is renewed, or the pause."""
        if verb is None:
            return status, None
        _, count, _ = status
        if verb is RENEW:
            return Status(status.state, count, lock), None
        if verb is DUE:  # durable state knows the time: nothing need be written
            return Status(AVAILABLE, count, None), None
        outcome = _OUTCOMES[verb]
        kept = lock if verb is DELAY else None
        return outcome.finished or Status(outcome.state, count, kept), outcome

    def _moved_whole(
        self, first: int, last: int, status: Status, verb: Verb | None, lock: Lock | None
    ) -> Stretch:
        """Apply ``verb`` to all of ``first`` … ``last``, which have one status."""
        after, outcome = self._after(status, verb, lock)
        if outcome is not None:
            count = status.delivery_count
            self._write([(first, last, outcome.number, count)])
            if verb is DELAY and lock is not None:
                self._delayed.append(DelayedRow(first, last, count, lock.deadline_ms))
            if outcome.state is AVAILABLE:
                self._made_available += last - first + 1
                self.available.append((first, last))
            if outcome.reason is not None:
                self._archived.add([ArchivedRange(first, last, outcome.reason, count)])
                self._note_dead([(first, last, self._given_up(status, outcome.reason))])
        return Stretch(first, last, (after,))

    def _given_up(self, status: Status, reason: Reason) -> _GivenUp:
        cause = self._cause or Cause.RELEASED
        if reason is Reason.REJECTED and cause is not Cause.OPERATOR:
            cause = Cause.REJECTED
        member_id = "" if status.lock is None else status.lock.member_id
        return _GivenUp(reason, status.delivery_count, cause, member_id)

    def _note_dead(self, runs: Iterable[tuple[int, int, _GivenUp]]) -> None:
        if self._cause is not None:
            self._dead += [
                DeadRecords(first, last, one.delivery_count, one.cause, one.member_id)
                for first, last, one in runs
            ]

    def _note(self, first: int, last: int, codes: bytes, written: _Notes) -> None:
        """Note what to write for the offsets with these codes: state and delivery count."""
        marks, values = _marked(codes, written)
        firsts, lasts, kinds = marked_runs(first, last, marks)
        states: Iterable[int]
        counts: Iterable[int]
        if len(values) == 1:
            states, counts = map(repeat, values[0][:2])
        else:
            states = [values[kind - 1].state for kind in kinds]
            counts = [values[kind - 1].delivery_count for kind in kinds]
        self._write(list(zip(firsts, lasts, states, counts, strict=False)))
        for mark, (state, _, due_ms) in enumerate(values, start=1):
            if state == AVAILABLE and due_ms == NOT_DELAYED:
                self._made_available += marks.count(mark)
                self.available.append((first + marks.index(mark), first + marks.rindex(mark)))
        if any(one.due_ms != NOT_DELAYED for one in values):
            self._delayed += [
                DelayedRow(at, until, one.delivery_count, one.due_ms)
                for at, until, kind in zip(firsts, lasts, kinds, strict=True)
                if (one := values[kind - 1]).due_ms != NOT_DELAYED
            ]

    def _give_up(self, first: int, last: int, codes: bytes, why: Mapping[int, _GivenUp]) -> None:
        """Tell ``archived`` the reason and delivery count of the offsets with these codes."""
        marks, values = _marked(codes, why)
        for mark, one in enumerate(values, start=1):
            self._archived.count(one.reason, marks.count(mark))
        runs = marked_runs(first, last, marks)
        recent = [column[-ARCHIVED_RANGES_MAX:] for column in runs]
        self._archived.remember(
            ArchivedRange(at, until, values[mark - 1].reason, values[mark - 1].delivery_count)
            for at, until, mark in zip(*recent, strict=True)
        )
        self._note_dead(
            (at, until, values[mark - 1]) for at, until, mark in zip(*runs, strict=True)
        )

    def _write(self, batches: list[StateRow]) -> None:
        """Note state batches. If the first one continues the last batch noted, both are joined."""
        if self.batches:
            first, last, state, count = self.batches[-1]
            if (last + 1, state, count) == (batches[0][0], *batches[0][2:]):
                batches[0] = (first, batches[0][1], state, count)
                self.batches.pop()
        self.batches += batches

    def settled(self, window: Window, *, moved: bool = False) -> StateChange | None:
        """Advance the start of ``window`` over finished offsets; returns the change, if any."""
        moved = window.pass_terminal() or moved
        if not moved and not self.batches:
            return None
        batches = self.batches
        if batches and batches[0][1] < window.start:
            batches = batches[bisect_left(batches, window.start, key=_LAST) :]
        return StateChange(
            start_offset=window.start,
            delivery_complete_count=window.finished,
            batches=tuple(batches),
            made_available=self._made_available,
            expired=self.expired,
            delayed=tuple(self._delayed),
            dead=tuple(self._dead),
        )


_Note = TypeVar("_Note", bound=tuple[object, ...])


def _marked(codes: bytes, notes: Mapping[int, _Note]) -> tuple[bytes, list[_Note]]:
    """For each of ``codes`` the position of its note in the returned list, from 1 on; 0: the code
    has no note."""
    values = list(dict.fromkeys(notes.values()))
    table = bytearray(256)
    for code, value in notes.items():
        table[code] = values.index(value) + 1
    return codes.translate(table), values
