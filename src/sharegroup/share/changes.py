"""Change the statuses of records, and collect the state change that must be written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from sharegroup.model.limits import ARCHIVED_RANGES_MAX
from sharegroup.model.share_state import StateBatch
from sharegroup.share.archived import Archived, ArchivedRange, Reason
from sharegroup.share.codes import runs
from sharegroup.share.locks import Lock
from sharegroup.share.record_state import TERMINAL, TRANSITIONS, RecordState, Verb
from sharegroup.share.spans import Status
from sharegroup.share.stretches import Stretch, recoded
from sharegroup.share.window import Window

_LAST = itemgetter(1)


class _Outcome(NamedTuple):
    """What a verb makes of an acquired record."""

    state: RecordState
    finished: bool
    reason: Reason | None
    """Why it is given up, if it is."""


_GIVEN_UP = {Verb.EXHAUST: Reason.DELIVERY_LIMIT, Verb.REJECT: Reason.REJECTED}
_OUTCOMES: Final = [
    _Outcome(state, state in TERMINAL, _GIVEN_UP.get(verb))
    for verb in Verb
    for state in [TRANSITIONS.get((RecordState.ACQUIRED, verb), RecordState.ACQUIRED)]
]
"""By verb. Verbs that no acquired record meets leave it acquired, and nothing passes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """A change that the caller must make durable before it answers, with counts about it."""

    start_offset: int
    """SPSO after the change."""
    delivery_complete_count: int
    """Finished offsets from ``start_offset`` on."""
    batches: tuple[StateBatch, ...]
    """What changed at or above ``start_offset``: sorted, disjoint, equal neighbours joined."""
    made_available: int = 0
    """Records that may be delivered again: waiting fetches should be tried."""
    expired: int = 0
    """Records taken back from their holder (lock expiry, end of a session)."""


class _Marks:
    """What to note of some of a stretch's codes: a number and a delivery count."""

    def __init__(self) -> None:
        self.values: list[tuple[int, int]] = []
        self._marks: dict[int, int] = {}

    def add(self, code: int, number: int, count: int) -> None:
        """Note these of the offsets with ``code``."""
        value = (number, count)
        if value not in self.values:
            self.values.append(value)
        self._marks[code] = self.values.index(value) + 1

    def codes(self, codes: bytes) -> bytes:
        """For each of ``codes`` the place in ``values``, from 1 on; 0: nothing to note."""
        if len(codes) == 1:
            return bytes((self._marks[codes[0]],))
        table = bytearray(256)
        for code, mark in self._marks.items():
            table[code] = mark
        return codes.translate(table)


class Changes:
    """The changed records of one call, which changes them in the order of their offsets.

    ``archived`` is told at once what is given up.
    """

    def __init__(self, delivery_count_limit: int, archived: Archived) -> None:
        self._limit = delivery_count_limit
        self._archived = archived
        self.batches: list[StateBatch] = []
        self._available: list[tuple[int, int]] = []
        self._made_available = 0
        self.expired = 0

    def moved(
        self,
        piece: Stretch,
        codes: bytes,
        met: Mapping[int, tuple[Status, Verb | None]],
        renewed: Lock | None = None,
    ) -> list[Stretch]:
        """Apply verbs to ``piece`` and note what must be written; returns what takes its place.

        ``met`` has the status and the verb (None: stays as it is) for each of ``codes``, which are
        one for all offsets or one for each. RELEASE at the delivery limit archives. RENEW moves to
        the lock ``renewed``.
        """
        status_of: dict[int, Status] = {}
        written = _Marks()
        given_up = _Marks()
        for code, (status, verb) in met.items():
            if verb is None:
                status_of[code] = status
            elif verb is Verb.RENEW:
                status_of[code] = status._replace(lock=renewed)
            else:
                count = status.delivery_count
                if verb is Verb.RELEASE and count >= self._limit:
                    verb = Verb.EXHAUST
                state, finished, reason = _OUTCOMES[verb]
                status_of[code] = Status(state, 0 if finished else count, None)
                written.add(code, int(state), count)
                if reason is not None:
                    given_up.add(code, int(reason), count)
        if written.values:
            self._note(piece.first, piece.last, written.codes(codes), written.values)
        if given_up.values:
            self._give_up(piece.first, piece.last, given_up.codes(codes), given_up.values)
        return recoded(piece.first, piece.last, codes, status_of)

    def _note(self, first: int, last: int, codes: bytes, written: list[tuple[int, int]]) -> None:
        """Note the state and delivery count to write of each offset, by its code."""
        if len(codes) == 1:
            state, count = written[0]
            self._write(StateBatch(first, last, state, count))
            if state == RecordState.AVAILABLE:
                self._made_available += last - first + 1
                self._available.append((first, last))
            return
        states, counts = zip((0, 0), *written, strict=True)
        new = tuple.__new__  # what StateBatch(...) does, without a Python call for each
        batches = [
            new(StateBatch, (at, until, states[code], counts[code]))
            for at, until, code in zip(*runs(first, last, codes), strict=True)
            if code
        ]
        self._write(batches[0])
        self.batches += batches[1:]
        for code, (state, _) in enumerate(written, start=1):
            if state == RecordState.AVAILABLE:
                self._made_available += codes.count(code)
                self._available.append((first + codes.index(code), first + codes.rindex(code)))

    def _give_up(self, first: int, last: int, codes: bytes, why: list[tuple[int, int]]) -> None:
        """Tell ``archived`` the reason and delivery count of each offset given up, by its code."""
        firsts, lasts, kinds = runs(first, last, codes)
        for code, (reason, _) in enumerate(why, start=1):
            size = last - first + 1 if len(codes) == 1 else codes.count(code)
            self._archived.count(Reason(reason), size)
        recent = (
            ArchivedRange(at, until, Reason(why[code - 1][0]), why[code - 1][1])
            for at, until, code in zip(firsts[::-1], lasts[::-1], kinds[::-1], strict=True)
            if code
        )
        self._archived.remember(reversed(list(islice(recent, ARCHIVED_RANGES_MAX))))

    def _write(self, batch: StateBatch) -> None:
        """Note a state batch, joined with the one before it if it continues that."""
        if self.batches:
            first, last, state, count = self.batches[-1]
            if (last + 1, state, count) == (batch[0], batch[2], batch[3]):
                self.batches[-1] = StateBatch(first, batch.last, state, count)
                return
        self.batches.append(batch)

    def settled(self, window: Window, *, moved: bool = False) -> StateChange | None:
        """Advance the start of ``window`` over finished offsets; returns the change, if any."""
        window.offer(self._available)
        moved = window.pass_terminal() or moved
        if not moved and not self.batches:
            return None
        batches = self.batches
        if batches and batches[0].last < window.start:
            batches = batches[bisect_left(batches, window.start, key=_LAST) :]
        return StateChange(
            start_offset=window.start,
            delivery_complete_count=window.finished,
            batches=tuple(batches),
            made_available=self._made_available,
            expired=self.expired,
        )
