"""DescribeProducers: the producers that a partition knows, and their open transactions."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import KafkaError
from sharegroup.model.log import OwnedLog
from sharegroup.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


async def describe_producers(
    parts: BrokerParts, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    """Partitions fail on their own."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name,
                [
                    _one(parts, topic.name, index, context)
                    async for index in sliced(topic.partition_indexes)
                ],
            )
            async for topic in sliced(request.topics)
        ]
    )


def _one(parts: BrokerParts, topic: str, index: int, context: RequestContext) -> PartitionResponse:
    try:
        context.access.require_topic(Operation.READ, topic)
        log: OwnedLog = parts.topics.log(topic, index)
        producers = log.producer_states.active()
    except KafkaError as error:
        return PartitionResponse(index, error.code, error.message)
    return PartitionResponse(
        index,
        active_producers=[
            ProducerState(
                each.producer_id,
                each.epoch,
                each.last_sequence,
                each.timestamp_ms,
                each.coordinator_epoch,
                each.transaction_start,
            )
            for each in producers
        ],
    )
