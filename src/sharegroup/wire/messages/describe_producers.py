"""DescribeProducers (API key 61).

Source: Kafka's message definitions DescribeProducersRequest.json, DescribeProducersResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, i32, i64, message, string


@message
class TopicRequest(Message):
    """A topic with partitions whose producers are to be described."""

    name: str = string()
    partition_indexes: Sequence[int] = array("i32")


@message
class DescribeProducersRequest(Message):
    """DescribeProducersRequest, versions 0-0."""

    FLEXIBLE = 0

    topics: Sequence[TopicRequest] = array(TopicRequest)


@message
class ProducerState(Message):
    """A producer as a partition knows it."""

    producer_id: int = i64()
    producer_epoch: int = i32()
    last_sequence: int = i32(default=-1)
    last_timestamp: int = i64(default=-1)
    coordinator_epoch: int = i32()
    current_txn_start_offset: int = i64(default=-1)


@message
class PartitionResponse(Message):
    """The producers of one partition, or an error."""

    partition_index: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    active_producers: Sequence[ProducerState] = array(ProducerState)


@message
class TopicResponse(Message):
    """The results of one topic's partitions."""

    name: str = string()
    partitions: Sequence[PartitionResponse] = array(PartitionResponse)


@message
class DescribeProducersResponse(Message):
    """DescribeProducersResponse, versions 0-0."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    topics: Sequence[TopicResponse] = array(TopicResponse)
