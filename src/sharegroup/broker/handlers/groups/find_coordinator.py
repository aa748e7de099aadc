"""FindCoordinator: this node coordinates everything it serves: groups (0), transactional ids (1)
and share partitions (2)."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import CLUSTER, Operation, Resource, ResourceType
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import InvalidRequest, KafkaError
from sharegroup.model.ids import parse_topic_id
from sharegroup.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sharegroup.wire.refusal import refuser

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
KEYS_FROM: Final = 4
SHARE_FROM: Final = 6

failure = refuser(FindCoordinatorResponse)
"""The response and the answer for each key say the error: from v4 on there is no other."""


async def find_coordinator(
    parts: BrokerParts, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    """One answer per key from v4 on; a single answer in earlier versions."""
    if context.version >= KEYS_FROM:
        coordinators = [
            _find(parts, request.key_type, key, context)
            async for key in sliced(request.coordinator_keys)
        ]
        return FindCoordinatorResponse(coordinators=coordinators)
    found = _find(parts, request.key_type, request.key, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(parts: BrokerParts, key_type: int, key: str, context: RequestContext) -> Coordinator:
    try:
        _check(key_type, key, context)
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message
        )
    node = parts.leadership.coordinator(key_type, key, context.advertised)
    return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port)


def _check(key_type: int, key: str, context: RequestContext) -> None:
    if key_type == TRANSACTION:
        context.access.require(Operation.DESCRIBE, Resource(ResourceType.TRANSACTIONAL_ID, key))
        return
    if key_type == GROUP:
        context.access.require_group(Operation.DESCRIBE, key)
        return
    if key_type != SHARE or context.version < SHARE_FROM:
        raise InvalidRequest(f"coordinator key type {key_type} is unknown")
    context.access.require(Operation.CLUSTER_ACTION, CLUSTER)
    head, _, partition = key.rpartition(":")
    group_id, _, topic_id = head.rpartition(":")
    try:
        parse_topic_id(topic_id)
        valid = bool(group_id) and int(partition) >= 0
    except ValueError:
        valid = False
    if not valid:
        raise InvalidRequest(f"{key!r} is no share coordinator key (group:topicId:partition)")
