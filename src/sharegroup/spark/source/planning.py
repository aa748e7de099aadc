"""Splits the ranges of a batch into Spark tasks with about equal numbers of records; a Kafka
partition may have any number of tasks.

A task costs 13-50 ms whatever it reads, so small batches are packed into few tasks. For slow work
per record, ``maxRecordsPerPartition`` or ``minPartitions`` give more tasks, which are equal to one
record. Other tasks end with a partition where one ends nearby: each partition costs a task a
request. The plan depends on the offset and the options only: a replay in another process gives the
same tasks.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.spark.ranges import size
from sharegroup.spark.source.offsets import Acquired, BatchOffset

RECORDS_PER_TASK_MIN: Final = 1_000
"""Below this many records a further task costs more than it saves, unless the user says
otherwise."""
NEAR_RECORDS: Final = 500
"""A request costs a task as much as so many records."""
NEAR_PART: Final = 4
"""A task's end moves by a quarter of the task at most."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Ranges of one partition, ascending: what one task reads of it."""

    topic: str
    topic_id: UUID
    partition: int
    ranges: tuple[Acquired, ...]


class _Piece(NamedTuple):
    topic: str
    topic_id: UUID
    partition: int
    range: Acquired


def plan(
    offset: BatchOffset, *, min_partitions: int | None, max_records_per_partition: int | None
) -> list[tuple[Slice, ...]]:
    """The tasks of a batch, each with what it reads.

    Args:
        min_partitions: at least this many tasks, when there are as many records.
        max_records_per_partition: no task gets more records.
    """
    records = offset.records
    if not records:
        return []
    partitions = sum(1 for ranges in offset.ranges.values() if ranges)
    tasks = min(partitions, -(-records // RECORDS_PER_TASK_MIN))
    if max_records_per_partition is not None:
        tasks = max(tasks, -(-records // max_records_per_partition))
    tasks = min(max(tasks, min_partitions or 1), records)
    ends = [task * records // tasks for task in range(1, tasks + 1)]
    if min_partitions is None and max_records_per_partition is None:
        ends = _with_partitions(ends, offset)
    return [_grouped(pieces) for pieces in _cut(offset, ends)]


def _with_partitions(ends: list[int], offset: BatchOffset) -> list[int]:
    """The ends of tasks, at the ends of partitions where these are near."""
    reach = min(NEAR_RECORDS, ends[0] // NEAR_PART)
    known = list(accumulate(size(ranges) for _, ranges in sorted(offset.ranges.items())))
    moved = []
    for end in ends:
        at = bisect(known, end)
        nearest = min(known[max(0, at - 1) : at + 1], key=lambda one: abs(one - end))
        moved.append(nearest if abs(nearest - end) <= reach else end)
    return moved


def _cut(offset: BatchOffset, ends: list[int]) -> Iterator[list[_Piece]]:
    """All ranges, laid end to end and cut where the tasks end."""
    pieces: list[_Piece] = []
    task = taken = 0
    for (topic_id, partition), ranges in sorted(offset.ranges.items()):
        topic = offset.topics[topic_id]
        for first, last, count in sorted(ranges):
            while first <= last:
                part = min(last, first + (ends[task] - taken) - 1)
                pieces.append(_Piece(topic, topic_id, partition, Acquired(first, part, count)))
                taken += part - first + 1
                first = part + 1
                if taken == ends[task]:
                    yield pieces
                    pieces = []
                    task += 1


def _grouped(pieces: list[_Piece]) -> tuple[Slice, ...]:
    grouped: dict[tuple[str, UUID, int], list[Acquired]] = {}
    for piece in pieces:
        grouped.setdefault((piece.topic, piece.topic_id, piece.partition), []).append(piece.range)
    return tuple(Slice(*key, tuple(ranges)) for key, ranges in grouped.items())
