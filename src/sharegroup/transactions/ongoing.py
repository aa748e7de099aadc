"""The open transactions of one partition, and the last stable offset that follows from them (Kafka
class ProducerStateManager, ongoing and unreplicated transactions).

A transaction begins with a producer's first transactional batch and ends with its marker. Readers
know its outcome once they may read the marker, that is, once the high watermark has passed it.
Until then its first offset holds back the *last stable offset*.

Invariants (:meth:`OngoingTransactions.check_invariants`):

* a producer has at most one open transaction, and they are kept in order of their first offsets;
* an ended transaction ends after it began, and ended ones are kept in order of their markers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple


class EndedTransaction(NamedTuple):
    """A transaction whose marker is in the log; offsets are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    last_stable_offset: int
    """The first offset that was still undecided right after this transaction ended."""


class OngoingTransactions:
    """The open transactions of one partition, and the ended ones that readers cannot see yet."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._unseen: deque[tuple[int, int]] = deque()

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._open

    def __len__(self) -> int:
        return len(self._open)

    def first_offset(self, producer_id: int) -> int | None:
        """Where a producer's open transaction begins; None when it has none."""
        return self._open.get(producer_id)

    def appended(self, producer_id: int, first_offset: int) -> None:
        """A transactional batch is in the log: it begins a transaction or continues one."""
        self._open.setdefault(producer_id, first_offset)

    def ended(self, producer_id: int, marker_offset: int) -> EndedTransaction | None:
        """A marker is in the log. Returns None when the producer had no open transaction here."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        self._unseen.append((first_offset, marker_offset))
        stable = next(iter(self._open.values()), marker_offset + 1)
        return EndedTransaction(producer_id, first_offset, marker_offset, stable)

    def first_unstable(self, high_watermark: int) -> int | None:
        """The lowest offset whose outcome a reader up to ``high_watermark`` cannot know, or None.

        The high watermark never moves back, so transactions that ended below it are forgotten.
        """
        unseen = self._unseen
        while unseen and unseen[0][1] < high_watermark:
            unseen.popleft()
        lowest = next(iter(self._open.values()), None)
        for first_offset, _ in unseen:
            lowest = first_offset if lowest is None else min(lowest, first_offset)
        return lowest

    def load(self, first_offsets: Mapping[int, int]) -> None:
        """Begin again from a snapshot: producer id → first offset of its open transaction."""
        self._open = dict(sorted(first_offsets.items(), key=lambda item: item[1]))
        self._unseen.clear()

    def check_invariants(self) -> None:
        """Assert what the module's docstring lists."""
        assert all(a < b for a, b in pairwise(self._open.values())), self._open
        assert all(first < marker for first, marker in self._unseen), self._unseen
        assert all(a[1] < b[1] for a, b in pairwise(self._unseen)), self._unseen
