"""Produce (API key 0).

Source: Kafka's message definitions ProduceRequest.json, ProduceResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import (
    Message,
    array,
    i16,
    i32,
    i64,
    message,
    records,
    string,
    struct,
    uuid,
)


@message
class PartitionProduceData(Message):
    """The record batches for one partition."""

    index: int = i32()
    records: bytes | None = records()


@message
class TopicProduceData(Message):
    """A topic with record batches for its partitions."""

    name: str = string("3-12")
    topic_id: UUID = uuid("13+")
    partition_data: Sequence[PartitionProduceData] = array(PartitionProduceData)


@message
class ProduceRequest(Message):
    """ProduceRequest, versions 3-13."""

    FLEXIBLE = 9

    transactional_id: str | None = string(default=None, nullable="0+")
    acks: int = i16()
    timeout_ms: int = i32()
    topic_data: Sequence[TopicProduceData] = array(TopicProduceData)


@message
class BatchIndexAndErrorMessage(Message):
    """A record for which its batch was refused, and why."""

    batch_index: int = i32("8+")
    batch_index_error_message: str | None = string("8+", default=None, nullable="8+")


@message
class LeaderIdAndEpoch(Message):
    """The current leader of a partition."""

    leader_id: int = i32("10+", default=-1)
    leader_epoch: int = i32("10+", default=-1)


@message
class RepeatedRecord(Message):
    """A record that was not appended, since its message id had been there; and where the first
    record of the id is. Not Kafka's."""

    batch_index: int = i32("9+")
    offset: int = i64("9+")


@message
class PartitionProduceResponse(Message):
    """Where the batches of one partition were appended, or an error."""

    index: int = i32()
    error_code: int = i16()
    base_offset: int = i64()
    log_append_time_ms: int = i64(default=-1)
    log_start_offset: int = i64("5+", default=-1)
    record_errors: Sequence[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", default=None, nullable="8+")
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "10+", tag=0)
    repeated: Sequence[RepeatedRecord] = array(RepeatedRecord, "9+", tag=9000)


@message
class TopicProduceResponse(Message):
    """The results of one topic's partitions."""

    name: str = string("3-12")
    topic_id: UUID = uuid("13+")
    partition_responses: Sequence[PartitionProduceResponse] = array(PartitionProduceResponse)


@message
class NodeEndpoint(Message):
    """The address of a leader that the answer names."""

    node_id: int = i32("10+")
    host: str = string("10+")
    port: int = i32("10+")
    rack: str | None = string("10+", default=None, nullable="10+")


@message
class ProduceResponse(Message):
    """ProduceResponse, versions 3-13."""

    FLEXIBLE = 9

    responses: Sequence[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = i32()
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
