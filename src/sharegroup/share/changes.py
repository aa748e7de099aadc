"""Change the statuses of records, and collect the state change that must be written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from sharegroup.model.share_state import StateBatch
from sharegroup.share.archived import ArchivedRange, Reason
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
_Happened: TypeAlias = tuple[RecordState, int, Reason | None]
"""A change that must be written: state, delivery count, and why the record is given up."""


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


class Changes:
    """The changed records of one call, which changes them in the order of their offsets."""

    def __init__(self, delivery_count_limit: int) -> None:
        self._limit = delivery_count_limit
        self.batches: list[StateBatch] = []
        self._available: list[tuple[int, int]] = []
        self._made_available = 0
        self.given_up: list[ArchivedRange] = []
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
        happened: list[_Happened] = []
        table = bytearray(256)  # code → place in `happened`, from 1 on; 0: nothing to write
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
                what = (state, count, reason)
                if what not in happened:
                    happened.append(what)
                table[code] = happened.index(what) + 1
        if happened:
            self._note(piece.first, piece.last, codes.translate(table), happened)
        return recoded(piece.first, piece.last, codes, status_of)

    def _note(self, first: int, last: int, codes: bytes, happened: list[_Happened]) -> None:
        """Note what ``happened`` to each offset, by its code from 1 on."""
        firsts, lasts, kinds = runs(first, last, codes)
        states, counts, reasons = zip((0, 0, None), *happened, strict=True)
        new = tuple.__new__  # what StateBatch(...) does, without a Python call for each
        batches = [
            new(StateBatch, (at, until, states[kind], counts[kind]))
            for at, until, kind in zip(firsts, lasts, kinds, strict=True)
            if kind
        ]
        if self.batches:
            at, until, *what = batches[0]
            before = self.batches[-1]
            if before == (before.first, at - 1, *what):
                self.batches[-1] = StateBatch(before.first, until, *what)
                del batches[0]
        self.batches += batches
        for kind, (state, _, _) in enumerate(happened, start=1):
            if state is RecordState.AVAILABLE:
                self._note_available(first, last, codes, kind)
        if any(reasons):
            self.given_up += [
                ArchivedRange(at, until, reason, counts[kind])
                for at, until, kind in zip(firsts, lasts, kinds, strict=True)
                if (reason := reasons[kind])
            ]

    def _note_available(self, first: int, last: int, codes: bytes, kind: int) -> None:
        """Note that the offsets whose code is ``kind`` were made available."""
        if len(codes) == 1:
            self._made_available += last - first + 1
            self._available.append((first, last))
        else:
            self._made_available += codes.count(kind)
            self._available.append((first + codes.index(kind), first + codes.rindex(kind)))

    def settled(self, window: Window, *, moved: bool = False) -> StateChange | None:
        """Advance the start of ``window`` over finished offsets; returns the change, if any."""
        window.offer(self._available)
        moved = window.pass_terminal() or moved
        if not moved and not self.batches:
            return None
        return StateChange(
            start_offset=window.start,
            delivery_complete_count=window.finished,
            batches=tuple(self.batches[bisect_left(self.batches, window.start, key=_LAST) :]),
            made_available=self._made_available,
            expired=self.expired,
        )
