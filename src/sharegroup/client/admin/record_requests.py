"""``Admin``'s requests for the states of a queue's records: one attempt each; errors are raised.

Our broker tells the states with the group's offsets (feature ``share.record.states``). Apache Kafka
has no such request for clients. So we read its durable state with the request that brokers use, and
with the epoch of the current leader, so that no leader is fenced (Kafka class
ShareCoordinatorShard).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.client.admin.archived_records import with_reasons
from sharegroup.client.admin.descriptions import PartitionRecords, RecordRange
from sharegroup.client.admin.group_requests import (
    answer_error,
    check_group,
    check_partitions,
    damaged_of,
)
from sharegroup.client.admin.topic_requests import by_topic
from sharegroup.client.network.cluster import Cluster
from sharegroup.cooperative.intervals import minus
from sharegroup.model.dead_records import Cause
from sharegroup.model.errors import error_from_code
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.share.archived import Reason
from sharegroup.share.record_state import RecordState
from sharegroup.share_state.state import ARCHIVING
from sharegroup.wire import apis
from sharegroup.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
    RecordStates,
)
from sharegroup.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sharegroup.wire.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadStateData,
)

RECORD_STATES_FEATURE: Final = "share.record.states"
SHARE_KEY: Final = 2

Found = dict[TopicPartition, PartitionRecords]


class _Described(NamedTuple):
    topic_id: UUID
    partition: DescribeShareGroupOffsetsResponsePartition


async def describe_record_states(
    cluster: Cluster, group_id: str, partitions: Sequence[TopicPartition] | None
) -> Found:
    """The states of the records in flight in these partitions; None: in all partitions that the
    group has."""
    await cluster.coordinator(group_id)
    if RECORD_STATES_FEATURE not in cluster.features:
        return await _stored(cluster, group_id, await _describe(cluster, group_id, partitions, -1))
    described = await _describe(cluster, group_id, partitions, 0)
    found = {where: _told(one.partition) for where, one in described.items()}
    for where in found:
        while (rest := _untold_from(found[where])) is not None:
            page = await _describe(cluster, group_id, [where], rest)
            found[where] = _joined(found[where], _told(page[where].partition), rest)
    return {
        where: with_reasons(one, _given_up(described[where].partition))
        for where, one in found.items()
    }


async def _describe(
    cluster: Cluster,
    group_id: str,
    partitions: Sequence[TopicPartition] | None,
    states_from: int,
) -> dict[TopicPartition, _Described]:
    topics = None
    if partitions is not None:
        topics = [
            DescribeShareGroupOffsetsRequestTopic(name, indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id, topics, states_from)]
    )
    response = await cluster.send_to_coordinator(
        group_id, apis.DESCRIBE_SHARE_GROUP_OFFSETS, request
    )
    [group] = response.groups
    check_group(cluster, group_id, group)
    found = {
        TopicPartition(topic.topic_name, one.partition_index): _Described(topic.topic_id, one)
        for topic in group.topics
        for one in topic.partitions
    }
    check_partitions(cluster, group_id, (one.partition for one in found.values()))
    return dict(sorted(found.items()))


# --- ours -----------------------------------------------------------------------------------------


def _told(partition: DescribeShareGroupOffsetsResponsePartition) -> PartitionRecords:
    begun = partition.end_offset >= 0
    ranges = tuple(_range(one) for one in partition.record_states)
    return PartitionRecords(
        start_offset=(ranges[0].first if ranges else partition.start_offset) if begun else None,
        end_offset=partition.end_offset if begun else None,
        ranges=ranges,
        locks_known=True,
        error=answer_error(partition),
        damaged=damaged_of(partition),
    )


def _given_up(partition: DescribeShareGroupOffsetsResponsePartition) -> list[RecordRange]:
    """The records that were archived, as far as the broker remembers why, and those whose dead
    letters are still to be written; ascending and without overlaps."""
    dead = _dead(partition)
    taken = [(one.first, one.last) for one in dead]
    archived = [
        replace(one, first=first, last=last)
        for one in _archived(partition)
        for first, last in minus([(one.first, one.last)], taken)
    ]
    return sorted(dead + archived, key=lambda one: one.first)


def _dead(partition: DescribeShareGroupOffsetsResponsePartition) -> list[RecordRange]:
    """Of records that failed twice, since the group's offsets were reset, the first failure."""
    known = {int(cause): cause.word for cause in Cause}
    found: list[RecordRange] = []
    for one in partition.dead:
        first = max(one.first_offset, found[-1].last + 1 if found else 0)
        if first <= one.last_offset:
            found.append(
                RecordRange(
                    first=first,
                    last=one.last_offset,
                    state=RecordState.ARCHIVED,
                    delivery_count=one.delivery_count,
                    member_id=one.member_id or None,
                    reason=one.reason or known.get(one.cause),
                    archiving=True,
                )
            )
    return found


def _archived(partition: DescribeShareGroupOffsetsResponsePartition) -> list[RecordRange]:
    """The archived records that the broker remembers; unknown reasons are left out."""
    known = {int(reason): reason.word for reason in Reason}
    return [
        RecordRange(
            first=one.first_offset,
            last=one.last_offset,
            state=RecordState.ARCHIVED,
            delivery_count=one.delivery_count,
            reason=known[one.reason],
        )
        for one in partition.archived
        if one.reason in known
    ]


