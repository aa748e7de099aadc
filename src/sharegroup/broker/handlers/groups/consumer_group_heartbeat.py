"""ConsumerGroupHeartbeat: join, stay, leave, and move partitions between members (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.groups.consumer.heartbeat import ConsumerHeartbeat, check_heartbeat
from sharegroup.groups.consumer.records import Parts
from sharegroup.model.errors import InvalidRequest, UnsupportedVersion
from sharegroup.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sharegroup.wire.messages.ranges import parts_of, ranges_of

OWN_MEMBER_ID_FROM: Final = 1
"""From this version on, members make their own ids."""


async def consumer_group_heartbeat(
    parts: BrokerParts, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    """Pass the heartbeat to the coordinator; a null assignment means that it is unchanged."""
    broker, access = parts.configs.broker, context.access
    if "consumer" not in broker.names("group.coordinator.rebalance.protocols"):
        raise UnsupportedVersion
    access.require_group(Operation.READ, request.group_id)
    names = request.subscribed_topic_names
    for name in names or ():
        access.require_topic(Operation.DESCRIBE, name)
    owned = request.topic_partitions
    heartbeat = ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topics=None if names is None else tuple(names),
        subscribed_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if owned is None else {t.topic_id: frozenset(t.partitions) for t in owned},
        takes_ranges=request.takes_key_ranges or request.cooperative,
        cooperative=request.cooperative,
        owned_parts=_parts(owned or ()),
        client_id=context.client_id,
        client_host=context.client_host,
    )
    own_id = context.version >= OWN_MEMBER_ID_FROM
    check_heartbeat(heartbeat, broker.names("group.consumer.assignors"), own_id=own_id)
    result = await parts.consumer_groups.heartbeat(
        heartbeat,
        (lambda name: access.allows_topic(Operation.DESCRIBE, name)) if access.restricted else None,
    )
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            [
                TopicPartitions(topic_id, held, ranges_of(result.parts.get(topic_id, {})))
                for topic_id, held in result.assignment.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )


def _parts(owned: Iterable[TopicPartitions]) -> Parts:
    try:
        found = {t.topic_id: parts_of(t.key_ranges, t.partitions) for t in owned if t.key_ranges}
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    return {topic_id: parts for topic_id, parts in found.items() if parts}
