"""Producer ids, allocated from blocks that are durable before their first id is used (Kafka class
ProducerIdsBlock).

After a crash the rest of a block is lost, but no id is allocated twice.
"""

from __future__ import annotations

from typing import Final

BLOCK_SIZE: Final = 1000
"""Ids claimed by one durable write, as in Kafka."""


class ProducerIdAllocator:
    """Gives out ids. Invariant: ``next`` ≤ ``claimed_end``, and every id given out is below
    ``claimed_end``.
    """

    def __init__(self, claimed_end: int = 0) -> None:
        """``claimed_end``: the durable end of the last claimed block; the ids below it may be in
        use.
        """
        self._next = claimed_end
        self._claimed_end = claimed_end

    @property
    def claimed_end(self) -> int:
        """The end (exclusive) of all ids claimed so far."""
        return self._claimed_end

    def needs_block(self) -> int | None:
        """The new end to make durable before :meth:`take`; None: there are ids left."""
        return None if self._next < self._claimed_end else self._claimed_end + BLOCK_SIZE

    def claimed(self, end: int) -> None:
        """The caller has made ``end`` durable."""
        self._claimed_end = max(self._claimed_end, end)

    def take(self) -> int:
        """The next id. :meth:`needs_block` must have answered None."""
        assert self._next < self._claimed_end, "claim a block before taking a producer id"
        self._next += 1
        return self._next - 1

    def check_invariants(self) -> None:
        """Assert what the class's docstring says."""
        assert 0 <= self._next <= self._claimed_end
