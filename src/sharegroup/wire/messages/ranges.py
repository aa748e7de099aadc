"""Ranges of offsets and of key hashes, which ride on tagged fields of Kafka's messages.

Source: KIP-X (OffsetRanges, KeyRanges); the tags are ours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sharegroup.cooperative.hash_split import HASH_MAX, WHOLE
from sharegroup.cooperative.intervals import Intervals, normal
from sharegroup.model.limits import HELD_RANGES_MAX
from sharegroup.wire.schema import Message, array, i32, i64, message


@message
class Range(Message):
    """Offsets, or hashes of keys, from ``first`` to ``last``, both included."""

    first: int = i64()
    last: int = i64()


@message
class PartitionRanges(Message):
    """The ranges of hashes that a member has of one partition; without ranges: all of it."""

    partition: int = i32()
    ranges: Sequence[Range] = array(Range)


def ranges_of(parts: Mapping[int, Intervals]) -> list[PartitionRanges]:
    """The parts of a topic's partitions, as they are written."""
    return [
        PartitionRanges(partition, [Range(first, last) for first, last in part])
        for partition, part in parts.items()
    ]


def parts_of(values: Sequence[PartitionRanges], listed: Collection[int]) -> dict[int, Intervals]:
    """The parts of a topic's partitions, as they were written; without those that are whole.

    Args:
        listed: the partitions beside which they stand.

    Raises:
        ValueError: a partition is not listed or stands twice; a range ends before it begins, or
            is not one of hashes; a partition has none, or more than HELD_RANGES_MAX.
    """
    parts: dict[int, Intervals] = {}
    for value in sorted(values, key=lambda value: value.partition):
        partition, ranges = value.partition, value.ranges
        if partition not in listed or partition in parts:
            raise ValueError(f"key ranges of partition {partition}, which is not listed once")
        if not 0 < len(ranges) <= HELD_RANGES_MAX:
            raise ValueError(f"{len(ranges)} key ranges; the limit is {HELD_RANGES_MAX}")
        if any(not 0 <= each.first <= each.last <= HASH_MAX for each in ranges):
            raise ValueError(f"key ranges of partition {partition} that are none of hashes")
        parts[partition] = normal((each.first, each.last) for each in ranges)
    return {partition: part for partition, part in parts.items() if part != WHOLE}
