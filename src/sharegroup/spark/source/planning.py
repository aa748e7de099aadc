"""Splits the ranges of a batch into Spark tasks with equal numbers of records; a Kafka partition
may have any number of tasks.

A task costs 13-50 ms whatever it reads, so small batches are packed into few tasks. For slow work
per record, ``maxRecordsPerPartition`` or ``minPartitions`` give more tasks. The plan depends on the
offset and the options only: a replay in another process gives the same tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.spark.source.offsets import Acquired, BatchOffset

RECORDS_PER_TASK_MIN: Final = 1_000
"""Below this many records a further task costs more than it saves, unless the user says
otherwise."""


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
    return [_grouped(pieces) for pieces in _cut(offset, tasks)]


def _cut(offset: BatchOffset, tasks: int) -> Iterator[list[_Piece]]:
    """All ranges, laid end to end and cut into equal parts."""
    records = offset.records
    pieces: list[_Piece] = []
    task = taken = 0
    end = records // tasks
    for (topic_id, partition), ranges in sorted(offset.ranges.items()):
        topic = offset.topics[topic_id]
        for first, last, count in sorted(ranges):
            while first <= last:
                part = min(last, first + (end - taken) - 1)
                pieces.append(_Piece(topic, topic_id, partition, Acquired(first, part, count)))
                taken += part - first + 1
                first = part + 1
                if taken == end:
                    yield pieces
                    pieces = []
                    task += 1
                    end = (task + 1) * records // tasks


def _grouped(pieces: list[_Piece]) -> tuple[Slice, ...]:
    grouped: dict[tuple[str, UUID, int], list[Acquired]] = {}
    for piece in pieces:
        grouped.setdefault((piece.topic, piece.topic_id, piece.partition), []).append(piece.range)
    return tuple(Slice(*key, tuple(ranges)) for key, ranges in grouped.items())
