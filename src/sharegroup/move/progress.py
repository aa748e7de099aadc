"""A share group's progress in a partition: what is finished, and how often the rest was
delivered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from sharegroup.client.admin.descriptions import PartitionRecords, RecordRange
from sharegroup.move.offset_map import OffsetMap
from sharegroup.share.record_state import RecordState

AT_ONCE: Final = -1
"""As a time: the records may be delivered."""
NOT_BEGUN: Final = -1
"""As a start offset: the group will choose it."""
FINISHED: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Row(NamedTuple):
    """Records ``first`` … ``last``, both included.

    Attributes:
        state: a durable one: available, acknowledged or archived.
        due_ms: not to be delivered before that time, in milliseconds since 1970; AT_ONCE: they may.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    due_ms: int = AT_ONCE

    @property
    def finished(self) -> bool:
        """Whether nobody gets them any more."""
        return self.state in FINISHED


class Progress(NamedTuple):
    """See the module. All from ``start`` on that is in no row was never delivered."""

    start: int
    rows: tuple[Row, ...] = ()

    @property
    def begun(self) -> bool:
        """Whether the group has a start offset."""
        return self.start != NOT_BEGUN

    @property
    def finished(self) -> int:
        """How many records behind the start are finished."""
        return sum(one.last - one.first + 1 for one in self.rows if one.finished)

    def lag(self, end: int) -> int | None:
        """The records that are not finished, up to ``end``; None: the group has not begun."""
        return max(0, end - self.start - self.finished) if self.begun else None

    def same_as(self, other: Progress) -> bool:
        """Whether the same records are finished, and the others were delivered as often. When those
        that rest are due is another matter, and so is what is forgotten: how often a finished
        record was delivered."""
        return self.start == other.start and list(_known(self)) == list(_known(other))


def _known(progress: Progress) -> Iterator[tuple[int, int, bool, int]]:
    """The rows, neighbours joined that are the same."""
    before: tuple[int, int, bool, int] | None = None
    for one in progress.rows:
        count = 0 if one.finished else one.delivery_count
        if before is not None and (before[1] + 1, *before[2:]) == (one.first, one.finished, count):
            before = (before[0], one.last, *before[2:])
            continue
        if before is not None:
            yield before
        before = (one.first, one.last, one.finished, count)
    if before is not None:
        yield before


def progress_of(records: PartitionRecords, now_ms: int) -> Progress:
    """What a broker tells of a partition. Records that members hold are available."""
    if records.start_offset is None:
        return Progress(NOT_BEGUN)
    return Progress(records.start_offset, tuple(_rows(records.ranges, now_ms)))


def _rows(ranges: Iterable[RecordRange], now_ms: int) -> Iterator[Row]:
    for one in ranges:
        rests = one.state is RecordState.DELAYED and one.lock_ms is not None
        due_ms = now_ms + (one.lock_ms or 0) if rests else AT_ONCE
        state = one.state if one.state in FINISHED else RecordState.AVAILABLE
        if one.state in FINISHED or one.delivery_count:
            yield Row(one.first, one.last, state, one.delivery_count, due_ms)


def translated(progress: Progress, places: OffsetMap) -> Progress:
    """The same progress in the copy of the partition."""
    if not progress.begun:
        return progress
    rows = []
    for one in progress.rows:
        span = places.span(one.first, one.last)
        if span is not None:
            rows.append(one._replace(first=span[0], last=span[1]))
    # The record at the start may have no copy; the start of the copy passes over finished ones.
    start = places.place(progress.start)
    while rows and rows[0].finished and rows[0].first <= start:
        start = max(start, rows.pop(0).last + 1)
    return Progress(start, tuple(rows))
