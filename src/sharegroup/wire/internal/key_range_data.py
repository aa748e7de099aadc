"""Key ranges in the user data of the classic consumer protocol (KIP-X): the ranges that a member
had, and the ranges that the leader gives it. The format is ours, since the draft defines no format.
Members that do not know it see user data of somebody else, and have whole partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sharegroup.cooperative.intervals import Intervals
from sharegroup.model.errors import MalformedMessage
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.messages.ranges import PartitionRanges, parts_of, ranges_of
from sharegroup.wire.schema import Message, array, message, string

MAGIC: Final = b"KIPX\0"
"""No assignor of Kafka writes user data that begins so."""
VERSION: Final = 0


@message
class TopicRanges(Message):
    """Partitions of one topic, and the key ranges of the partitions that are not whole."""

    FLEXIBLE = 0

    topic: str = string()
    partitions: Sequence[int] = array("i32")
    parts: Sequence[PartitionRanges] = array(PartitionRanges)


@message
class KeyRangeData(Message):
    """Version 0."""

    FLEXIBLE = 0

    topics: Sequence[TopicRanges] = array(TopicRanges)


class Held(NamedTuple):
    """The partitions that a member has."""

    partitions: frozenset[TopicPartition]
    parts: dict[TopicPartition, Intervals]
    """The key ranges of the partitions that are not whole."""


def to_user_data(
    partitions: Iterable[TopicPartition], parts: Mapping[TopicPartition, Intervals]
) -> bytes:
    """User data with partitions, and the key ranges of the partitions that are not whole."""
    topics: dict[str, list[int]] = {}
    for where in sorted(partitions):
        topics.setdefault(where.topic, []).append(where.partition)
    told = [
        TopicRanges(
            topic,
            numbers,
            ranges_of({w.partition: own for w, own in parts.items() if w.topic == topic}),
        )
        for topic, numbers in topics.items()
    ]
    return MAGIC + encode_bytes(KeyRangeData(told), VERSION)


def from_user_data(content: bytes | None) -> Held | None:
    """What :func:`to_user_data` wrote; None: there is no user data, or it is somebody else's.

    Raises:
        MalformedMessage: the data begins like ours, but cannot be read.
    """
    if content is None or not content.startswith(MAGIC):
        return None
    told = decode(KeyRangeData, VERSION, content, len(MAGIC))
    parts: dict[TopicPartition, Intervals] = {}
    for one in told.topics:
        try:
            own = parts_of(one.parts, one.partitions)
        except ValueError as error:
            raise MalformedMessage(f"key ranges in user data: {error}") from error
        parts |= {TopicPartition(one.topic, at): ranges for at, ranges in own.items()}
    return Held(
        frozenset(TopicPartition(one.topic, at) for one in told.topics for at in one.partitions),
        parts,
    )
