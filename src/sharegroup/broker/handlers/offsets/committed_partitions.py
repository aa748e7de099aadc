"""The partitions in OffsetCommit and TxnOffsetCommit: which of them may be committed, and which
errors the others get (Kafka class KafkaApis)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.topics import Topic
from sharegroup.groups.offsets import NONE, Commit, CommittedOffset
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.model.limits import COMMITTED_OFFSETS_MAX
from sharegroup.model.offsets import OFFSET_MAX


class CommitRequestPartitions(NamedTuple):
    """A request's partitions. ``codes`` has the error code of each partition, topic by topic, in
    the request's order; 0 for the partitions in ``commits``. If the group refuses the request, its
    error replaces the error for metadata that is too large (Kafka class
    ``OffsetMetadataManager``)."""

    codes: list[list[int]]
    commits: list[Commit]


def sort_out(
    parts: BrokerParts,
    topics: Sequence[Any],
    context: RequestContext,
    *,
    by_id: bool,
    retention_ms: int = NONE,
) -> CommitRequestPartitions:
    """Which partitions of a request may be committed.

    Args:
        topics: the topics of the request; in both requests they have the same fields.
        by_id: the request names topics by their ids.
        retention_ms: the retention that the request wants; -1: the broker's.

    Raises:
        InvalidCommitOffsetSize: there are more than ``COMMITTED_OFFSETS_MAX``.
    """
    if sum(len(topic.partitions) for topic in topics) > COMMITTED_OFFSETS_MAX:
        raise errors.InvalidCommitOffsetSize
    length_max = parts.configs.broker.integer("offset.metadata.max.bytes")
    now_ms = parts.clock.wall_ms()
    expire_ms = NONE if retention_ms == NONE else min(now_ms + retention_ms, OFFSET_MAX)
    wanted = CommitRequestPartitions([], [])
    for asked in topics:
        try:
            topic = _find(parts, asked, context, by_id=by_id)
        except errors.KafkaError as error:
            wanted.codes.append([error.code] * len(asked.partitions))
            continue
        codes = []
        # A record with an expiry has no room for the topic's id.
        topic_id = topic.topic_id if expire_ms == NONE else NULL_TOPIC_ID
        for partition in asked.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            if not 0 <= index < topic.partition_count:
                codes.append(errors.UnknownTopicOrPartition.code)
            elif len(metadata) > length_max:
                codes.append(errors.OffsetMetadataTooLarge.code)
            else:
                codes.append(0)
                epoch = partition.committed_leader_epoch if expire_ms == NONE else NONE
                committed = CommittedOffset(
                    partition.committed_offset, epoch, metadata, now_ms, expire_ms, topic_id
                )
                wanted.commits.append(Commit(topic.name, index, committed))
        wanted.codes.append(codes)
    return wanted


async def commit_or_refuse(
    wanted: CommitRequestPartitions, commit: Callable[[Sequence[Commit]], Awaitable[None]]
) -> list[list[int]]:
    """Commit the partitions that may be committed. Returns the error code of each partition."""
    asks_group = (0, errors.OffsetMetadataTooLarge.code)
    if not any(code in asks_group for codes in wanted.codes for code in codes):
        return wanted.codes
    try:
        await commit(wanted.commits)
    except errors.KafkaError as error:
        return [
            [error.code if code in asks_group else code for code in codes] for codes in wanted.codes
        ]
    return wanted.codes


def _find(parts: BrokerParts, asked: Any, context: RequestContext, *, by_id: bool) -> Topic:
    if by_id:
        topic = parts.topics.find_id(asked.topic_id)
        if topic is None:
            raise errors.UnknownTopicId
        context.access.require_topic(Operation.READ, topic.name)
        return topic
    context.access.require_topic(Operation.READ, asked.name)
    topic = parts.topics.find(asked.name)
    if topic is None:
        raise errors.UnknownTopicOrPartition
    return topic
