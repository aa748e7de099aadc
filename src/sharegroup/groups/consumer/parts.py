"""Partitions that a member has in part: ranges of key hashes (KIP-X).

A member's partitions are listed as in Kafka, each with its epoch. Beside the list stand the ranges
of the partitions that the member does not have whole. So a group without key ranges has empty
parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias
from uuid import UUID

from sharegroup.cooperative.hash_split import WHOLE
from sharegroup.cooperative.intervals import Intervals, minus, union
from sharegroup.groups.consumer.records import Held, Parts

Key: TypeAlias = tuple[UUID, int]
"""A partition, by its topic's id."""


def part_of(parts: Parts, topic_id: UUID, partition: int) -> Intervals:
    """The hashes that a member has of a partition in its list: all, unless ``parts`` has less."""
    return parts.get(topic_id, {}).get(partition, WHOLE)


class GatheredPartitions:
    """Partitions, whole and in part, that are being put together."""

    def __init__(self, held: Held | None = None, parts: Parts | None = None) -> None:
        self.held: dict[UUID, dict[int, int]] = {}
        self.parts: dict[UUID, dict[int, Intervals]] = {}
        for topic_id, partitions in (held or {}).items():
            for partition, epoch in partitions.items():
                self.add(topic_id, partition, epoch, part_of(parts or {}, topic_id, partition))

    def __bool__(self) -> bool:
        return bool(self.held)

    def part(self, topic_id: UUID, partition: int) -> Intervals:
        """The hashes of a partition that are here; empty if the partition is not."""
        if partition not in self.held.get(topic_id, ()):
            return ()
        return part_of(self.parts, topic_id, partition)

    def add(self, topic_id: UUID, partition: int, epoch: int, part: Intervals) -> None:
        """Add a partition, or more of a partition that is here, which keeps its epoch."""
        if self.parts.get(topic_id):
            before = self.part(topic_id, partition)
            part = union(before, part) if before else part
        self.held.setdefault(topic_id, {}).setdefault(partition, epoch)
        if part != WHOLE:
            self.parts.setdefault(topic_id, {})[partition] = part
        elif partition in self.parts.get(topic_id, ()):
            del self.parts[topic_id][partition]

    def tidy(self) -> tuple[Held, Parts]:
        """Partitions and parts in rising order, without empty topics."""
        return (
            {t: dict(sorted(self.held[t].items())) for t in sorted(self.held)},
            {t: dict(sorted(self.parts[t].items())) for t in sorted(self.parts) if self.parts[t]},
        )


def overlap(owned: Mapping[UUID, object], owned_parts: Parts, held: Held, parts: Parts) -> bool:
    """Whether a hash of ``held``, with its ``parts``, is owned, too."""
    for topic_id, partitions in held.items():
        listed = owned.get(topic_id, ())
        assert isinstance(listed, frozenset | set | tuple | dict)
        for partition in partitions:
            if partition in listed:
                mine = part_of(owned_parts, topic_id, partition)
                part = part_of(parts, topic_id, partition)
                if minus(part, mine) != part:
                    return True
    return False


def parts_held(
    assigned: tuple[Held, Parts], revoking: tuple[Held, Parts]
) -> Iterator[tuple[Key, Intervals]]:
    """The partitions that a member owns or has yet to give back, each once, with its part."""
    held, parts = assigned
    leaving, leaving_parts = revoking
    for topic_id, partitions in held.items():
        gone = leaving.get(topic_id, ())
        for partition in partitions:
            part = part_of(parts, topic_id, partition)
            if partition in gone:
                part = union(part, part_of(leaving_parts, topic_id, partition))
            yield (topic_id, partition), part
    for topic_id, partitions in leaving.items():
        kept = held.get(topic_id, ())
        for partition in partitions:
            if partition not in kept:
                yield (topic_id, partition), part_of(leaving_parts, topic_id, partition)
