"""ReadShareGroupState: a share-partition leader on another broker loads its state, which fences the
previous leader."""

from __future__ import annotations

from sharegroup.broker.handlers.state.share_state_requests import (
    TopicResults,
    answer,
    check_epochs,
    check_known,
    commit,
)
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share_state.answers import ReadResult
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord
from sharegroup.wire.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)


async def read_share_group_state(
    parts: BrokerParts, request: ReadShareGroupStateRequest, context: RequestContext
) -> ReadShareGroupStateResponse:
    """Each share partition on its own."""

    async def read(key: SharePartitionKey, asked: PartitionData) -> PartitionResult:
        def decide(machine: ShareCoordinator, now_ms: int) -> tuple[ReadResult, list[KeyedRecord]]:
            return machine.read(key, asked.leader_epoch, now_ms)

        check_epochs(asked.leader_epoch)
        await check_known(parts, key)
        state = await commit(parts, key, decide)
        return PartitionResult(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[StateBatch(*batch) for batch in state.batches],
        )

    return _response(await answer(request, context, read, _refused))


def _refused(partition: int, error: KafkaError) -> PartitionResult:
    return PartitionResult(partition, error.code, error.message)


def _response(topics: list[TopicResults]) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse([ReadStateResult(*topic) for topic in topics])
