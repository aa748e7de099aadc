"""Change the statuses of records, and collect the state change that must be written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import repeat
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from sharegroup.model.limits import ARCHIVED_RANGES_MAX
from sharegroup.model.offsets import OffsetRange
from sharegroup.model.share_state import StateRow
from sharegroup.share.archived import Archived, ArchivedRange, Reason
from sharegroup.share.locks import Lock
from sharegroup.share.offset_codes import marked_runs
from sharegroup.share.record_state import (
    ACQUIRED,
    AVAILABLE,
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
    """What a verb makes of an acquired record."""

    state: RecordState
    number: int
    """The state as it is written."""
    finished: Status | None
    """The status after the verb, if the verb finishes the record: without a delivery count."""
    reason: Reason | None
    """Why the record is given up, if it is given up."""


_GIVEN_UP = {Verb.EXHAUST: Reason.DELIVERY_LIMIT, Verb.REJECT: Reason.REJECTED}
_OUTCOMES: Final = [
    _Outcome(
        state,
        int(state),
        Status(state, 0, None) if state in TERMINAL else None,
        _GIVEN_UP.get(verb),
    )
    for verb in Verb
    for state in [TRANSITIONS.get((ACQUIRED, verb), ACQUIRED)]
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


_Notes: TypeAlias = dict[int, tuple[int, int]]
"""By code: a number (of a state or a reason) and a delivery count."""


class Changes:
    """The records that one call changes, in the order of their offsets.

    Records that are given up go to ``archived`` at once.
    """

    def __init__(self, archived: Archived) -> None:
        self._archived = archived
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
    ) -> list[Stretch]:
        """Apply verbs to ``piece`` and note what must be written; returns the stretches that take
        its place.

        ``codes`` has one byte for all offsets or one for each. ``met`` has for each of these bytes
        the status and the verb; with None the status stays. RENEW moves a record to the lock
        ``renewed``.
        """
        if len(met) == 1:
            ((status, verb),) = met.values()
            return [self._moved_whole(piece.first, piece.last, status, verb, renewed)]
        status_of: dict[int, Status] = {}
        written: _Notes = {}
        given_up: _Notes = {}
        for code, (status, verb) in met.items():
            status_of[code], outcome = self._after(status, verb, renewed)
            if outcome is not None:
                written[code] = (outcome.number, status.delivery_count)
                if outcome.reason is not None:
                    given_up[code] = (outcome.reason, status.delivery_count)
        if written:
            self._note(piece.first, piece.last, codes, written)
        if given_up:
            self._give_up(piece.first, piece.last, codes, given_up)
        return recoded(piece.first, piece.last, codes, status_of)

    def _after(
        self, status: Status, verb: Verb | None, renewed: Lock | None
    ) -> tuple[Status, _Outcome | None]:
        """The status after ``verb``, and the outcome if it must be written."""
        if verb is None:
            return status, None
        _, count, _ = status
        if verb is RENEW:
            return Status(status.state, count, renewed), None
        outcome = _OUTCOMES[verb]
        return outcome.finished or Status(outcome.state, count, None), outcome

    def _moved_whole(
        self, first: int, last: int, status: Status, verb: Verb | None, renewed: Lock | None
    ) -> Stretch:
        """Apply ``verb`` to all of ``first`` … ``last``, which have one status."""
        after, outcome = self._after(status, verb, renewed)
        if outcome is not None:
            count = status.delivery_count
            self._write([(first, last, outcome.number, count)])
            if outcome.state is AVAILABLE:
                self._made_available += last - first + 1
                self.available.append((first, last))
            if outcome.reason is not None:
                self._archived.add([ArchivedRange(first, last, outcome.reason, count)])
        return Stretch(first, last, (after,))

    def _note(self, first: int, last: int, codes: bytes, written: _Notes) -> None:
        """Note what to write for the offsets with these codes: state and delivery count."""
        marks, values = _marked(codes, written)
        firsts, lasts, kinds = marked_runs(first, last, marks)
        states: Iterable[int]
        counts: Iterable[int]
        if len(values) == 1:
            states, counts = map(repeat, values[0])
        else:
            states = [values[kind - 1][0] for kind in kinds]
            counts = [values[kind - 1][1] for kind in kinds]
        self._write(list(zip(firsts, lasts, states, counts, strict=False)))
        for mark, (state, _) in enumerate(values, start=1):
            if state == AVAILABLE:
                self._made_available += marks.count(mark)
                self.available.append((first + marks.index(mark), first + marks.rindex(mark)))

    def _give_up(self, first: int, last: int, codes: bytes, why: _Notes) -> None:
        """Tell ``archived`` the reason and delivery count of the offsets with these codes."""
        marks, values = _marked(codes, why)
        for mark, (reason, _) in enumerate(values, start=1):
            self._archived.count(Reason(reason), marks.count(mark))
        recent = [column[-ARCHIVED_RANGES_MAX:] for column in marked_runs(first, last, marks)]
        self._archived.remember(
            ArchivedRange(at, until, Reason(values[mark - 1][0]), values[mark - 1][1])
            for at, until, mark in zip(*recent, strict=True)
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
        )


def _marked(codes: bytes, notes: _Notes) -> tuple[bytes, list[tuple[int, int]]]:
    """For each of ``codes`` the position of its note in the returned list, from 1 on; 0: the code
    has no note."""
    values = list(dict.fromkeys(notes.values()))
    table = bytearray(256)
    for code, value in notes.items():
        table[code] = values.index(value) + 1
    return codes.translate(table), values
