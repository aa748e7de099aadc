"""How many records a group may be given in a time, over all its members and partitions
(``share.rate.…``): a bucket of tokens.

The bucket fills evenly, by :attr:`RateLimit.records` tokens in each interval, and a record costs
one. It holds what comes in :data:`BURST_MS`, at least one token. So in any stretch of time no more
records go out than it brings tokens, and one bucket: the whole limit is never spent at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

BURST_MS: Final = 100
"""What was not asked for may be made up for so long."""


class RateLimit(NamedTuple):
    """So many records in so many milliseconds."""

    records: int
    interval_ms: int


class Rate:
    """The tokens of one group. A new bucket is full.

    Invariant: the level is between nothing and the bucket's size. It is counted in parts of a
    token: a token has as many as the interval has milliseconds, so that a millisecond brings a
    whole number of parts.
    """

    def __init__(self, limit: RateLimit, now_ms: int) -> None:
        self.limit = limit
        self._level = self._size
        self._at_ms = now_ms

    @property
    def _size(self) -> int:
        return max(self.limit.interval_ms, self.limit.records * BURST_MS)

    def change(self, limit: RateLimit, now_ms: int) -> None:
        """Obey another limit from now on; the bucket stays as full as it is, in tokens."""
        self._fill(now_ms)
        tokens = self._level // self.limit.interval_ms
        self.limit = limit
        self._level = min(tokens * limit.interval_ms, self._size)

    def room(self, now_ms: int) -> int:
        """How many records may be given now."""
        self._fill(now_ms)
        return self._level // self.limit.interval_ms

    def reserve(self, records: int, now_ms: int) -> int:
        """Take tokens for up to ``records`` records; returns for how many. What is not used must be
        given back."""
        granted = min(records, self.room(now_ms))
        self._level -= granted * self.limit.interval_ms
        return granted

    def give_back(self, records: int) -> None:
        """Put back the tokens of records that were not given."""
        self._level = min(self._level + records * self.limit.interval_ms, self._size)

    def full_ms(self, now_ms: int) -> int:
        """When the bucket is full, if nobody takes tokens until then."""
        self._fill(now_ms)
        return now_ms - (self._level - self._size) // self.limit.records

    def _fill(self, now_ms: int) -> None:
        passed_ms = max(0, now_ms - self._at_ms)
        self._level = min(self._level + passed_ms * self.limit.records, self._size)
        self._at_ms += passed_ms

    def check_invariants(self) -> None:
        """Assert the invariant of the class."""
        assert 0 <= self._level <= self._size
