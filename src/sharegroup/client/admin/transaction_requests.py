"""``Admin``'s requests about transactions: one attempt each; errors are raised."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from sharegroup.client.admin.descriptions import (
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from sharegroup.client.admin.topic_requests import by_topic, leaders_of
from sharegroup.client.core.access_errors import error_on
from sharegroup.client.network.cluster import TRANSACTION, Cluster
from sharegroup.model.errors import CoordinatorNotAvailable, NotCoordinator, error_from_code
from sharegroup.model.ids import TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.messages.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from sharegroup.wire.messages.describe_transactions import DescribeTransactionsRequest
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from sharegroup.wire.messages.list_transactions import ListTransactionsRequest
from sharegroup.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

FENCING_TIMEOUT_MS: Final = 1
"""The transaction time-out of the producer that fences; it begins no transaction."""


async def list_transactions(
    cluster: Cluster, states: Sequence[str], open_longer_than_ms: int
) -> list[TransactionListing]:
    """ListTransactions to every broker. Brokers whose versions lack the filter by time (before
    Kafka 3.8) answer with all ids.
    """
    request = ListTransactionsRequest(
        state_filters=list(states), duration_filter=open_longer_than_ms
    )
    await cluster.refresh()  # there may be other brokers now
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


async def describe_producers(
    cluster: Cluster, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[ProducerDescription]]:
    """DescribeProducers, at each partition's leader."""

    async def ask(node_id: int, mine: Sequence[TopicPartition]) -> Any:
        topics = [TopicRequest(name, indexes) for name, indexes in by_topic(mine).items()]
        return await cluster.send(
            node_id, apis.DESCRIBE_PRODUCERS, DescribeProducersRequest(topics)
        )

    by_leader = await leaders_of(cluster, partitions)
    responses = await asyncio.gather(*(ask(node, mine) for node, mine in by_leader.items()))
    found = {}
    for topic, one in (
        (t, p) for response in responses for t in response.topics for p in t.partitions
    ):
        if one.error_code:
            await cluster.refresh()  # so that a retry knows the current leader
            raise error_on(one.error_code, one.error_message, "READ", f"topic {topic.name!r}")
        producers = sorted(map(_producer, one.active_producers), key=lambda each: each.producer_id)
        found[TopicPartition(topic.name, one.partition_index)] = producers
    return found


def _producer(state: ProducerState) -> ProducerDescription:
    start = state.current_txn_start_offset
    return ProducerDescription(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_ms=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        transaction_start=None if start < 0 else start,
    )


async def abort_transaction(
    cluster: Cluster,
    where: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """WriteTxnMarkers with one marker, at the partition's leader."""
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(where.topic, [where.partition])],
        coordinator_epoch=coordinator_epoch,
    )
    [leader] = await leaders_of(cluster, [where])
    response = await cluster.send(leader, apis.WRITE_TXN_MARKERS, WriteTxnMarkersRequest([marker]))
    [answer] = response.markers[0].topics[0].partitions
    if answer.error_code:
        await cluster.refresh()
        raise error_on(answer.error_code, None, "ALTER", "the cluster")


def _check(cluster: Cluster, transactional_id: str, answer: Any) -> None:
    if not answer.error_code:
        return
    error = error_from_code(answer.error_code)
    if isinstance(error, NotCoordinator | CoordinatorNotAvailable):
        cluster.forget_coordinator(transactional_id, TRANSACTION)
    raise error
