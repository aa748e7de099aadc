"""ListOffsets (API key 2).

Source: Kafka's message definitions ListOffsetsRequest.json, ListOffsetsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i8, i16, i32, i64, message, string


@message
class ListOffsetsPartition(Message):
    """A partition, and the timestamp to look up; negative numbers stand for ends of the log."""

    partition_index: int = i32()
    current_leader_epoch: int = i32("4+", default=-1)
    timestamp: int = i64()


@message
class ListOffsetsTopic(Message):
    """A topic with partitions to look up."""

    name: str = string()
    partitions: Sequence[ListOffsetsPartition] = array(ListOffsetsPartition)


@message
class ListOffsetsRequest(Message):
    """ListOffsetsRequest, versions 1-11."""

    FLEXIBLE = 6

    replica_id: int = i32()
    isolation_level: int = i8("2+")
    topics: Sequence[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = i32("10+")


@message
class ListOffsetsPartitionResponse(Message):
    """The offset found in one partition, or an error."""

    partition_index: int = i32()
    error_code: int = i16()
    timestamp: int = i64(default=-1)
    offset: int = i64(default=-1)
    leader_epoch: int = i32("4+", default=-1)


@message
class ListOffsetsTopicResponse(Message):
    """The results of one topic's partitions."""

    name: str = string()
    partitions: Sequence[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message
class ListOffsetsResponse(Message):
    """ListOffsetsResponse, versions 1-11."""

    FLEXIBLE = 6

    throttle_time_ms: int = i32("2+")
    topics: Sequence[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
