"""DeleteRecords (API key 21).

Source: Kafka's message definitions DeleteRecordsRequest.json, DeleteRecordsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, i32, i64, message, string


@message
class DeleteRecordsPartition(Message):
    """A partition, and the offset before which its records are deleted."""

    partition_index: int = i32()
    offset: int = i64()


@message
class DeleteRecordsTopic(Message):
    """A topic with partitions whose records are to be deleted."""

    name: str = string()
    partitions: Sequence[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message
class DeleteRecordsRequest(Message):
    """DeleteRecordsRequest, versions 0-2."""

    FLEXIBLE = 2

    topics: Sequence[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = i32()


@message
class DeleteRecordsPartitionResult(Message):
    """The new log start of one partition, or an error."""

    partition_index: int = i32()
    low_watermark: int = i64()
    error_code: int = i16()


@message
class DeleteRecordsTopicResult(Message):
    """The results of one topic's partitions."""

    name: str = string()
    partitions: Sequence[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message
class DeleteRecordsResponse(Message):
    """DeleteRecordsResponse, versions 0-2."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    topics: Sequence[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
