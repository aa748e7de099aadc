"""The consumer's requests about offsets: one attempt each; errors are raised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from sharegroup.client.admin.topic_requests import by_topic
from sharegroup.client.core.access_errors import error_on
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.key_ranges import COMMITS_RANGES, FEATURE
from sharegroup.client.core.positions import NO_EPOCH, Position
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.versions import LAST_BY_NAME
from sharegroup.cooperative.intervals import Intervals
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID, TopicPartition
from sharegroup.wire.apis import OFFSET_COMMIT, OFFSET_FETCH, OFFSET_FOR_LEADER_EPOCH
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from sharegroup.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from sharegroup.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from sharegroup.wire.messages.ranges import Range

LANE: Final = "group"
"""The lane of requests to the coordinator: on the usual one they would wait for fetches."""
CONSUMER: Final = -1

UNKNOWN_TOPIC: Final = (errors.UnknownTopicId, errors.UnknownTopicOrPartition)
"""The errors of a partition whose topic the coordinator does not know."""
TopicIds = Mapping[str, UUID]
"""Topic → its id."""


def raise_coordinator_error(cluster: Cluster, group_id: str, code: int) -> None:
    """Raise the error of a coordinator's answer, if it has one."""
    if code:
        error = error_on(code, None, "READ", f"group {group_id!r}")
        if isinstance(error, errors.NotCoordinator | errors.CoordinatorNotAvailable):
            cluster.forget_coordinator(group_id)
        raise error


async def commit_offsets(
    cluster: Cluster,
    identity: MemberIdentity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    topic_ids: TopicIds = MappingProxyType({}),
) -> dict[TopicPartition, errors.KafkaError]:
    """OffsetCommit. Returns the partitions that are not committed because their topics are not
    known, and the errors.

    Args:
        topic_ids: topic → the id of the topic that the offsets are of. Of topics that are not here,
            the offsets count for whatever topic has the name.

    Raises:
        KafkaError: the coordinator refuses. Some partitions may be committed.
    """
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            topic_id=topic_ids.get(name, NULL_TOPIC_ID),
            partitions=[_to_commit(index, offsets[TopicPartition(name, index)]) for index in own],
        )
        for name, own in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(
        group_id=identity.group_id,
        generation_id_or_member_epoch=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        topics=topics,
    )
    response = await _commit(cluster, request)
    names = {topic.topic_id: topic.name for topic in topics}
    unknown: dict[TopicPartition, errors.KafkaError] = {}
    for answer in response.topics:
        for one in answer.partitions:
            try:
                raise_coordinator_error(cluster, identity.group_id, one.error_code)
            except UNKNOWN_TOPIC as error:
                name = answer.name or names.get(answer.topic_id, "")
                unknown[TopicPartition(name, one.partition_index)] = error
    return unknown


async def _commit(cluster: Cluster, request: OffsetCommitRequest) -> OffsetCommitResponse:
    by_name = any(topic.topic_id == NULL_TOPIC_ID for topic in request.topics)
    response: OffsetCommitResponse = await cluster.send_to_coordinator(
        request.group_id,
        OFFSET_COMMIT,
        request,
        lane=LANE,
        version_max=LAST_BY_NAME[OFFSET_COMMIT] if by_name else None,
    )
    return response


async def commit_ranges(
    cluster: Cluster,
    identity: MemberIdentity,
    ranges: Mapping[TopicPartition, Intervals],
    begins: Mapping[TopicPartition, int] | None = None,
    topic_ids: TopicIds = MappingProxyType({}),
) -> None:
    """OffsetCommit with ranges of offsets (KIP-X).

    Args:
        ranges: the ranges to commit.
        begins: where the group begins, in partitions where it has committed nothing.
        topic_ids: as in :func:`commit_offsets`.

    Raises:
        UnknownTopicId, UnknownTopicOrPartition: a topic is not known. Others may be committed.
        UnsupportedVersion: the coordinator does not know ranges.
        KafkaError: the coordinator refuses. Ranges that are committed already are no error.
    """
    starts = begins or {}
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            topic_id=topic_ids.get(name, NULL_TOPIC_ID),
            partitions=[
                _to_commit_ranges(index, ranges.get(where, ()), starts.get(where, 0))
                for index in own
                for where in [TopicPartition(name, index)]
            ],
        )
        for name, own in by_topic([*ranges, *(w for w in starts if w not in ranges)]).items()
    ]
    request = OffsetCommitRequest(
        group_id=identity.group_id,
        generation_id_or_member_epoch=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        topics=topics,
    )
    await check_commits_ranges(cluster, identity.group_id)
    response = await _commit(cluster, request)
    for topic in response.topics:
        for one in topic.partitions:
            if one.error_code != errors.IndividualCommitTooOld.code:
                raise_coordinator_error(cluster, identity.group_id, one.error_code)


