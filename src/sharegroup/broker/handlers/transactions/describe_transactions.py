"""DescribeTransactions: the state of transactional ids."""

from __future__ import annotations

from collections import defaultdict

from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import InvalidRequest, KafkaError, TransactionalIdNotFound
from sharegroup.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


async def describe_transactions(
    parts: BrokerParts, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    """Ids fail on their own. Topics that the client may not see are left out."""
    return DescribeTransactionsResponse(
        transaction_states=[
            _one(parts, each, context) async for each in sliced(request.transactional_ids)
        ]
    )


def _one(parts: BrokerParts, transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        context.access.require(
            Operation.DESCRIBE, Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)
        )
        if not transactional_id:
            raise InvalidRequest
        found = parts.views.transactions.find(transactional_id)
        if found is None:
            raise TransactionalIdNotFound
    except KafkaError as error:
        return TransactionState(error_code=error.code, transactional_id=transactional_id)
    topics = defaultdict(list)
    for topic, partition in sorted(found.partitions):
        if context.access.allows_topic(Operation.DESCRIBE, topic):
            topics[topic].append(partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=[TopicData(topic, partitions) for topic, partitions in topics.items()],
    )
