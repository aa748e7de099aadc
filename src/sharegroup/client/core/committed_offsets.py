"""Committed offsets: as the application gives them, and as it gets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sharegroup.client.core.positions import NO_EPOCH, Position
from sharegroup.client.core.record import ConsumerRecord
from sharegroup.cooperative.intervals import Intervals
from sharegroup.model.ids import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the offset of the record to read next."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    ranges: Intervals = ()
    """The ranges committed after the offset, both ends included (KIP-X)."""


def as_partition(where: tuple[str, int]) -> TopicPartition:
    """A partition as the application names it: a TopicPartition, or any (topic, number).

    Raises:
        TypeError: ``where`` is something else.
        ValueError: the number is negative.
    """
    match where:
        case (str() as topic, int() as number):
            if number < 0:
                raise ValueError(f"the partition {number} of {topic} is negative")
            return TopicPartition(topic, number)
        case _:
            raise TypeError(f"{where!r} is no partition: write (topic, number)")


def as_commit(
    offsets: Mapping[TopicPartition, int | Position | OffsetAndMetadata]
    | Sequence[ConsumerRecord[Any, Any]],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as the application gives them.

    Raises:
        TypeError: ``offsets`` is no mapping of partitions.
        ValueError: an offset is negative.
    """
    if not isinstance(offsets, Mapping):
        raise TypeError(f"{offsets!r} are no offsets: write {{(topic, number): offset}}")
    found = {}
    for where, one in offsets.items():
        offset = OffsetAndMetadata(one) if isinstance(one, int) else OffsetAndMetadata(*one)
        if offset.offset < 0:
            raise ValueError(f"the offset of {as_partition(where)} is {offset.offset}")
        found[as_partition(where)] = offset
    return found
