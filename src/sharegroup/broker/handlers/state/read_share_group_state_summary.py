"""ReadShareGroupStateSummary: a summary of delivery state, for administration on other brokers."""

from __future__ import annotations

from sharegroup.broker.handlers.state.share_state_requests import (
    TopicResults,
    answer,
    check_exists,
)
from sharegroup.broker.leadership import FIRST_EPOCH, NO_EPOCH
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import SharePartitionKey
from sharegroup.wire.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


async def read_share_group_state_summary(
    parts: BrokerParts, request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    """Each share partition on its own; missing state is no error."""

    async def read(key: SharePartitionKey, asked: PartitionData) -> PartitionResult:
        check_exists(parts, key)
        summary = await parts.state.read_summary(key)
        unread = summary.leader_epoch == NO_EPOCH
        return PartitionResult(
            partition=key.partition,
            state_epoch=summary.state_epoch,
            leader_epoch=FIRST_EPOCH if unread else summary.leader_epoch,
            start_offset=summary.start_offset,
            delivery_complete_count=summary.delivery_complete_count,
            unread=unread,
        )

    return _response(await answer(request, context, read, _refused))


def _refused(partition: int, error: KafkaError) -> PartitionResult:
    return PartitionResult(partition, error.code, error.message)


def _response(topics: list[TopicResults]) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse([ReadStateSummaryResult(*topic) for topic in topics])
