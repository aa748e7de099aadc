"""Fetch (API key 1).

Source: Kafka's message definitions FetchRequest.json, FetchResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.messages.ranges import Range
from sharegroup.wire.schema import (
    Message,
    array,
    i8,
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
class ReplicaState(Message):
    """The replica that fetches; -1: a consumer does."""

    replica_id: int = i32("15+", default=-1)
    replica_epoch: int = i64("15+", default=-1)


@message
class FetchPartition(Message):
    """A partition, and where to read it from."""

    partition: int = i32()
    current_leader_epoch: int = i32("9+", default=-1)
    fetch_offset: int = i64()
    last_fetched_epoch: int = i32("12+", default=-1)
    log_start_offset: int = i64("5+", default=-1)
    partition_max_bytes: int = i32()
    replica_directory_id: UUID = uuid("17+", tag=0)
    high_watermark: int = i64("18+", default=9223372036854775807, tag=1)
    key_ranges: Sequence[Range] = array(Range, tag=9000)
    """Ours: answer only records whose key's hash lies in one of these (KIP-X)."""
    turn: int = i32(tag=9001)
    """Ours: the number of the member's turn, from 1 on: answer records that no other member of its
    group has (KIP-X, "Cooperative Fetch"). 0: all records."""


@message
class FetchTopic(Message):
    """A topic with the partitions to read."""

    topic: str = string("4-12")
    topic_id: UUID = uuid("13+")
    partitions: Sequence[FetchPartition] = array(FetchPartition)


@message
class CooperativeMember(Message):
    """Ours: the member of a consumer group that fetches in turns."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = i32()


@message
class ForgottenTopic(Message):
    """Partitions of one topic that leave the fetch session."""

    topic: str = string("7-12")
    topic_id: UUID = uuid("13+")
    partitions: Sequence[int] = array("i32", "7+")


@message
class FetchRequest(Message):
    """FetchRequest, versions 4-18."""

    FLEXIBLE = 12

    cluster_id: str | None = string("12+", default=None, tag=0, nullable="12+")
    replica_id: int = i32("4-14", default=-1)
    replica_state: ReplicaState | None = struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = i32()
    min_bytes: int = i32()
    max_bytes: int = i32(default=2147483647)
    isolation_level: int = i8()
    session_id: int = i32("7+")
    session_epoch: int = i32("7+", default=-1)
    topics: Sequence[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")
    member: CooperativeMember | None = struct(
        CooperativeMember, "12+", default=None, tag=9000, nullable="12+"
    )
    """Ours: who fetches in turns."""


@message
class EpochEndOffset(Message):
    """Where the log of a follower departs from the leader's: a leader epoch and its end."""

    epoch: int = i32("12+", default=-1)
    end_offset: int = i64("12+", default=-1)


@message
class LeaderIdAndEpoch(Message):
    """The current leader of a partition."""

    leader_id: int = i32("12+", default=-1)
    leader_epoch: int = i32("12+", default=-1)


@message
class SnapshotId(Message):
    """The snapshot that a follower must fetch in place of records."""

    end_offset: int = i64("12+", default=-1)
    epoch: int = i32("12+", default=-1)


@message
class AbortedTransaction(Message):
    """An aborted transaction with records in the answer: its producer and first offset."""

    producer_id: int = i64()
    first_offset: int = i64()


@message
class PartitionData(Message):
    """The records of one partition, or an error."""

    partition_index: int = i32()
    error_code: int = i16()
    high_watermark: int = i64()
    last_stable_offset: int = i64(default=-1)
    log_start_offset: int = i64("5+", default=-1)
    diverging_epoch: EpochEndOffset | None = struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, "12+", tag=2)
    aborted_transactions: Sequence[AbortedTransaction] | None = array(
        AbortedTransaction, nullable="0+"
    )
    preferred_read_replica: int = i32("11+", default=-1)
    records: bytes | None = records()
    read_up_to: int = i64(tag=9000, default=-1)
    """Ours: the offset after the last one that was looked at for the key ranges, where the next
    fetch begins; -1 if the request has no key ranges. Of a turn: the offset after its records."""
    without_records: Sequence[Range] = array(Range, tag=9001)
    """Ours: the offsets before ``read_up_to`` that no record has, of any key: those of markers, and
    of records that were compacted away. Whoever commits single records commits them, too."""
    given: Sequence[Range] = array(Range, tag=9002)
    """Ours: the offsets that the member has got in its turn. Other records of ``records`` are not
    its own."""


@message
class FetchableTopicResponse(Message):
    """The partitions of one topic."""

    topic: str = string("4-12")
    topic_id: UUID = uuid("13+")
    partitions: Sequence[PartitionData] = array(PartitionData)


@message
class NodeEndpoint(Message):
    """The address of a leader that the answer names."""

    node_id: int = i32("16+")
    host: str = string("16+")
    port: int = i32("16+")
    rack: str | None = string("16+", default=None, nullable="16+")


@message
class FetchResponse(Message):
    """FetchResponse, versions 4-18."""

    FLEXIBLE = 12

    throttle_time_ms: int = i32()
    error_code: int = i16("7+")
    session_id: int = i32("7+")
    responses: Sequence[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
