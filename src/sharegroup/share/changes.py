"""Collect the changes of one call into the state change that must be written."""

from __future__ import annotations

from dataclasses import dataclass

from sharegroup.model.share_state import StateBatch
from sharegroup.share.archived import ArchivedRange, Reason
from sharegroup.share.locks import Lock
from sharegroup.share.record_state import TERMINAL, TRANSITIONS, RecordState, Verb
from sharegroup.share.spans import Span
from sharegroup.share.window import Window

_GIVEN_UP = {Verb.EXHAUST: Reason.DELIVERY_LIMIT, Verb.REJECT: Reason.REJECTED}
_RELEASED = TRANSITIONS[RecordState.ACQUIRED, Verb.RELEASE]
_EXHAUSTED = TRANSITIONS[RecordState.ACQUIRED, Verb.EXHAUST]


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
    """The changed records of one call."""

    def __init__(self, delivery_count_limit: int) -> None:
        self._limit = delivery_count_limit
        self._batches: list[StateBatch] = []
        self._available: list[tuple[int, int]] = []
        self.given_up: list[ArchivedRange] = []
        self.expired = 0

    def moved(self, piece: Span, verb: Verb) -> Span:
        """Apply ``verb`` to ``piece`` and note the change. RELEASE at the delivery limit
        archives."""
        if verb is Verb.RELEASE and piece.delivery_count >= self._limit:
            verb = Verb.EXHAUST
        first, last, before, count, _ = piece
        state = TRANSITIONS[before, verb]
        self._batches.append(StateBatch(first, last, state, count))
        if verb in _GIVEN_UP:
            self.given_up.append(ArchivedRange(first, last, _GIVEN_UP[verb], count))
        if state is RecordState.AVAILABLE:
            self._available.append((first, last))
        return Span(first, last, state, 0 if state in TERMINAL else count, None)

    def released(self, pieces: list[Span], locks: set[Lock]) -> list[Span]:
        """Release those of ``pieces`` that one of ``locks`` holds; the others stay as they are.

        Does the same as :meth:`moved` for each, but fast enough for very many.
        """
        out = []
        new = tuple.__new__  # what Span(...) does, without a Python call for each
        limit, batches, available = self._limit, self._batches, self._available
        for piece in pieces:
            if piece[4] in locks:
                first, last, _, count, _ = piece
                if count >= limit:
                    batches.append(new(StateBatch, (first, last, _EXHAUSTED, count)))
                    exhausted = (first, last, Reason.DELIVERY_LIMIT, count)
                    self.given_up.append(new(ArchivedRange, exhausted))
                    piece = new(Span, (first, last, _EXHAUSTED, 0, None))
                else:
                    batches.append(new(StateBatch, (first, last, _RELEASED, count)))
                    available.append((first, last))
                    piece = new(Span, (first, last, _RELEASED, count, None))
            out.append(piece)
        return out

    def settled(self, window: Window, *, moved: bool = False) -> StateChange | None:
        """Advance the start of ``window`` over finished offsets; returns the change, if any."""
        window.offer(self._available)
        moved = window.pass_terminal() or moved
        if not moved and not self._batches:
            return None
        return StateChange(
            start_offset=window.start,
            delivery_complete_count=window.finished,
            batches=tuple(self._from_offset(window.start)),
            made_available=sum(last - first + 1 for first, last in self._available),
            expired=self.expired,
        )

    def _from_offset(self, start: int) -> list[StateBatch]:
        out: list[StateBatch] = []
        before = None
        self._batches.sort()
        for batch in self._batches:
            first, last, state, count = batch
            if last < start:
                continue
            if before == (first - 1, state, count):
                out[-1] = StateBatch(out[-1].first, last, state, count)
            else:
                out.append(batch)
            before = (last, state, count)
        return out
