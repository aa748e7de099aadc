"""Splits the ranges of a batch into Spark tasks with about equal numbers of records; a Kafka
partition may have any number of tasks.

A task costs 13-50 ms whatever it reads, so small batches are packed into few tasks. For slow work
per record, ``maxRecordsPerPartition`` or ``minPartitions`` give more tasks, whose sizes differ by
one record at most. Without these options a task ends at the end of a partition if one is near,
because each partition costs a task a request. With ``splitBy=key`` a task has a part of a
partition's keys: :func:`plan_by_key`. The plan depends on the offset and the options only: a replay
in another process gives the same tasks.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.cooperative.intervals import size
from sharegroup.records.key_hashes import HASH_MAX
from sharegroup.spark.slices import Acquired, Slice
from sharegroup.spark.source.offsets import BatchOffset

RECORDS_PER_TASK_MIN: Final = 1_000
"""With fewer records per task, a further task costs more than it saves; the user's options may ask
for it all the same."""
NEAR_RECORDS: Final = 500
"""A request costs a task as much as this many records."""
NEAR_PART: Final = 4
"""A task's end moves by a quarter of the task at most."""


class _Piece(NamedTuple):
    topic: str
    topic_id: UUID
    partition: int
    range: Acquired


def plan(
    offset: BatchOffset, *, min_partitions: int | None, max_records_per_partition: int | None
) -> list[tuple[Slice, ...]]:
    """The tasks of a batch, each with the slices that it reads.

    Args:
        min_partitions: the least number of tasks, if there are as many records.
        max_records_per_partition: the most records of a task.
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


def plan_by_key(offset: BatchOffset, *, min_partitions: int | None) -> list[tuple[Slice, ...]]:
    """The tasks of a batch when each has a part of the keys of a partition, or all keys of several
    small partitions, so that a key's records are in one task.

    Args:
        min_partitions: the least number of tasks, if there are as many records; partitions with
            more records are cut into more parts.
    """
    most = Fraction(offset.records, min_partitions) if min_partitions else None
    room = Fraction(RECORDS_PER_TASK_MIN) if most is None else most
    tasks: list[tuple[Slice, ...]] = []
    taken = room
    for (topic_id, partition), ranges in sorted(offset.ranges.items()):
        records = size(ranges)
        parts = 1 if most is None else min(ceil(records / most), records)
        for keys in key_parts(parts if records else 0):
            one = Slice(offset.topics[topic_id], topic_id, partition, tuple(sorted(ranges)), keys)
            part = Fraction(records, parts)
            if taken + part > room:
                tasks.append(())
                taken = Fraction(0)
            tasks[-1] += (one,)
            taken += part
    return tasks


def key_parts(count: int) -> list[tuple[int, int] | None]:
    """The hash space in ``count`` parts, whose sizes differ by one hash at most: the first and last
    hash of each part. A single part is None, because no record is left out.
    """
    if count == 1:
        return [None]
    ends = [part * (HASH_MAX + 1) // count for part in range(count + 1)] if count else []
    return [(first, end - 1) for first, end in pairwise(ends)]


def _with_partitions(ends: list[int], offset: BatchOffset) -> list[int]:
    """The ends of tasks, each moved to the nearest end of a partition if that is near."""
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
