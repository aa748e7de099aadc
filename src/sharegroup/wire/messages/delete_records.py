"""DeleteRecords (API key 21).

Source: Kafka's message definitions DeleteRecordsRequest.json, DeleteRecordsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, i32, i64, message, string


@message
class DeleteRecordsPartition(Message):
    """In DeleteRecordsRequest."""

    partition_index: int = i32()
    offset: int = i64()


@message
class DeleteRecordsTopic(Message):
    """In DeleteRecordsRequest."""

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
    """In DeleteRecordsResponse."""

    partition_index: int = i32()
    low_watermark: int = i64()
    error_code: int = i16()


@message
class DeleteRecordsTopicResult(Message):
    """In DeleteRecordsResponse."""

    name: str = string()
    partitions: Sequence[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message
class DeleteRecordsResponse(Message):
    """DeleteRecordsResponse, versions 0-2."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    topics: Sequence[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
