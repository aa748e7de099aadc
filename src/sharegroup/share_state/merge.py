"""Merging state batches: one sweep in the order of offsets, O(n log n) (Kafka: KAFKA-20691)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TypeAlias

from sharegroup.model.share_state import StateBatch

_Covered: TypeAlias = tuple[int, int, int]
"""(-delivery count, -state, last) of a batch that continues behind a better one. Best first."""


def merged(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """``batches`` as a sorted, disjoint list without anything below ``start_offset``.

    Where batches overlap the higher delivery count wins, then the higher state; equal neighbours
    are joined. The order of ``batches`` does not matter, and merging merged batches again with
    others is the same as merging all at once.
    """
    waiting = sorted([batch for batch in batches if batch[1] >= start_offset])
    if not waiting:
        return []
    out: list[StateBatch] = []
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
                ruling = StateBatch(at, last, state, count)
        elif first > until:
            out.append(ruling)
            ruling = batch
        else:
            ruling = _overlapped(ruling, batch, covered, out)
    end = max((last for _, _, last in covered), default=ruling.last)
    out.append(_passed(ruling, end, covered, out))
    return _joined(out) if cut else out


def _from(batch: StateBatch, start_offset: int) -> StateBatch:
    first, last, state, count = batch
    return StateBatch(max(first, start_offset), last, state, count)


def _overlapped(
    ruling: StateBatch, batch: StateBatch, covered: list[_Covered], out: list[StateBatch]
) -> StateBatch:
    """The winner of ``ruling`` and ``batch``, which begins inside it.

    A loser that continues behind the winner goes into ``covered``.
    """
    at, until, ruling_state, ruling_count = ruling
    first, last, state, count = batch
    if (count, state) > (ruling_count, ruling_state):
        if at < first:
            out.append(StateBatch(at, first - 1, ruling_state, ruling_count))
        if last < until:
            heappush(covered, (-ruling_count, -ruling_state, until))
        return batch
    if last > until:
        heappush(covered, (-count, -state, last))
    return ruling


def _passed(
    ruling: StateBatch, before: int, covered: list[_Covered], out: list[StateBatch]
) -> StateBatch:
    """The batch that rules just below ``before``. Batches that stopped ruling earlier, because a
    covered batch continues behind them, go into ``out``."""
    while covered and ruling.last < before:
        count, state, last = heappop(covered)
        if last > ruling.last:
            out.append(ruling)
            ruling = StateBatch(ruling.last + 1, last, -state, -count)
    return ruling


def _joined(pieces: list[StateBatch]) -> list[StateBatch]:
    """Sorted, disjoint ``pieces`` with equal neighbours joined."""
    out = pieces[:1]
    before = pieces[0]
    for piece in pieces:
        first, last, state, count = piece
        if first == before[1] + 1 and count == before[3] and state == before[2]:
            before = out[-1] = StateBatch(before[0], last, state, count)
        elif first > before[1]:
            out.append(piece)
            before = piece
    return out
