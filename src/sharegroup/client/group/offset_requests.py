"""The consumer's requests about offsets: one attempt each; errors are raised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from sharegroup.client.admin.topic_requests import by_topic
from sharegroup.client.core.positions import NO_EPOCH, Position
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    error_from_code,
)
from sharegroup.model.ids import TopicPartition
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
)
from sharegroup.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LANE: Final = "group"
"""Requests to the coordinator have their own connection: a fetch waits for records on the other."""
CONSUMER: Final = -1


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the offset of the record to read next."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


def raise_coordinator_error(cluster: Cluster, group_id: str, code: int) -> None:
    """Raise the error of a coordinator's answer, if it has one."""
    if code:
        error = error_from_code(code)
        if isinstance(error, NotCoordinator | CoordinatorNotAvailable):
            cluster.forget_coordinator(group_id)
        raise error


async def commit_offsets(
    cluster: Cluster,
    identity: MemberIdentity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    """OffsetCommit."""
    topics = [
        OffsetCommitRequestTopic(
            name=name,
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
    response: OffsetCommitResponse = await cluster.send_to_coordinator(
        identity.group_id, OFFSET_COMMIT, request, lane=LANE
    )
    for topic in response.topics:
        for one in topic.partitions:
            raise_coordinator_error(cluster, identity.group_id, one.error_code)


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
) -> dict[TopicPartition, OffsetAndMetadata]:
    """OffsetFetch: of those partitions that have a committed offset; None: of all.

    Args:
        require_stable: offsets of transactions that are under way are waited for
            (UnstableOffsetCommit, which is transient).
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
                    one.committed_offset, one.committed_leader_epoch, one.metadata or ""
                )
    return found


async def epoch_ends(
    cluster: Cluster,
    node_id: int,
    positions: Mapping[TopicPartition, tuple[Position, int]],
) -> dict[TopicPartition, Position | KafkaError]:
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
        TopicPartition(topic.topic, one.partition): error_from_code(one.error_code)
        if one.error_code
        else Position(one.end_offset, one.leader_epoch)
        for topic in response.topics
        for one in topic.partitions
    }
