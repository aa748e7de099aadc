"""DeleteShareGroupOffsets: delete an empty share group's delivery state of some topics. After that
the topics are new to the group."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import InvalidGroupId, TopicAuthorizationFailed
from sharegroup.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


async def delete_share_group_offsets(
    parts: BrokerParts, request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    """Each topic has its own result."""
    group_id = request.group_id
    context.access.require_group(Operation.DELETE, group_id)
    if not group_id:
        raise InvalidGroupId
    names = [topic.topic_name for topic in request.topics]
    allowed = [name for name in names if context.access.admits_topic(Operation.READ, name)]
    deleted, refused = await parts.groups.delete_offsets(group_id, allowed)
    denied = {name: TopicAuthorizationFailed() for name in names if name not in allowed}
    for topic in deleted:
        for partition in topic.partitions:
            parts.share_partitions.forget(group_id, topic.topic_id, partition)
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
