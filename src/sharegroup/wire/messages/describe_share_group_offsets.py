"""DescribeShareGroupOffsets (API key 90).

Source: Kafka's message definitions DescribeShareGroupOffsetsRequest.json,
DescribeShareGroupOffsetsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import (
    Message,
    array,
    boolean,
    i8,
    i16,
    i32,
    i64,
    message,
    string,
    uuid,
)


@message
class DescribeShareGroupOffsetsRequestTopic(Message):
    """A topic with the partitions to describe."""

    topic_name: str = string()
    partitions: Sequence[int] = array("i32")


@message
class DescribeShareGroupOffsetsRequestGroup(Message):
    """A group, and the topics to describe; null: all that it has state in."""

    group_id: str = string()
    topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, nullable="0+"
    )
    states_from: int = i64(tag=9000, default=-1)
    """Ours (feature ``share.record.states``): also return the state of the records in flight at or
    after this offset; -1 asks for none."""
    counts: bool = boolean(tag=9001, default=False)
    """Ours (the same feature): also return the counts of delayed and dead records, and the time of
    the oldest unfinished one."""


@message
class DescribeShareGroupOffsetsRequest(Message):
    """DescribeShareGroupOffsetsRequest, versions 0-1."""

    FLEXIBLE = 0

    groups: Sequence[DescribeShareGroupOffsetsRequestGroup] = array(
        DescribeShareGroupOffsetsRequestGroup
    )


@message
class RecordStates(Message):
    """Ours, in DescribeShareGroupOffsetsResponse: records ``first_offset`` … ``last_offset``, both
    included."""

    first_offset: int = i64()
    last_offset: int = i64()
    delivery_state: int = i8()
    delivery_count: int = i16()
    member_id: str | None = string(default=None, nullable="0+")
    """The member that holds them; null unless they are acquired."""
    lock_ms: int = i64(default=-1)
    """How long their lock still lasts; -1 unless they are acquired."""
    blocked: bool = boolean(tag=9000)
    """They are available, but wait for an operator (``share.ordering.on.failure=block``)."""


@message
class ArchivedOffsets(Message):
    """Ours, in DescribeShareGroupOffsetsResponse: records ``first_offset`` … ``last_offset``, both
    included, that were archived."""

    first_offset: int = i64()
    last_offset: int = i64()
    reason: int = i8()
    """1 delivery limit, 2 rejected, 3 damaged, 4 deleted."""
    delivery_count: int = i16()


@message
class DeadOffsets(Message):
    """Ours, in DescribeShareGroupOffsetsResponse: records ``first_offset`` … ``last_offset``, both
    included, that failed for good and have no dead letter yet."""

    first_offset: int = i64()
    last_offset: int = i64()
    delivery_count: int = i16()
    cause: int = i8()
    """1 rejected, 2 released, 3 lock expired, 4 session ended, 5 operator, 6 unknown."""
    member_id: str = string()
    """The member that held them; empty if no member did."""
    reason: str = string()
    """What the member said; empty if it said nothing."""
    failed_ms: int = i64()
    """When they failed, in milliseconds since 1970; -1 if that is not known."""


@message
class DamagedOffsets(Message):
    """Ours, in DescribeShareGroupOffsetsResponse: offsets ``first_offset`` … ``last_offset``, both
    included, that the log has lost to damage."""

    first_offset: int = i64()
    last_offset: int = i64()


@message
class DescribeShareGroupOffsetsResponsePartition(Message):
    """Start offset and lag of a group in one partition."""

    partition_index: int = i32()
    start_offset: int = i64()
    leader_epoch: int = i32()
    lag: int = i64("1+", default=-1)
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    in_flight_count: int = i32(tag=9000, default=-1)
    """Ours: records that members hold now; -1 where the broker does not say."""
    record_states: Sequence[RecordStates] = array(RecordStates, tag=9001)
    """Ours: ascending and without holes from ``states_from``, or from the start offset where that
    is higher. What does not fit is left out: ask again from the offset after the last."""
    end_offset: int = i64(tag=9002, default=-1)
    """Ours: no record at or after this offset was ever delivered; -1 unless states were asked
    for."""
    damaged: Sequence[DamagedOffsets] = array(DamagedOffsets, tag=9003)
    """Ours: the known damaged offsets between the log's start and end, ascending."""
    archived: Sequence[ArchivedOffsets] = array(ArchivedOffsets, tag=9004)
    """Ours: the most recently archived records, ascending, below and above the start offset, as far
    as the leader remembers them; only where states were asked for."""
    begins_at: int = i64(tag=9005, default=-1)
    """Ours: where the group is going to begin, once that is chosen, in a partition that has no
    start offset yet; -1 in all others."""
    dead: Sequence[DeadOffsets] = array(DeadOffsets, tag=9006)
    """Ours: the records whose dead letters are still to be written, ascending, as many as an answer
    may have; only where states were asked for."""
    delayed_count: int = i32(tag=9007, default=-1)
    """Ours: records that are available and not due yet; -1 unless counts were asked for."""
    dead_count: int = i64(tag=9008, default=-1)
    """Ours: records whose dead letters are still to be written; -1 unless counts were asked for."""
    oldest_ms: int = i64(tag=9009, default=-1)
    """Ours: the time of the oldest record that is not finished, in milliseconds since 1970; -1 if
    there is none, or counts were not asked for."""
    redelivered_count: int = i64(tag=9010, default=-1)
    """Ours: records that were delivered once more since the leader has loaded the partition; -1
    unless counts were asked for."""


@message
class DescribeShareGroupOffsetsResponseTopic(Message):
    """The partitions of one topic."""

    topic_name: str = string()
    topic_id: UUID = uuid()
    partitions: Sequence[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition
    )


@message
class DescribeShareGroupOffsetsResponseGroup(Message):
    """The offsets of one group, or an error."""

    group_id: str = string()
    topics: Sequence[DescribeShareGroupOffsetsResponseTopic] = array(
        DescribeShareGroupOffsetsResponseTopic
    )
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    member_count: int = i32(tag=9000, default=-1)
    """Ours: the number of members; -1 unless counts were asked for."""
    silent_count: int = i32(tag=9001, default=-1)
    """Ours: the number of members that have missed a heartbeat, as ``member_count``."""


@message
class DescribeShareGroupOffsetsResponse(Message):
    """DescribeShareGroupOffsetsResponse, versions 0-1."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    groups: Sequence[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup
    )
