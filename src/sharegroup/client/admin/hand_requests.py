"""``Admin``'s requests by which an operator lays hands on a share group: pauses it, and decides about
its records in place of their consumers."""

from __future__ import annotations

from typing import Final

from sharegroup.client.admin.descriptions import ResourceType
from sharegroup.client.admin.group_requests import answer_error, describe_share_group
from sharegroup.client.admin.topic_requests import alter_configs, leaders_of
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ack_type import AckType
from sharegroup.model.errors import UnsupportedVersion, error_from_code
from sharegroup.model.ids import TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)

BLOCKED_RECORDS_FEATURE: Final = "share.blocked.records"
BY_HAND_FEATURE: Final = "share.by.hand"
PAUSED: Final = "share.paused"


async def set_paused(cluster: Cluster, group_id: str, *, paused: bool) -> None:
    """IncrementalAlterConfigs of a group that exists."""
    await describe_share_group(cluster, group_id)  # an error if the group does not exist
    if BY_HAND_FEATURE not in cluster.features:
        raise UnsupportedVersion("the broker cannot pause a group")
    settings = {PAUSED: "true" if paused else None}
    await alter_configs(cluster, ResourceType.GROUP, group_id, settings)


async def decide_blocked_record(
    cluster: Cluster, group_id: str, at: TopicPartition, offset: int, kind: AckType
) -> None:
    """ShareAcknowledge by an operator, not by a member, at the partition's leader."""
    [leader] = await leaders_of(cluster, [at])
    await cluster.connection(leader)
    if BLOCKED_RECORDS_FEATURE not in cluster.features:
        raise UnsupportedVersion("the broker has no records that wait for an operator")
    topic = await cluster.topic(at.topic)
    batch = AcknowledgementBatch(offset, offset, [kind])
    request = ShareAcknowledgeRequest(
        group_id=group_id,
        member_id=None,
        topics=[AcknowledgeTopic(topic.topic_id, [AcknowledgePartition(at.partition, [batch])])],
        by_hand=True,
    )
    response = await cluster.send(leader, apis.SHARE_ACKNOWLEDGE, request)
    if response.error_code:
        raise error_from_code(response.error_code, response.error_message)
    for answer in (one for found in response.responses for one in found.partitions):
        error = answer_error(answer)
        if error is not None:
            raise error
