"""WriteShareGroupState: a share-partition leader on another broker makes its changes durable."""

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
from sharegroup.model.share_state import DelayedRow, StateBatch
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord
from sharegroup.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


async def write_share_group_state(
    parts: BrokerParts, request: WriteShareGroupStateRequest, context: RequestContext
) -> WriteShareGroupStateResponse:
    """Each share partition on its own."""

    async def write(key: SharePartitionKey, asked: PartitionData) -> PartitionResult:
        batches = tuple(
            StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
            for b in asked.state_batches
        )
        delayed = tuple(
            DelayedRow(b.first_offset, b.last_offset, b.delivery_count, b.due_ms)
            for b in asked.state_batches
            if b.due_ms >= 0
        )

        def decide(machine: ShareCoordinator, now_ms: int) -> tuple[None, list[KeyedRecord]]:
            record = machine.write(
                key,
                asked.state_epoch,
                asked.leader_epoch,
                asked.start_offset,
                asked.delivery_complete_count,
                batches,
                now_ms,
                delayed=delayed,
            )
            return None, [record]

        check_epochs(asked.leader_epoch, asked.state_epoch)
        await check_known(parts, key)
        await commit(parts, key, decide)
        return PartitionResult(key.partition)

    return _response(await answer(request, context, write, _refused))


def _refused(partition: int, error: KafkaError) -> PartitionResult:
    return PartitionResult(partition, error.code, error.message)


def _response(topics: list[TopicResults]) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse([WriteStateResult(*topic) for topic in topics])
