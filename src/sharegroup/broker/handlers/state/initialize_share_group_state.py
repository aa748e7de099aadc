"""InitializeShareGroupState: the group coordinator on another broker initialises or resets delivery
state."""

from __future__ import annotations

from sharegroup.broker.delivery.forks import choose_start
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
from sharegroup.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)


async def initialize_share_group_state(
    parts: BrokerParts, request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    """Each share partition on its own."""

    async def initialize(key: SharePartitionKey, asked: PartitionData) -> PartitionResult:
        def decide(machine: ShareCoordinator, now_ms: int) -> tuple[None, list[KeyedRecord]]:
            return None, machine.initialize(key, asked.state_epoch, asked.start_offset, now_ms)

        check_exists(parts, key)
        if request.fork_of:
            await choose_start(parts, key._replace(group_id=request.fork_of))
            await parts.state.fork(request.fork_of, [key], asked.state_epoch)
            parts.share_partitions.forget(*key)
            return PartitionResult(key.partition)
        await commit(parts, key, decide)
        return PartitionResult(key.partition)

    return _response(await answer(request, context, initialize, _refused))


def _refused(partition: int, error: KafkaError) -> PartitionResult:
    return PartitionResult(partition, error.code, error.message)


def _response(topics: list[TopicResults]) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse([InitializeStateResult(*topic) for topic in topics])
