"""Merging state batches: one sweep in the order of offsets, O(n log n) (Kafka: KAFKA-20691)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Final, TypeAlias

from sharegroup.model.share_state import DelayedRow, StateRow

_AVAILABLE: Final = 0

_Covered: TypeAlias = tuple[int, int, int]
"""(-delivery count, -state, last) of a batch that continues after a better one. Best first."""


def merged(batches: Iterable[StateRow], start_offset: int) -> list[StateRow]:
    """``batches`` as a sorted, disjoint list without anything below ``start_offset``.

    Where batches overlap the higher delivery count wins, then the higher state; equal neighbours
    are joined. The order of ``batches`` does not matter, and merging merged batches again with
    others is the same as merging all at once.
    """
    waiting = sorted([batch for batch in batches if batch[1] >= start_offset])
    if not waiting:
        return []
    out: list[StateRow] = []
    covered: list[_Covered] = []
    cut = False
    ruling = _from(waiting[0], start_offset)
    for batch in waiting:
        if batch[0] < start_offset:
            batch = _from(batch, start_offset)
        first, last, state, count = batch
        if covered:
            cut = True
            ruling = _passed(ruling, first, covered, out)
        at, until, ruling_state, ruling_count = ruling
        if state == ruling_state and count == ruling_count and first <= until + 1:
            if last > until:
                ruling = (at, last, state, count)
        elif first > until:
            out.append(ruling)
            ruling = batch
        else:
            # A batch that takes the place of the ruling one may continue the piece before it.
            cut = cut or first == at
            ruling = _overlapped(ruling, batch, covered, out)
    end = max((last for _, _, last in covered), default=ruling[1])
    out.append(_passed(ruling, end, covered, out))
    return _joined(out) if cut else out


def still_delayed(delayed: Iterable[DelayedRow], batches: Sequence[StateRow]) -> list[DelayedRow]:
    """Of ``delayed``, newest first, what merged ``batches`` have as available with the same
    delivery count. Other rows are out of date: the records were delivered or finished since."""
    firsts = [batch[0] for batch in batches]
    kept: list[DelayedRow] = []
    for row in delayed:
        first, last, count, due_ms = row
        for at in range(max(0, bisect_right(firsts, first) - 1), len(batches)):
            begin, end, state, delivered = batches[at]
            if begin > last:
                break
            if end >= first and state == _AVAILABLE and delivered == count:
                part = DelayedRow(max(first, begin), min(last, end), count, due_ms)
                kept.append(row if part == row else part)
    return kept


def _from(batch: StateRow, start_offset: int) -> StateRow:
    first, last, state, count = batch
    return (max(first, start_offset), last, state, count)


def _overlapped(
    ruling: StateRow, batch: StateRow, covered: list[_Covered], out: list[StateRow]
) -> StateRow:
    """The winner of ``ruling`` and ``batch``, which begins inside it.

    A loser that continues after the winner goes into ``covered``.
    """
    at, until, ruling_state, ruling_count = ruling
    first, last, state, count = batch
    if (count, state) > (ruling_count, ruling_state):
        if at < first:
            out.append((at, first - 1, ruling_state, ruling_count))
        if last < until:
            heappush(covered, (-ruling_count, -ruling_state, until))
        return batch
    if last > until:
        heappush(covered, (-count, -state, last))
    return ruling


def _passed(
    ruling: StateRow, before: int, covered: list[_Covered], out: list[StateRow]
) -> StateRow:
    """The batch that rules just below ``before``. Batches that stopped ruling earlier, because a
    covered batch continues after them, go into ``out``."""
    while covered and ruling[1] < before:
        count, state, last = heappop(covered)
        if last > ruling[1]:
            out.append(ruling)
            ruling = (ruling[1] + 1, last, -state, -count)
    return ruling


def _joined(pieces: list[StateRow]) -> list[StateRow]:
    """Sorted, disjoint ``pieces`` with equal neighbours joined."""
    out = pieces[:1]
    before = pieces[0]
    for piece in pieces:
        first, last, state, count = piece
        if first == before[1] + 1 and count == before[3] and state == before[2]:
            before = out[-1] = (before[0], last, state, count)
        elif first > before[1]:
            out.append(piece)
            before = piece
    return out
