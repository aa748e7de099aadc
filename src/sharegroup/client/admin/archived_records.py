"""Joins the states of a queue's records with the reasons why the broker archived some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sharegroup.client.admin.descriptions import PartitionRecords, RecordRange
from sharegroup.share.record_state import RecordState


def with_reasons(records: PartitionRecords, archived: Sequence[RecordRange]) -> PartitionRecords:
    """``records`` with the reason in archived ranges (cut where the reason changes), and with the
    records archived before the start offset. ``archived`` is ascending and without overlaps."""
    if not archived or records.start_offset is None:
        return records
    start = records.start_offset
    before = [replace(one, last=min(one.last, start - 1)) for one in archived if one.first < start]
    ranges = [part for one in records.ranges for part in _explained(one, archived)]
    return replace(records, ranges=tuple(ranges), given_up=tuple(before))


def _explained(whole: RecordRange, archived: Sequence[RecordRange]) -> Iterator[RecordRange]:
    if whole.state is not RecordState.ARCHIVED:
        yield whole
        return
    first = whole.first
    for one in archived:
        if one.last < first or one.first > whole.last:
            continue
        if one.first > first:
            yield replace(whole, first=first, last=one.first - 1)
        last = min(one.last, whole.last)
        yield replace(one, first=max(one.first, first), last=last)
        first = last + 1
    if first <= whole.last:
        yield replace(whole, first=first)
