"""``Admin``'s requests by which an operator lays hands on a share group: pauses it, and decides
about its records in place of their consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.client.admin.descriptions import DecidedRecords, OffsetSpec, ResourceType
from sharegroup.client.admin.group_requests import answer_error, describe_share_group
from sharegroup.client.admin.topic_requests import alter_configs, leaders_of, list_offsets
from sharegroup.client.clock import wall_ms
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ack_type import AckType
from sharegroup.model.errors import UnknownTopicId, UnsupportedVersion
from sharegroup.model.ids import TopicPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.model.printable import encodable
from sharegroup.wire import apis
from sharegroup.wire.messages.acknowledgement_notes import Pause, Reason
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from sharegroup.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    PartitionData,
    ShareAcknowledgeRequest,
)

BLOCKED_RECORDS_FEATURE: Final = "share.blocked.records"
BY_HAND_FEATURE: Final = "share.by.hand"
PAUSED: Final = "share.paused"
GROUPS_AT_ONCE: Final = 1_000
RANGES_MAX: Final = 1_000
"""Ranges in one request."""


async def set_paused(cluster: Cluster, group_id: str, *, paused: bool) -> None:
    """IncrementalAlterConfigs of a group that exists."""
    await describe_share_group(cluster, group_id)  # an error if the group does not exist
    if BY_HAND_FEATURE not in cluster.features:
        raise UnsupportedVersion("the broker cannot pause a group")
    settings = {PAUSED: "true" if paused else None}
    await alter_configs(cluster, ResourceType.GROUP, group_id, settings)


async def settings_of_groups(
    cluster: Cluster, groups: Sequence[str], names: Sequence[str]
) -> dict[str, dict[str, str]]:
    """DescribeConfigs of many groups, of some settings, GROUPS_AT_ONCE in a request. Settings that
    have no value, that the broker does not know or that may not be seen are left out."""
    found: dict[str, dict[str, str]] = {name: {} for name in groups}
    for at in range(0, len(groups), GROUPS_AT_ONCE):
        wanted = [
            DescribeConfigsResource(int(ResourceType.GROUP), name, [*names])
            for name in groups[at : at + GROUPS_AT_ONCE]
        ]
        request = DescribeConfigsRequest(resources=wanted)
        answer = await cluster.send_to_any(apis.DESCRIBE_CONFIGS, request)
        for one in answer.results:
            found[one.resource_name] = {each.name: each.value for each in one.configs if each.value}
    return found


async def purge_ends(
    cluster: Cluster, partitions: Sequence[TopicPartition], older_than_ms: int | None
) -> dict[TopicPartition, int]:
    """ListOffsets: one past the last record to purge, of each partition."""
    listed = await list_offsets(cluster, partitions, OffsetSpec.LATEST)
    ends = {at: one.offset for at, one in listed.items()}
    if older_than_ms is None:
        return ends
    young = await list_offsets(cluster, partitions, max(0, wall_ms() - older_than_ms))
    return {at: young[at].offset if young[at].offset >= 0 else end for at, end in ends.items()}


async def decide_blocked_record(
    cluster: Cluster, group_id: str, at: TopicPartition, offset: int, kind: AckType
) -> None:
    """A decision about one record that is blocked."""
    [leader] = await leaders_of(cluster, [at])
    await cluster.connection(leader)
    if BLOCKED_RECORDS_FEATURE not in cluster.features:
        raise UnsupportedVersion("the broker has no records that wait for an operator")
    wanted = AcknowledgePartition(at.partition, [AcknowledgementBatch(offset, offset, [kind])])
    await _decide(cluster, group_id, at, wanted, every_state=False)


async def decide_records(
    cluster: Cluster,
    group_id: str,
    at: TopicPartition,
    ranges: Sequence[OffsetRange],
    kind: AckType,
    *,
    reason: str | None = None,
    extend_ms: int | None = None,
) -> DecidedRecords:
    """Decisions about all records of ``ranges`` that are not finished."""
    [leader] = await leaders_of(cluster, [at])
    await cluster.connection(leader)
    if BY_HAND_FEATURE not in cluster.features:
        raise UnsupportedVersion("the broker takes no decisions about records by hand")
    records = held = 0
    for some in range(0, len(ranges), RANGES_MAX):
        part = ranges[some : some + RANGES_MAX]
        wanted = AcknowledgePartition(
            at.partition, [AcknowledgementBatch(first, last, [kind]) for first, last in part]
        )
        if reason is not None:
            wanted.reasons = [Reason(first, last, encodable(reason)) for first, last in part]
        if extend_ms is not None:
            wanted.pauses = [Pause(first, last, extend_ms) for first, last in part]
        answer = await _decide(cluster, group_id, at, wanted, every_state=True)
        records, held = records + answer.decided, held + answer.held
    return DecidedRecords(records=records, held=held)


async def _decide(
    cluster: Cluster,
    group_id: str,
    at: TopicPartition,
    wanted: AcknowledgePartition,
    *,
    every_state: bool,
    again: bool = True,
) -> PartitionData:
    """ShareAcknowledge by an operator, not by a member, at the partition's leader. An id that is
    not known is looked up once more: the topic may have been made anew."""
    [leader] = await leaders_of(cluster, [at])
    topic = await cluster.topic(at.topic)
    request = ShareAcknowledgeRequest(
        group_id=group_id,
        member_id=None,
        topics=[AcknowledgeTopic(topic.topic_id, [wanted])],
        by_hand=True,
        every_state=every_state,
    )
    response = await cluster.send(leader, apis.SHARE_ACKNOWLEDGE, request)
    error = answer_error(response)
    if error is None:
        answer: PartitionData
        [answer] = [one for found in response.responses for one in found.partitions]
        error = answer_error(answer)
        if error is None:
            return answer
    if error.retriable:
        await cluster.refresh()  # so that a retry knows the current leader
    if again and isinstance(error, UnknownTopicId):
        return await _decide(cluster, group_id, at, wanted, every_state=every_state, again=False)
    raise error
