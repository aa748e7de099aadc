"""The numbers of a queue over all its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sharegroup.client.admin.descriptions import ShareGroupOffset
from sharegroup.model.ids import TopicPartition

Offsets = Mapping[TopicPartition, ShareGroupOffset]
Ends = Mapping[TopicPartition, int]


class QueueCounts(NamedTuple):
    """What a look has found. None: the broker does not tell.

    Attributes:
        topics: sorted.
        counted: the partitions whose lag is known.
        written: the sum of their ends.
        lag: records that are not finished.
        oldest_ms: when the oldest of them was written.
        redelivered: records that were delivered once more.
        loose: so many of ``written`` may have come after the broker told the lag.
    """

    topics: tuple[str, ...]
    counted: tuple[TopicPartition, ...]
    written: int
    lag: int
    in_flight: int | None
    delayed: int | None
    dead: int | None
    damaged: int
    oldest_ms: int | None
    redelivered: int | None
    loose: int

    @classmethod
    def of(cls, offsets: Offsets, ends: Ends, before: Ends | None = None) -> QueueCounts:
        """The counts of a group with these offsets.

        Args:
            ends: the ends of its partitions, asked for after the offsets.
            before: the ends, asked for before the offsets, as far as they are known.
        """
        lags = {at: lag_of(one, ends.get(at)) for at, one in offsets.items()}
        counted = tuple(at for at, lag in lags.items() if lag is not None and at in ends)
        oldest = (
            one.oldest_ms for at, one in offsets.items() if one.oldest_ms is not None and lags[at]
        )
        return cls(
            topics=tuple(sorted({at.topic for at in offsets})),
            counted=counted,
            written=sum(ends[at] for at in counted),
            lag=_sum(lags.values()) or 0,
            in_flight=_sum(one.in_flight for one in offsets.values()),
            delayed=_sum(one.delayed for one in offsets.values()),
            dead=_sum(one.dead for one in offsets.values()),
            damaged=sum(r.last - r.first + 1 for one in offsets.values() for r in one.damaged),
            oldest_ms=min(oldest, default=None),
            redelivered=_sum(one.redelivered for one in offsets.values()),
            loose=sum(max(0, ends[at] - (before or {}).get(at, ends[at])) for at in counted),
        )

    def with_ends(self, ends: Ends) -> QueueCounts:
        """The same when more has been written since, and nothing was finished."""
        found = [ends[at] for at in self.counted if at in ends]
        written = sum(found)
        if written == self.written or len(found) < len(self.counted):  # or a topic is gone
            return self
        return self._replace(written=written, lag=max(0, self.lag + written - self.written))


def lag_of(one: ShareGroupOffset, end: int | None) -> int | None:
    """Records that are not finished, as the metric of the broker counts them; None: not known.
    Where the group has finished none yet, the broker tells where it begins, and no lag."""
    if one.lag is None and one.begins_at is not None and end is not None:
        return max(0, end - one.begins_at)
    return one.lag


def _sum(numbers: Iterable[int | None]) -> int | None:
    """The sum; None: the broker tells none of them."""
    known = [one for one in numbers if one is not None]
    return sum(known) if known else None
