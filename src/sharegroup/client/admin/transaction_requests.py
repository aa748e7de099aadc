"""``Admin``'s requests about transactions: one attempt each; errors are raised."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from sharegroup.client.admin.descriptions import TransactionDescription, TransactionListing
from sharegroup.client.network.cluster import TRANSACTION, Cluster
from sharegroup.model.errors import CoordinatorNotAvailable, NotCoordinator, error_from_code
from sharegroup.model.ids import TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.messages.describe_transactions import DescribeTransactionsRequest
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from sharegroup.wire.messages.list_transactions import ListTransactionsRequest

FENCING_TIMEOUT_MS: Final = 1
"""The transaction time-out of the producer that fences; it begins no transaction."""


async def list_transactions(
    cluster: Cluster, states: Sequence[str], open_longer_than_ms: int
) -> list[TransactionListing]:
    """ListTransactions to every broker. Brokers whose versions lack the filter by time (before
    Kafka 3.8) answer with all.
    """
    request = ListTransactionsRequest(
        state_filters=list(states), duration_filter=open_longer_than_ms
    )
    nodes = list(cluster.metadata.nodes)
    responses = await asyncio.gather(
        *(cluster.send(node_id, apis.LIST_TRANSACTIONS, request) for node_id in nodes)
    )
    found = []
    for response in responses:
        if response.error_code:
            raise error_from_code(response.error_code)
        found += [
            TransactionListing(
                transactional_id=each.transactional_id,
                state=each.transaction_state,
                producer_id=each.producer_id,
            )
            for each in response.transaction_states
        ]
    return sorted(found, key=lambda each: each.transactional_id)


async def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    """DescribeTransactions of one id."""
    request = DescribeTransactionsRequest([transactional_id])
    response = await cluster.send_to_coordinator(
        transactional_id, apis.DESCRIBE_TRANSACTIONS, request, kind=TRANSACTION
    )
    [found] = response.transaction_states
    _check(cluster, transactional_id, found)
    return TransactionDescription(
        transactional_id=transactional_id,
        state=found.transaction_state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        started_ms=None if found.transaction_start_time_ms < 0 else found.transaction_start_time_ms,
        coordinator=await cluster.coordinator(transactional_id, TRANSACTION),
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, partition)
                for topic in found.topics
                for partition in topic.partitions
            )
        ),
    )


async def fence_producer(cluster: Cluster, transactional_id: str) -> None:
    """InitProducerId of the id, in the place of its producer."""
    request = InitProducerIdRequest(transactional_id, FENCING_TIMEOUT_MS)
    response = await cluster.send_to_coordinator(
        transactional_id, apis.INIT_PRODUCER_ID, request, kind=TRANSACTION
    )
    _check(cluster, transactional_id, response)


def _check(cluster: Cluster, transactional_id: str, answer: Any) -> None:
    if not answer.error_code:
        return
    error = error_from_code(answer.error_code)
    if isinstance(error, NotCoordinator | CoordinatorNotAvailable):
        cluster.forget_coordinator(transactional_id, TRANSACTION)
    raise error
