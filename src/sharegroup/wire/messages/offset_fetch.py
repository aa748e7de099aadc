"""OffsetFetch (API key 9).

Source: Kafka's message definitions OffsetFetchRequest.json, OffsetFetchResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.messages.ranges import Range
from sharegroup.wire.schema import Message, array, boolean, i16, i32, i64, message, string, uuid


@message
class OffsetFetchRequestTopic(Message):
    """A topic with partitions to look up (up to version 7)."""

    name: str = string("0-7")
    partition_indexes: Sequence[int] = array("i32", "0-7")


@message
class OffsetFetchRequestTopics(Message):
    """A topic with partitions to look up (from version 8 on)."""

    name: str = string("8-9")
    topic_id: UUID = uuid("10+")
    partition_indexes: Sequence[int] = array("i32", "8+")


@message
class OffsetFetchRequestGroup(Message):
    """A group, and the topics to look up; null: all (from version 8 on)."""

    group_id: str = string("8+")
    member_id: str | None = string("9+", default=None, nullable="9+")
    member_epoch: int = i32("9+", default=-1)
    topics: Sequence[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, "8+", nullable="8+"
    )


@message
class OffsetFetchRequest(Message):
    """OffsetFetchRequest, versions 1-10."""

    FLEXIBLE = 6

    group_id: str = string("0-7")
    topics: Sequence[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2-7"
    )
    groups: Sequence[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")
    with_ranges: bool = boolean(tag=9000)
    """Ours: answer the ranges committed after the committed offset, too (KIP-X)."""


@message
class OffsetFetchResponsePartition(Message):
    """The committed offset of one partition, or an error (up to version 7)."""

    partition_index: int = i32("0-7")
    committed_offset: int = i64("0-7")
    committed_leader_epoch: int = i32("5-7", default=-1)
    metadata: str | None = string("0-7", nullable="0-7")
    error_code: int = i16("0-7")


@message
class OffsetFetchResponseTopic(Message):
    """The partitions of one topic (up to version 7)."""

    name: str = string("0-7")
    partitions: Sequence[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")


@message
class OffsetFetchResponsePartitions(Message):
    """The committed offset of one partition, or an error (from version 8 on)."""

    partition_index: int = i32("8+")
    committed_offset: int = i64("8+")
    committed_leader_epoch: int = i32("8+", default=-1)
    metadata: str | None = string("8+", nullable="8+")
    error_code: int = i16("8+")
    offset_ranges: Sequence[Range] = array(Range, tag=9000)
    """Ours: offsets that are committed after ``committed_offset``, ascending, with gaps between
    them. There only where the request asks for it."""


@message
class OffsetFetchResponseTopics(Message):
    """The partitions of one topic (from version 8 on)."""

    name: str = string("8-9")
    topic_id: UUID = uuid("10+")
    partitions: Sequence[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+")


@message
class OffsetFetchResponseGroup(Message):
    """The committed offsets of one group, or an error (from version 8 on)."""

    group_id: str = string("8+")
    topics: Sequence[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
    error_code: int = i16("8+")


@message
class OffsetFetchResponse(Message):
    """OffsetFetchResponse, versions 1-10."""

    FLEXIBLE = 6

    throttle_time_ms: int = i32("3+")
    topics: Sequence[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = i16("2-7")
    groups: Sequence[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
