"""Change the statuses of records, and collect the state change that must be written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress, islice
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

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
        happened: list[_Happened] = []
        place = {}  # code → place in `happened`, from 1 on
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
                place[code] = happened.index(what) + 1
        if len(codes) == 1 and happened:
            self._note_one(piece.first, piece.last, *happened[0])
        elif happened:
            table = bytearray(256)
            for code, at in place.items():
                table[code] = at
            self._note(piece.first, piece.last, codes.translate(table), happened)
        return recoded(piece.first, piece.last, codes, status_of)

    def _note(self, first: int, last: int, codes: bytes, happened: list[_Happened]) -> None:
        """Note what ``happened`` to each offset, by its code from 1 on; 0: nothing to write."""
        firsts, lasts, kinds = runs(first, last, codes)
        firsts, lasts = list(compress(firsts, kinds)), list(compress(lasts, kinds))
        kinds = kinds.translate(None, b"\0")
        states, counts, reasons = zip((0, 0, None), *happened, strict=True)
        numbers = list(map(int, states))  # an enum's hash and packing are slow
        new = tuple.__new__  # what StateBatch(...) does, without a Python call for each
        batches = [
            new(StateBatch, (at, until, numbers[kind], counts[kind]))
            for at, until, kind in zip(firsts, lasts, kinds, strict=True)
        ]
        self._write(batches[0])
        self.batches += batches[1:]
        for kind, (state, _, reason) in enumerate(happened, start=1):
            size = codes.count(kind)
            if state is RecordState.AVAILABLE:
                self._made_available += size
                self._available.append((first + codes.index(kind), first + codes.rindex(kind)))
            if reason is not None:
                self._archived.count(reason, size)
        if any(reasons):
            recent = (
                ArchivedRange(at, until, reason, counts[kind])
                for at, until, kind in zip(firsts[::-1], lasts[::-1], kinds[::-1], strict=True)
                if (reason := reasons[kind])
            )
            self._archived.remember(reversed(list(islice(recent, ARCHIVED_RANGES_MAX))))

    def _note_one(
        self, first: int, last: int, state: RecordState, count: int, reason: Reason | None
    ) -> None:
        """Note what happened to all of ``first`` … ``last``."""
        self._write(StateBatch(first, last, int(state), count))
        if state is RecordState.AVAILABLE:
            self._made_available += last - first + 1
            self._available.append((first, last))
        if reason is not None:
            self._archived.add([ArchivedRange(first, last, reason, count)])

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
