"""Common code of the five requests to the share coordinator (APIs 83-87, Kafka class
ShareCoordinatorService).

The requests come from other brokers of a cluster. Each names many share partitions of one group,
and gets a result for each. They act on the same shards as the leaders in this process. If a request
changes the state of a share partition that this broker leads, the leader loads the state again, so
that neither overwrites the other's changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar
from uuid import UUID

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord


class _Partition(Protocol):
    partition: int


class _Topic(Protocol):
    topic_id: UUID

    @property
    def partitions(self) -> Sequence[Any]: ...


class StateRequest(Protocol):
    """A request of APIs 83-87."""

    group_id: str

    @property
    def topics(self) -> Sequence[Any]: ...


Result = TypeVar("Result")
_Decided: TypeAlias = tuple[Result, Sequence[KeyedRecord]]


class TopicResults(NamedTuple):
    """A topic of the request with the results of its partitions, in the request's order."""

    topic_id: UUID
    partitions: list[Any]


async def answer(
    request: StateRequest,
    context: RequestContext,
    act: Callable[[SharePartitionKey, Any], Awaitable[Result]],
    refused: Callable[[int, errors.KafkaError], Result],
) -> list[TopicResults]:
    """Call ``act`` for each partition; ``refused`` turns its errors into results.

    The answer is empty if the request has no group, no topic, or a topic without partitions.

    Raises:
        ClusterAuthorizationFailed: the client is not a broker of the cluster.
    """
    context.access.require(Operation.CLUSTER_ACTION, CLUSTER)
    topics: Sequence[_Topic] = request.topics
    if not request.group_id or not all(topic.partitions for topic in topics):
        return []

    async def one(topic_id: UUID, asked: _Partition) -> Result:
        key = SharePartitionKey(request.group_id, topic_id, asked.partition)
        try:
            return await act(key, asked)
        except errors.KafkaStorageError as error:
            return refused(asked.partition, errors.NotCoordinator(error.message))
        except errors.KafkaError as error:
            return refused(asked.partition, error)

    # Decisions are taken in request order, and become durable together.
    results = iter(
        await asyncio.gather(*(one(t.topic_id, asked) for t in topics for asked in t.partitions))
    )
    return [TopicResults(t.topic_id, [next(results) for _ in t.partitions]) for t in topics]


def refuse_all(
    request: StateRequest,
    error: errors.KafkaError,
    refused: Callable[[int, errors.KafkaError], Any],
) -> list[TopicResults]:
    """Every partition says ``error``."""
    return [
        TopicResults(
            topic.topic_id, [refused(asked.partition, error) for asked in topic.partitions]
        )
        for topic in request.topics
    ]


async def commit(
    parts: BrokerParts,
    key: SharePartitionKey,
    decide: Callable[[ShareCoordinator, int], _Decided[Result]],
) -> Result:
    """Change the state of ``key`` by ``decide``, which gets the wall-clock time in milliseconds.
    Returns the result of ``decide`` once the change is durable.

    A leader in this process is fenced in the same step, so that it takes no more decisions on its
    outdated state.
    """

    def decide_and_fence(machine: ShareCoordinator) -> _Decided[Result]:
        result, records = decide(machine, parts.clock.wall_ms())
        if records:
            parts.share_partitions.forget(*key)
        return result, records

    return await parts.state.commit(key, decide_and_fence)


def check_partition(key: SharePartitionKey) -> None:
    """Raise InvalidRequest for a negative partition number."""
    if key.partition < 0:
        raise errors.InvalidRequest("The partition id cannot be a negative number.")


def check_epochs(leader_epoch: int, state_epoch: int = 0) -> None:
    """Raises InvalidRequest for a negative epoch, as Kafka does since 4.4."""
    if leader_epoch < 0:
        raise errors.InvalidRequest("The leader epoch cannot be a negative number.")
    if state_epoch < 0:
        raise errors.InvalidRequest("The state epoch cannot be a negative number.")


def check_exists(parts: BrokerParts, key: SharePartitionKey) -> None:
    """Raise UnknownTopicOrPartition for a partition that does not exist, InvalidRequest for a
    negative number."""
    check_partition(key)
    topic = parts.topics.find_id(key.topic_id)
    if topic is None or key.partition >= topic.partition_count:
        raise errors.UnknownTopicOrPartition


async def check_known(parts: BrokerParts, key: SharePartitionKey) -> None:
    """:func:`check_exists`, but only if the partition has state: without state the coordinator
    refuses the request itself."""
    check_partition(key)
    if await parts.state.knows(key):
        check_exists(parts, key)
