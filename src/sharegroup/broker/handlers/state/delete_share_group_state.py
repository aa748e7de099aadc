"""DeleteShareGroupState: the group coordinator on another broker deletes delivery state."""

from __future__ import annotations

from sharegroup.broker.handlers.state.share_state_requests import (
    TopicResults,
    answer,
    check_exists,
    commit,
)
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord
from sharegroup.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)


async def delete_share_group_state(
    parts: BrokerParts, request: DeleteShareGroupStateRequest, context: RequestContext
) -> DeleteShareGroupStateResponse:
    """Each share partition on its own; missing state is no error."""

    async def delete(key: SharePartitionKey, asked: PartitionData) -> PartitionResult:
        def decide(machine: ShareCoordinator, now_ms: int) -> tuple[None, list[KeyedRecord]]:
            return None, machine.delete(key)

        check_exists(parts, key)
        await commit(parts, key, decide)
        return PartitionResult(key.partition)

    return _response(await answer(request, context, delete, _refused))


def _refused(partition: int, error: KafkaError) -> PartitionResult:
    return PartitionResult(partition, error.code, error.message)


def _response(topics: list[TopicResults]) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse([DeleteStateResult(*topic) for topic in topics])
