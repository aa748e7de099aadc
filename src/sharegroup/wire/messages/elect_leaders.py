"""ElectLeaders (API key 43).

Source: Kafka's message definitions ElectLeadersRequest.json, ElectLeadersResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i8, i16, i32, message, string


@message
class TopicPartitions(Message):
    """Partitions of one topic whose leader is to be elected."""

    topic: str = string()
    partitions: Sequence[int] = array("i32")


@message
class ElectLeadersRequest(Message):
    """ElectLeadersRequest, versions 0-2."""

    FLEXIBLE = 2

    election_type: int = i8("1+")
    topic_partitions: Sequence[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = i32(default=60000)


@message
class PartitionResult(Message):
    """Whether one partition's leader was elected."""

    partition_id: int = i32()
    error_code: int = i16()
    error_message: str | None = string(nullable="0+")


@message
class ReplicaElectionResult(Message):
    """The results of one topic's partitions."""

    topic: str = string()
    partition_result: Sequence[PartitionResult] = array(PartitionResult)


@message
class ElectLeadersResponse(Message):
    """ElectLeadersResponse, versions 0-2."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    error_code: int = i16("1+")
    replica_election_results: Sequence[ReplicaElectionResult] = array(ReplicaElectionResult)
