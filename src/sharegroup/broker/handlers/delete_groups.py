"""DeleteGroups: delete empty share groups with their delivery state. The configs of a group stay,
as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.network.context import RequestContext
from sharegroup.model.errors import KafkaError
from sharegroup.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker


async def delete_groups(
    broker: Broker, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse:
    """Each group on its own."""
    return DeleteGroupsResponse(
        results=[
            await _delete(broker, group_id, context)
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )


def failure(request: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    """Every group says ``error``."""
    return DeleteGroupsResponse(
        results=[_refused(group_id, error) for group_id in request.groups_names]
    )


async def _delete(broker: Broker, group_id: str, context: RequestContext) -> DeletableGroupResult:
    try:
        context.access.require_group(Operation.DELETE, group_id)
        await broker.groups.delete(group_id)
    except KafkaError as error:
        return _refused(group_id, error)
    broker.share_partitions.drop_group(group_id)
    return DeletableGroupResult(group_id)


def _refused(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, error.code, error.message)