async def check_commits_ranges(
    cluster: Cluster, group_id: str, level: int = COMMITS_RANGES
) -> None:
    """Check that a group's coordinator knows ranges of offsets. A coordinator that does not would
    take the request for a commit of a plain offset.

    Args:
        level: the level of the feature that the coordinator must have.

    Raises:
        UnsupportedVersion: the coordinator does not have it.
        KafkaError: the coordinator cannot be reached.
    """
    connection = await cluster.connection(await cluster.coordinator(group_id), LANE)
    if connection.features.get(FEATURE, (0, 0))[1] < level:
        what = "commit single records" if level == COMMITS_RANGES else "fetch in turns"
        raise errors.UnsupportedVersion(
            f"group {group_id!r} cannot {what}: its broker has no feature {FEATURE} of level "
            f"{level}, as that of `sharegroup serve`"
        )


def _to_commit_ranges(index: int, ranges: Intervals, begin: int) -> OffsetCommitRequestPartition:
    mine = [Range(*each) for each in ranges] or [Range(begin, begin - 1)]
    return OffsetCommitRequestPartition(index, begin, NO_EPOCH, "", mine)


def _to_commit(index: int, offset: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        index, offset.offset, offset.leader_epoch, offset.metadata or ""
    )


async def committed_offsets(
    cluster: Cluster,
    identity: MemberIdentity,
    wheres: Iterable[TopicPartition] | None,
    *,
    require_stable: bool = True,
    with_ranges: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """OffsetFetch of these partitions (None: of all). Partitions without a committed offset are
    left out.

    Args:
        require_stable: while a transaction with offsets of the group is under way, raise
            UnstableOffsetCommit, which is transient.
        with_ranges: ask for the ranges committed after the offsets, too, if the broker knows
            ranges (KIP-X).
    """
    group_id = identity.group_id
    wanted = None if wheres is None else by_topic(wheres).items()
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        topics=None
        if wanted is None
        else [OffsetFetchRequestTopics(name=t, partition_indexes=own) for t, own in wanted],
    )
    if identity.member_id and identity.generation_id > 0:
        group.member_id, group.member_epoch = identity.member_id, identity.generation_id
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if wanted is None
        else [OffsetFetchRequestTopic(name, own) for name, own in wanted],
        groups=[group],
        require_stable=require_stable,
        with_ranges=with_ranges,
    )
    response: OffsetFetchResponse = await cluster.send_to_coordinator(
        group_id, OFFSET_FETCH, request, lane=LANE
    )
    answer = response.groups[0] if response.groups else response
    raise_coordinator_error(cluster, group_id, answer.error_code)
    found = {}
    for topic in answer.topics:
        for one in topic.partitions:
            raise_coordinator_error(cluster, group_id, one.error_code)
            if one.committed_offset >= 0:
                found[TopicPartition(topic.name, one.partition_index)] = OffsetAndMetadata(
                    one.committed_offset,
                    one.committed_leader_epoch,
                    one.metadata or "",
                    _ranges_of(one),
                )
    return found


def _ranges_of(
    one: OffsetFetchResponsePartition | OffsetFetchResponsePartitions,
) -> Intervals:
    if isinstance(one, OffsetFetchResponsePartitions):
        return tuple((each.first, each.last) for each in one.offset_ranges)
    return ()


async def epoch_ends(
    cluster: Cluster,
    node_id: int,
    positions: Mapping[TopicPartition, tuple[Position, int]],
) -> dict[TopicPartition, Position | errors.KafkaError]:
    """OffsetForLeaderEpoch (KIP-320): where each position's leader epoch ends in the leader's log.

    Args:
        positions: partition → its position, and the epoch of its leader.
    """
    topics = [
        OffsetForLeaderTopic(
            name,
            [
                OffsetForLeaderPartition(index, leader_epoch, position.leader_epoch)
                for index in own
                for position, leader_epoch in [positions[TopicPartition(name, index)]]
            ],
        )
        for name, own in by_topic(positions).items()
    ]
    request = OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=topics)
    response: OffsetForLeaderEpochResponse = await cluster.send(
        node_id, OFFSET_FOR_LEADER_EPOCH, request, lane=LANE
    )
    return {
        TopicPartition(topic.topic, one.partition): errors.error_from_code(one.error_code)
        if one.error_code
        else Position(one.end_offset, one.leader_epoch)
        for topic in response.topics
        for one in topic.partitions
    }
