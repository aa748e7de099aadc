"""Merging state batches: a sweep over their ends, O(n log n) (Kafka: KAFKA-20691)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise

from sharegroup.model.share_state import StateBatch


def merged(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """``batches`` as a sorted, disjoint list without anything below ``start_offset``.

    Where batches overlap the higher delivery count wins, then the higher state; equal neighbours
    are joined. The order of ``batches`` does not matter, and merging merged batches again with
    others is the same as merging all at once.
    """
    waiting = sorted(batch for batch in batches if batch.last >= start_offset)
    if all(a.last < b.first for a, b in pairwise(waiting)):
        return _joined(waiting, start_offset)
    return _joined(_swept(waiting), start_offset)


def _swept(waiting: list[StateBatch]) -> list[StateBatch]:
    """Disjoint pieces of sorted ``waiting``, each of the batch that wins there."""
    pieces: list[StateBatch] = []
    # Open batches, the winner first: (-count, -state, last).
    covering: list[tuple[int, int, int]] = []
    position, index = 0, 0
    while index < len(waiting) or covering:
        if not covering:
            position = waiting[index].first
        while index < len(waiting) and waiting[index].first <= position:
            _, last, state, count = waiting[index]
            heappush(covering, (-count, -state, last))
            index += 1
        count, state, last = covering[0]
        if last < position:
            heappop(covering)
            continue
        # The winner rules until it ends or another batch begins, which may beat it.
        end = last if index == len(waiting) else min(last, waiting[index].first - 1)
        pieces.append(StateBatch(position, end, -state, -count))
        position = end + 1
    return pieces


def _joined(pieces: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    out: list[StateBatch] = []
    for first, last, state, count in pieces:
        if last < start_offset:
            continue
        begin = max(first, start_offset)
        if out and out[-1][1:] == (begin - 1, state, count):
            begin = out.pop().first
        out.append(StateBatch(begin, last, state, count))
    return out
