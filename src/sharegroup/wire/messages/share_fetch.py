"""ShareFetch (API key 78).

Source: Kafka's message definitions ShareFetchRequest.json, ShareFetchResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.messages.acknowledgement_notes import Pause, Reason
from sharegroup.wire.messages.ranges import Range
from sharegroup.wire.messages.share_acknowledge import AcknowledgementBatch
from sharegroup.wire.schema import (
    Message,
    array,
    boolean,
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
class FetchPartition(Message):
    """A partition to acquire records from, with acknowledgements that ride along."""

    partition_index: int = i32()
    acknowledgement_batches: Sequence[AcknowledgementBatch] = array(AcknowledgementBatch)
    reasons: Sequence[Reason] = array(Reason, tag=9000)
    """Ours: why records are rejected or released, for their dead letters."""
    pauses: Sequence[Pause] = array(Pause, tag=9001)
    """Ours: how long released records must not be delivered again, in place of the group's back-off
    (feature ``share.release.backoff``)."""


@message
class FetchTopic(Message):
    """A topic with partitions to acquire records from."""

    topic_id: UUID = uuid()
    partitions: Sequence[FetchPartition] = array(FetchPartition)


@message
class ForgottenTopic(Message):
    """Partitions of one topic that leave the share session."""

    topic_id: UUID = uuid()
    partitions: Sequence[int] = array("i32")


@message
class ShareFetchRequest(Message):
    """ShareFetchRequest, versions 1-2."""

    FLEXIBLE = 1

    group_id: str | None = string(default=None, nullable="0+")
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = i32()
    max_wait_ms: int = i32()
    min_bytes: int = i32()
    max_bytes: int = i32(default=2147483647)
    max_records: int = i32()
    batch_size: int = i32()
    share_acquire_mode: int = i8("2+")
    is_renew_ack: bool = boolean("2+")
    topics: Sequence[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = array(ForgottenTopic)
    without_records: bool = boolean(tag=9000)
    """Ours: acquire, but send no record bytes (feature ``share.acquire.without.records``)."""


@message
class LeaderIdAndEpoch(Message):
    """The current leader of a partition."""

    leader_id: int = i32()
    leader_epoch: int = i32()


@message
class AcquiredRecords(Message):
    """A range of offsets that the member has acquired, and its delivery count."""

    first_offset: int = i64()
    last_offset: int = i64()
    delivery_count: int = i16()


@message
class PartitionData(Message):
    """The acquired records of one partition, and the result of its acknowledgements."""

    partition_index: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    acknowledge_error_code: int = i16()
    acknowledge_error_message: str | None = string(default=None, nullable="0+")
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch)
    records: bytes | memoryview | None = records()
    acquired_records: Sequence[AcquiredRecords] = array(AcquiredRecords)
    gone_back: Sequence[Range] = array(Range, tag=9000)
    """Ours, as in ShareAcknowledgeResponse."""
    ordered: bool = boolean(tag=9001)
    """Ours: these records come in order per key, so a release takes back the later ones of its key
    that the member holds."""


@message
class ShareFetchableTopicResponse(Message):
    """The partitions of one topic."""

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
class ShareFetchResponse(Message):
    """ShareFetchResponse, versions 1-2."""

    FLEXIBLE = 1

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    acquisition_lock_timeout_ms: int = i32()
    responses: Sequence[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint)
