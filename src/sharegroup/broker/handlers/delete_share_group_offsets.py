"""DeleteShareGroupOffsets: delete an empty share group's delivery state of topics, which are then
new to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.network.context import RequestContext
from sharegroup.model.errors import InvalidGroupId, TopicAuthorizationFailed
from sharegroup.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker


async def delete_share_group_offsets(
    broker: Broker, request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    """Each topic has its own result."""
    group_id = request.group_id
    context.access.require_group(Operation.DELETE, group_id)
    if not group_id:
        raise InvalidGroupId
    names = [topic.topic_name for topic in request.topics]
    allowed = [name for name in names if context.access.allows_topic(Operation.READ, name)]
    deleted, refused = await broker.groups.delete_offsets(group_id, allowed)
    denied = {name: TopicAuthorizationFailed() for name in names if name not in allowed}
    for topic in deleted:
        for partition in topic.partitions:
            broker.share_partitions.forget(group_id, topic.topic_id, partition)
    done = [
        DeleteShareGroupOffsetsResponseTopic(topic_name=topic.name, topic_id=topic.topic_id)
        for topic in deleted
    ]
    return DeleteShareGroupOffsetsResponse(
        responses=[
            *done,
            *(
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name, error_code=error.code, error_message=error.message
                )
                for name, error in {**denied, **refused}.items()
            ),
        ]
    )
