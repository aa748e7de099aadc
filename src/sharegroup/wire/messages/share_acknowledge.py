"""ShareAcknowledge (API key 79).

Source: Kafka's message definitions ShareAcknowledgeRequest.json, ShareAcknowledgeResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.messages.acknowledgement_notes import Pause, Reason
from sharegroup.wire.messages.ranges import Range
from sharegroup.wire.schema import (
    Message,
    array,
    boolean,
    i16,
    i32,
    i64,
    message,
    string,
    struct,
    uuid,
)


@message
class AcknowledgementBatch(Message):
    """A range of offsets with one type for all of them, or a type for each."""

    first_offset: int = i64()
    last_offset: int = i64()
    acknowledge_types: Sequence[int] = array("i8")


@message
class AcknowledgePartition(Message):
    """A partition with its acknowledgements."""

    partition_index: int = i32()
    acknowledgement_batches: Sequence[AcknowledgementBatch] = array(AcknowledgementBatch)
    reasons: Sequence[Reason] = array(Reason, tag=9000)
    """Ours: why records are rejected or released, for their dead letters."""
    pauses: Sequence[Pause] = array(Pause, tag=9001)
    """Ours: how long released records must not be delivered again, in place of the group's back-off
    (feature ``share.release.backoff``)."""


@message
class AcknowledgeTopic(Message):
    """A topic with partitions to acknowledge."""

    topic_id: UUID = uuid()
    partitions: Sequence[AcknowledgePartition] = array(AcknowledgePartition)


@message
class ShareAcknowledgeRequest(Message):
    """ShareAcknowledgeRequest, versions 1-2."""

    FLEXIBLE = 1

    group_id: str | None = string(default=None, nullable="0+")
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = i32()
    is_renew_ack: bool = boolean("2+")
    topics: Sequence[AcknowledgeTopic] = array(AcknowledgeTopic)
    by_hand: bool = boolean(tag=9000)
    """Ours: an operator, who is no member and has no session, says RELEASE or REJECT of single
    records that are blocked. A broker that does not know this field finds no such session."""
    every_state: bool = boolean(tag=9001)
    """Ours, with ``by_hand``: decisions about ranges, and about all records in them that are not
    finished; each is ACCEPT, RELEASE, REJECT, RENEW, or GAP to purge them. The pauses say how
    long locks are to be extended (feature ``share.by.hand``)."""
    transactional_id: str = string(tag=9002)
    """Ours: the acknowledgements belong to the open transaction of this id; each is ACCEPT or
    REJECT. The member's session is not looked at (feature ``share.transactional.acks``)."""
    producer_id: int = i64(default=-1, tag=9003)
    """Ours: with a transactional id, its producer."""
    producer_epoch: int = i16(default=-1, tag=9004)
    """Ours: with a transactional id, its producer's epoch."""


@message
class LeaderIdAndEpoch(Message):
    """The current leader of a partition."""

    leader_id: int = i32()
    leader_epoch: int = i32()


@message
class PartitionData(Message):
    """Whether the acknowledgements of one partition took effect."""

    partition_index: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch)
    gone_back: Sequence[Range] = array(Range, tag=9000)
    """Ours: accepts that went back without an error, with a release of the same request (order per
    key). Not there when there are none."""
    decided: int = i64(tag=9001)
    """Ours: how many records the decisions by hand were about."""
    held: int = i64(tag=9002)
    """Ours: how many of these were held by members."""


@message
class ShareAcknowledgeTopicResponse(Message):
    """The results of one topic's partitions."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@message
class NodeEndpoint(Message):
    """The address of a leader that the answer names."""

    node_id: int = i32()
    host: str = string()
    port: int = i32()
    rack: str | None = string(default=None, nullable="0+")


@message
class ShareAcknowledgeResponse(Message):
    """ShareAcknowledgeResponse, versions 1-2."""

    FLEXIBLE = 1

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    acquisition_lock_timeout_ms: int = i32("2+")
    responses: Sequence[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint)
