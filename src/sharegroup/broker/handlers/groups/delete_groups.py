"""DeleteGroups: delete empty groups, with their committed offsets or their delivery state. The
configs of a group stay, as in Kafka.
"""

from __future__ import annotations

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.coordination.group_registry import GroupType
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import KafkaError
from sharegroup.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def delete_groups(
    parts: BrokerParts, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse:
    """Each group on its own."""
    return DeleteGroupsResponse(
        results=[
            await _delete(parts, group_id, context)
            async for group_id in sliced(dict.fromkeys(request.groups_names))
        ]
    )


async def _delete(
    parts: BrokerParts, group_id: str, context: RequestContext
) -> DeletableGroupResult:
    try:
        context.access.require_group(Operation.DELETE, group_id)
        group_type = parts.group_registry.type_of(group_id)
        if group_type is GroupType.CONSUMER:
            await parts.consumer_groups.delete(group_id)
            await parts.offsets.delete_group(group_id)
        elif group_type is GroupType.CLASSIC:
            await _delete_classic(parts, group_id)
        else:
            await parts.groups.delete(group_id)
            parts.share_partitions.drop_group(group_id)
            parts.rates.forget(group_id)
    except KafkaError as error:
        return _refused(group_id, error)
    parts.configs.forget(group_id)
    return DeletableGroupResult(group_id)


async def _delete_classic(parts: BrokerParts, group_id: str) -> None:
    """Delete a group and then its offsets. If the broker dies in between, the offsets make a simple
    group, which can be deleted again.
    """
    if not parts.group_registry.is_simple(group_id):
        await parts.classic_groups.delete(group_id)
    await parts.offsets.delete_group(group_id)


def _refused(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, error.code, error.message)
