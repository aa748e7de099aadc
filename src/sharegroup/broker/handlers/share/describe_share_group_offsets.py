"""DescribeShareGroupOffsets: start offset and lag by partition (KIP-1226).

Lag = log end − start offset − finished records after the start offset. If no record follows the
window, but only markers and batches that compaction has emptied, the window's end counts as the
log end.

A group that has not finished or released any record of a partition shows no start offset there.
Kafka shows none either: it has not written a start offset at that point. This broker has, and
returns it in a tagged field. A request for the state of each record (another tagged field) gets it
as the start offset. The number of records in flight is our addition too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.delivery.next_record import NextRecords
from sharegroup.broker.handlers.share.offsets_of_nodes import (
    Asked,
    add_from_nodes,
    refused,
    split,
)
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.topics import Topic
from sharegroup.model.errors import KafkaError, NotCoordinator, TopicAuthorizationFailed
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.limits import DAMAGED_RANGES_MAX, RECORD_STATES_MAX
from sharegroup.model.offsets import UNKNOWN_OFFSET
from sharegroup.share_state.state import UNKNOWN_COUNT
from sharegroup.wire.messages.describe_share_group_offsets import (
    ArchivedOffsets,
    DamagedOffsets,
    DeadOffsets,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
    RecordStates,
)

AT_ONCE: Final = 100
"""Groups that other nodes are asked about at a time: what they are asked is written together."""


async def describe_share_group_offsets(
    parts: BrokerParts, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    """Each group on its own. Null topics mean all topics in which the group has state. Unknown
    groups, topics and partitions have no offsets; they are no error (as in Kafka).
    """
    looks = NextRecords()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []
    if parts.other_nodes is None:
        groups = [await _group(parts, one, context, looks) for one in request.groups]
    else:
        for at in range(0, len(request.groups), AT_ONCE):
            some = request.groups[at : at + AT_ONCE]
            groups += await asyncio.gather(*(_group(parts, one, context, looks) for one in some))
    return DescribeShareGroupOffsetsResponse(groups=groups)


def _refused(group_id: str, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, error_code=error.code, error_message=error.message
    )


async def _group(
    parts: BrokerParts,
    wanted: DescribeShareGroupOffsetsRequestGroup,
    context: RequestContext,
    looks: NextRecords,
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id, access = wanted.group_id, context.access
    try:
        access.require_group(Operation.DESCRIBE, group_id)
        if parts.other_nodes is not None and not context.from_node:
            await parts.groups.check_here(group_id)
    except KafkaError as error:
        return _refused(group_id, error)
    asked: Asked
    if wanted.topics is None:
        known = parts.groups.groups.state_partitions(group_id)
        asked = [
            (topic.name, topic.partitions)
            for topic in known
            if parts.topics.find(topic.name) and access.allows_topic(Operation.DESCRIBE, topic.name)
        ]
    else:
        asked = [(topic.topic_name, tuple(topic.partitions)) for topic in wanted.topics]
    topics = []
    allowed: list[tuple[str, Sequence[int]]] = []
    for name, partitions in asked:  # before another node is asked, which may tell all
        if access.admits_topic(Operation.DESCRIBE, name):
            allowed.append((name, partitions))
        else:
            topics.append(refused(name, partitions, TopicAuthorizationFailed()))
    response = DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=[])
    here, elsewhere = (allowed, {}) if context.from_node else split(parts, group_id, allowed)
    for name, partitions in here:
        topic = parts.topics.find(name)
        topics.append(
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=name,
                **({} if topic is None else {"topic_id": topic.topic_id}),
                partitions=[
                    await _partition(parts, group_id, topic, p, looks, wanted.states_from >= 0)
                    for p in partitions
                ],
            )
        )
    response.topics = topics
    if wanted.states_from >= 0:
        await _add_states(parts, response, wanted.states_from)
    if wanted.counts:
        await _add_counts(parts, response, looks)
    if parts.other_nodes is not None and elsewhere:
        await add_from_nodes(parts.other_nodes, wanted, elsewhere, response)
    return response


async def _add_counts(
    parts: BrokerParts, group: DescribeShareGroupOffsetsResponseGroup, looks: NextRecords
) -> None:
    """Add what a list of queues shows: the number of members, and the counts of each partition
    where the group has begun."""
    views = parts.views.share_groups
    group.member_count, group.silent_count = views.member_counts(group.group_id)
    for topic in group.topics:
        for described in topic.partitions:
            key = SharePartitionKey(group.group_id, topic.topic_id, described.partition_index)
            try:
                window = await views.window(key)
                if not window.begun:
                    continue
                log = parts.topics.log(topic.topic_name, key.partition)
                dead = await views.dead_count(key)
                oldest = await looks.time(log, window.start_offset)
            except KafkaError as error:
                described.error_code, described.error_message = error.code, error.message
                continue
            described.delayed_count, described.dead_count = window.delayed, dead
            described.redelivered_count = window.redelivered
            described.oldest_ms = UNKNOWN_OFFSET if oldest is None else oldest


async def _add_states(
    parts: BrokerParts, group: DescribeShareGroupOffsetsResponseGroup, first: int
) -> None:
    """Add record states to each partition that has a start offset, up to RECORD_STATES_MAX runs."""
    room = RECORD_STATES_MAX
    for topic in group.topics:
        for described in topic.partitions:
            if described.start_offset == UNKNOWN_OFFSET or described.error_code:
                continue
            key = SharePartitionKey(group.group_id, topic.topic_id, described.partition_index)
            try:
                records = await parts.views.share_groups.records(key, first, room)
            except KafkaError as error:
                described.error_code, described.error_message = error.code, error.message
                continue
            room -= len(records.ranges)
            described.record_states = [RecordStates(*each) for each in records.ranges]
            described.end_offset = records.end_offset
            described.archived = [ArchivedOffsets(*each) for each in records.archived]
            described.dead = [DeadOffsets(*each) for each in records.dead]


async def _partition(
    parts: BrokerParts,
    group_id: str,
    topic: Topic | None,
    partition: int,
    looks: NextRecords,
    tell_choice: bool,
) -> DescribeShareGroupOffsetsResponsePartition:
    """One partition. Start offset -1 means unknown or not yet begun; it is no error. With
    ``tell_choice`` a partition that has not begun shows the start offset chosen for it, if any."""
    described = DescribeShareGroupOffsetsResponsePartition(
        partition_index=partition, start_offset=UNKNOWN_OFFSET
    )
    if topic is None or partition >= topic.partition_count:
        return described
    key = SharePartitionKey(group_id, topic.topic_id, partition)
    try:
        summary = await parts.state.read_summary(key)
    except NotCoordinator as error:  # it went to another node meanwhile
        described.error_code, described.error_message = error.code, error.message
        return described
    settled = parts.views.share_groups.settled(key)
    # A group that has only passed over aborted transactions has nothing durable yet.
    passed = settled is not None and settled.start_offset > summary.start_offset
    begun = passed or summary.delivery_complete_count != UNKNOWN_COUNT
    if begun or tell_choice:
        described.start_offset = summary.start_offset
    else:
        described.begins_at = summary.start_offset
    described.leader_epoch = max(0, summary.leader_epoch)
    if described.start_offset != UNKNOWN_OFFSET:
        try:
            log = parts.topics.log(topic.name, partition)
        except KafkaError as error:
            described.error_code, described.error_message = error.code, error.message
            return described
        end = await parts.views.share_groups.records_end(key, log, looks)
        finished = summary.start_offset + max(0, summary.delivery_complete_count)
        if settled is not None:
            finished = settled.start_offset + settled.finished
        described.lag = max(0, end - finished)
        described.damaged = [DamagedOffsets(*each) for each in log.damages()[:DAMAGED_RANGES_MAX]]
    described.in_flight_count = parts.views.share_groups.in_flight(key)
    return described
