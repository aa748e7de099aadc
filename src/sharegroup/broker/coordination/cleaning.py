"""When the machines of ``__consumer_offsets`` look for unused groups and for expired offsets.

Source: Kafka method ``GroupCoordinatorShard.cleanupGroupMetadata``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Unused(NamedTuple):
    """When an empty group is deleted. Both functions are called at each use."""

    interval_ms: Callable[[], int]
    """``offsets.retention.check.interval.ms``."""
    has_offsets: Callable[[str], bool]
    """Whether offsets of the group are committed; they expire by themselves."""


class Rounds:
    """Rounds of cleaning, an interval apart. The first round is an interval after the load.

    Args:
        interval_ms: called after each round.
    """

    def __init__(self, interval_ms: Callable[[], int]) -> None:
        self._interval_ms = interval_ms
        self.next_ms: int | None = None
        """When the next round is due, by the monotonic clock; None before the load."""

    def done(self, now_ms: int) -> None:
        """A round, or the load, is over: the next round is an interval later."""
        self.next_ms = now_ms + self._interval_ms()

    def are_due(self, now_ms: int) -> bool:
        """Whether it is time for the next round."""
        return self.next_ms is not None and now_ms >= self.next_ms
