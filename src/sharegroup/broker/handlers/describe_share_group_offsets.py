"""DescribeShareGroupOffsets: start offset and lag by partition (KIP-1226).

Lag = log end − start offset − finished records behind the start. A group that has finished nothing
yet in a partition, nor given anything back, shows no start offset there, as in Kafka, which has not
written one by then. Ours has, and tells it in a tagged field; to whoever asks for the state of each
record, in another one, it is the start offset. Ours adds how much is in flight as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.delivery.record_states import add_record_states
from sharegroup.broker.network.context import RequestContext
from sharegroup.broker.topics import Topic
from sharegroup.model.errors import KafkaError, TopicAuthorizationFailed
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.limits import RECORD_STATES_MAX
from sharegroup.model.offsets import UNKNOWN_OFFSET
from sharegroup.share_state.state import UNKNOWN_COUNT
from sharegroup.wire.messages.describe_share_group_offsets import (
    DamagedOffsets,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker

DAMAGES_MAX: Final = 1_000
"""Damaged ranges told of one partition."""


async def describe_share_group_offsets(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    """Each group on its own; null topics are all topics that the group has state of. What does not
    exist has no offsets: that is no error (as in Kafka).
    """
    return DescribeShareGroupOffsetsResponse(
        groups=[await _group(broker, g, context) for g in request.groups]
    )


def failure(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError
) -> DescribeShareGroupOffsetsResponse:
    """Every group says ``error``."""
    return DescribeShareGroupOffsetsResponse(
        groups=[_refused(group.group_id, error) for group in request.groups]
    )


def _refused(group_id: str, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, error_code=error.code, error_message=error.message
    )


async def _group(
    broker: Broker, wanted: DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id, access = wanted.group_id, context.access
    try:
        access.require_group(Operation.DESCRIBE, group_id)
    except KafkaError as error:
        return _refused(group_id, error)
    if wanted.topics is None:
        known = broker.groups.groups.state_partitions(group_id)
        asked = [
            (topic.name, topic.partitions)
            for topic in known
            if broker.topics.find(topic.name)
            and access.allows_topic(Operation.DESCRIBE, topic.name)
        ]
    else:
        asked = [(topic.topic_name, tuple(topic.partitions)) for topic in wanted.topics]
    response = DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=[])
    topics = []
    for name, partitions in asked:
        if not access.allows_topic(Operation.DESCRIBE, name):
            topics.append(_denied(name, partitions))
            continue
        topic = broker.topics.find(name)
        topics.append(
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=name,
                **({} if topic is None else {"topic_id": topic.topic_id}),
                partitions=[
                    await _partition(broker, group_id, topic, p, wanted.states_from >= 0)
                    for p in partitions
                ],
            )
        )
    response.topics = topics
    if wanted.states_from >= 0:
        await _add_states(broker, response, wanted.states_from)
    return response


async def _add_states(
    broker: Broker, group: DescribeShareGroupOffsetsResponseGroup, first: int
) -> None:
    """To each partition that has begun, as far as there is room."""
    room = RECORD_STATES_MAX
    for topic in group.topics:
        for described in topic.partitions:
            if described.start_offset == UNKNOWN_OFFSET or described.error_code:
                continue
            key = SharePartitionKey(group.group_id, topic.topic_id, described.partition_index)
            try:
                room = await add_record_states(broker, key, described, first, room)
            except KafkaError as error:
                described.error_code, described.error_message = error.code, error.message


def _denied(name: str, partitions: Sequence[int]) -> DescribeShareGroupOffsetsResponseTopic:
    error = TopicAuthorizationFailed()
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=partition,
                start_offset=UNKNOWN_OFFSET,
                error_code=error.code,
                error_message=error.message,
            )
            for partition in partitions
        ],
    )


async def _partition(
    broker: Broker, group_id: str, topic: Topic | None, partition: int, tell_choice: bool
) -> DescribeShareGroupOffsetsResponsePartition:
    """Unknown or not yet begun: start offset -1, which is no error; with ``tell_choice`` the offset
    where it is going to begin, once that is chosen."""
    described = DescribeShareGroupOffsetsResponsePartition(
        partition_index=partition, start_offset=UNKNOWN_OFFSET
    )
    if topic is None or partition >= topic.partition_count:
        return described
    key = SharePartitionKey(group_id, topic.topic_id, partition)
    summary = await broker.state.read_summary(key)
    begun = summary.delivery_complete_count != UNKNOWN_COUNT
    if begun or tell_choice:
        described.start_offset = summary.start_offset
    else:
        described.begins_at = summary.start_offset
    described.leader_epoch = max(0, summary.leader_epoch)
    if described.start_offset != UNKNOWN_OFFSET:
        try:
            log = broker.topics.log(topic.name, partition)
        except KafkaError as error:
            described.error_code, described.error_message = error.code, error.message
            return described
        end = log.high_watermark
        described.lag = end - summary.start_offset - max(0, summary.delivery_complete_count)
        described.damaged = [DamagedOffsets(*each) for each in log.damages()[:DAMAGES_MAX]]
    led = broker.share_partitions.find(key)
    described.in_flight_count = 0 if led is None else led.core.statistics().acquired
    return described
