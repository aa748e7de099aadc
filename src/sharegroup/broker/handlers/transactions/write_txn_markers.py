"""WriteTxnMarkers: end transactions in partitions by hand, as ``kafka-transactions abort`` does."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.coordination.log import EndOfTransaction, ProducerEpoch
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import NONE, KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.transactions.transaction import EPOCH_PER_TRANSACTION
from sharegroup.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

VERSIONED_FROM: Final = 2


async def write_txn_markers(
    parts: BrokerParts, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse:
    """Partitions fail on their own."""
    if not context.access.allows(Operation.ALTER, CLUSTER):
        context.access.require(Operation.CLUSTER_ACTION, CLUSTER)
    results = []
    async for marker in sliced(request.markers):
        topics = []
        async for topic in sliced(marker.topics):
            answers = []
            async for index in sliced(topic.partition_indexes):
                where = TopicPartition(topic.name, index)
                code = await _one(parts, marker, where, context.version)
                answers.append(WritableTxnMarkerPartitionResult(index, code))
            topics.append(WritableTxnMarkerTopicResult(topic.name, answers))
        results.append(WritableTxnMarkerResult(marker.producer_id, topics))
    return WriteTxnMarkersResponse(markers=results)


async def _one(
    parts: BrokerParts, marker: WritableTxnMarker, where: TopicPartition, version: int
) -> int:
    newer = version >= VERSIONED_FROM and marker.transaction_version >= EPOCH_PER_TRANSACTION
    producer = ProducerEpoch(marker.producer_id, marker.producer_epoch)
    end = EndOfTransaction(producer, marker.transaction_result, marker.coordinator_epoch)
    try:
        await parts.transactions.markers.write_by_hand(where, end, newer=newer)
    except KafkaError as error:
        parts.counters.trouble("request_errors", f"WriteTxnMarkers {error.name}", str(error))
        return error.code
    return NONE