def _range(told: RecordStates) -> RecordRange:
    return RecordRange(
        first=told.first_offset,
        last=told.last_offset,
        state=RecordState(told.delivery_state),
        delivery_count=told.delivery_count,
        member_id=told.member_id,
        lock_ms=None if told.lock_ms < 0 else told.lock_ms,
        blocked=told.blocked,
    )


def _untold_from(records: PartitionRecords) -> int | None:
    """The offset at which the next page begins; None when this page was the last."""
    if records.start_offset is None or records.end_offset is None or records.error is not None:
        return None
    told = records.ranges[-1].last + 1 if records.ranges else records.start_offset
    return told if told < records.end_offset else None


def _joined(before: PartitionRecords, page: PartitionRecords, first: int) -> PartitionRecords:
    """Append a page. If it is empty, the records from ``first`` on were finished meanwhile."""
    if page.error is not None:
        return replace(before, error=page.error)
    if not page.ranges:
        start = before.start_offset if before.ranges else page.end_offset
        return replace(before, start_offset=start, end_offset=first if before.ranges else start)
    more = (replace(page.ranges[0], first=max(first, page.ranges[0].first)), *page.ranges[1:])
    start = before.start_offset if before.ranges else more[0].first
    return replace(
        before, start_offset=start, end_offset=page.end_offset, ranges=before.ranges + more
    )


# --- Apache Kafka ---------------------------------------------------------------------------------


async def _stored(
    cluster: Cluster, group_id: str, described: dict[TopicPartition, _Described]
) -> Found:
    """The durable state that the share coordinators have.

    Kafka 4.4 takes no leader epoch below 0; if there is no leader yet, 0 fences nobody either.
    """
    keys = {
        SharePartitionKey(group_id, one.topic_id, where.partition): where
        for where, one in described.items()
        if one.partition.start_offset >= 0
    }
    epochs = {key: max(described[where].partition.leader_epoch, 0) for key, where in keys.items()}
    by_node: dict[int, list[SharePartitionKey]] = {}
    for key, node_id in (await share_coordinators(cluster, list(keys))).items():
        by_node.setdefault(node_id, []).append(key)
    answers = await asyncio.gather(
        *(
            _read(cluster, node_id, group_id, {key: epochs[key] for key in own})
            for node_id, own in by_node.items()
        )
    )
    read = {keys[key]: result for answer in answers for key, result in answer.items()}
    check_partitions(cluster, group_id, read.values())
    return {
        where: _durable(read[where]) if where in read else _unbegun(one)
        for where, one in described.items()
    }


async def share_coordinators(
    cluster: Cluster, keys: list[SharePartitionKey]
) -> dict[SharePartitionKey, int]:
    """The nodes that have the durable state of share partitions."""
    if not keys:
        return {}
    texts = {str(key): key for key in keys}
    request = FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=list(texts))
    response: FindCoordinatorResponse = await cluster.send_to_any(apis.FIND_COORDINATOR, request)
    found = {}
    for one in response.coordinators:
        if one.error_code:
            raise error_from_code(one.error_code, one.error_message)
        found[texts[one.key]] = one.node_id
    return found


async def _read(
    cluster: Cluster, node_id: int, group_id: str, epochs: dict[SharePartitionKey, int]
) -> dict[SharePartitionKey, PartitionResult]:
    topics: dict[UUID, list[PartitionData]] = {}
    for key, epoch in epochs.items():
        topics.setdefault(key.topic_id, []).append(PartitionData(key.partition, epoch))
    request = ReadShareGroupStateRequest(
        group_id, [ReadStateData(topic_id, own) for topic_id, own in topics.items()]
    )
    response = await cluster.send(node_id, apis.READ_SHARE_GROUP_STATE, request)
    return {
        SharePartitionKey(group_id, topic.topic_id, one.partition): one
        for topic in response.results
        for one in topic.partitions
    }


def _durable(result: PartitionResult) -> PartitionRecords:
    """The stored state as ranges. Holes between the state batches were never acknowledged: these
    records are available.
    """
    ranges: list[RecordRange] = []
    end = result.start_offset
    for batch in sorted(result.state_batches, key=lambda one: int(one.first_offset)):
        if batch.last_offset < end:
            continue
        first = max(batch.first_offset, end)
        if first > end:
            ranges.append(_available(end, first - 1))
        archiving = batch.delivery_state == ARCHIVING
        state = RecordState.ARCHIVED if archiving else RecordState(batch.delivery_state)
        ranges.append(
            RecordRange(
                first=first,
                last=batch.last_offset,
                state=state,
                delivery_count=batch.delivery_count,
                archiving=archiving,
            )
        )
        end = batch.last_offset + 1
    begun = result.start_offset >= 0
    return PartitionRecords(
        start_offset=result.start_offset if begun else None,
        end_offset=end if begun else None,
        ranges=tuple(ranges),
        locks_known=False,
        error=answer_error(result),
    )


def _available(first: int, last: int) -> RecordRange:
    return RecordRange(first=first, last=last, state=RecordState.AVAILABLE, delivery_count=0)


def _unbegun(one: _Described) -> PartitionRecords:
    return PartitionRecords(
        start_offset=None,
        end_offset=None,
        ranges=(),
        locks_known=False,
        error=answer_error(one.partition),
    )
