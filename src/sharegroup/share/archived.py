"""Which records were archived, and why: counters, and the most recent ranges.

An archived record was never accepted and is not delivered again. Durable state knows that the
record is archived, not why, and drops it once all records before it are finished. The reasons are
kept here, for the operators of the queue. They live in memory with the share partition: they are
lost when it is loaded again or the broker restarts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from sharegroup.model.limits import ARCHIVED_RANGES_MAX


class Reason(IntEnum):
    """Why records were archived. The numbers are on the wire."""

    DELIVERY_LIMIT = 1
    """Delivered share.delivery.count.limit times, and never accepted."""
    REJECTED = 2
    """A member rejected them."""
    DAMAGED = 3
    """The log has lost the records on disk."""
    DELETED = 4
    """The log's start moved past them: retention, or DeleteRecords."""
    RETENTION_CAP = 5
    """As DELETED, though the topic names the group in share.retention.groups: they were past the
    cap as well."""
    PURGED = 6
    """An operator has purged the group."""
    EXPIRED = 7
    """They were worthless before they were done: share.record.expiry.…"""

    @property
    def word(self) -> str:
        """The reason as metric labels and tables show it."""
        return self.name.lower().replace("_", "-")


class ArchivedRange(NamedTuple):
    """Offsets ``first`` … ``last``; ``delivery_count`` is how often they had been delivered."""

    first: int
    last: int
    reason: Reason
    delivery_count: int


class Archived:
    """The archived records of one share partition.

    ``counts`` is the number of records by reason; several share partitions may share one list.
    """

    __slots__ = ("_ranges", "counts")

    def __init__(self, counts: list[int] | None = None) -> None:
        self.counts = [0] * (max(Reason) + 1) if counts is None else counts
        self._ranges: deque[ArchivedRange] = deque(maxlen=ARCHIVED_RANGES_MAX)

    def add(self, ranges: Iterable[ArchivedRange]) -> None:
        """Count and remember ``ranges``; beyond ARCHIVED_RANGES_MAX the oldest are forgotten."""
        for one in ranges:
            self.count(one.reason, one.last - one.first + 1)
            self.remember([one])

    def count(self, reason: Reason, records: int) -> None:
        """Count archived records."""
        self.counts[reason] += records

    def remember(self, ranges: Iterable[ArchivedRange]) -> None:
        """Remember ranges whose records are counted already. Of very many ranges, the caller may
        pass the most recent ones only."""
        kept = self._ranges
        for one in ranges:
            before = kept[-1] if kept else None
            if before is not None and (before.last + 1, *before[2:]) == (one.first, *one[2:]):
                kept[-1] = before._replace(last=one.last)
            else:
                kept.append(one)

    def ranges(self) -> list[ArchivedRange]:
        """The ranges remembered, ascending."""
        return sorted(self._ranges)
