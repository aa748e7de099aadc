"""Requests to the leaders of partitions: each leader is asked about its own, and the answers are
put together in the order of the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.passing.passing import Asked, Passing
from sharegroup.broker.passing.rights import require_topic
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
    TopicResponse,
)
from sharegroup.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from sharegroup.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

P = TypeVar("P")
R = TypeVar("R")


async def produce(
    passing: Passing, api: Api, request: ProduceRequest, asked: Asked
) -> ProduceResponse | None:
    """Append to the leaders' logs; None: the client wants no answer.

    Raises:
        NoAnswerWanted: one append has failed, and the client wants no answer.
    """
    wanted = [
        (TopicPartition(topic.name, one.index), one)
        for topic in request.topic_data
        for one in topic.partition_data
    ]

    def part(topics: dict[str, list[PartitionProduceData]]) -> ProduceRequest:
        data = [TopicProduceData(name=name, partition_data=own) for name, own in topics.items()]
        acks = request.acks or 1  # we wait in any case, so that a failure is known
        return ProduceRequest(request.transactional_id, acks, request.timeout_ms, data)

    def parts_of(response: ProduceResponse) -> Iterable[tuple[str, int, PartitionProduceResponse]]:
        for topic in response.responses:
            for one in topic.partition_responses:
                one.current_leader = None  # clients know no node but this one
                yield topic.name, one.index, one

    answers = await _from_leaders(
        passing, api, asked, wanted, part, parts_of, _not_appended, Operation.WRITE
    )
    if request.acks == 0:
        if any(one.error_code for one in answers.values()):
            raise errors.NoAnswerWanted
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    answers[TopicPartition(topic.name, one.index)] for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _not_appended(index: int, error: errors.KafkaError) -> PartitionProduceResponse:
    """Where a leader has not answered, nobody knows whether the records are appended. Producers
    send them again for REQUEST_TIMED_OUT; librdkafka's gives them up for NETWORK_EXCEPTION."""
    if isinstance(error, errors.NetworkException):
        error = errors.RequestTimedOut(error.message)
    return PartitionProduceResponse(
        index=index, error_code=error.code, base_offset=-1, error_message=error.message
    )


async def leader_epochs(
    passing: Passing, api: Api, request: OffsetForLeaderEpochRequest, asked: Asked
) -> OffsetForLeaderEpochResponse:
    """Where epochs of the cluster's leaders end. The epochs of this node, which clients know as the
    current ones, are not the cluster's."""
    wanted = [
        (
            TopicPartition(topic.topic, one.partition),
            OffsetForLeaderPartition(one.partition, leader_epoch=one.leader_epoch),
        )
        for topic in request.topics
        for one in topic.partitions
    ]

    def part(topics: dict[str, list[OffsetForLeaderPartition]]) -> OffsetForLeaderEpochRequest:
        return OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(name, own) for name, own in topics.items()]
        )

    def parts_of(
        response: OffsetForLeaderEpochResponse,
    ) -> Iterable[tuple[str, int, EpochEndOffset]]:
        return ((one.topic, p.partition, p) for one in response.topics for p in one.partitions)

    answers = await _from_leaders(
        passing, api, asked, wanted, part, parts_of, _no_epoch, Operation.DESCRIBE
    )
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic,
                [answers[TopicPartition(topic.topic, one.partition)] for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _no_epoch(index: int, error: errors.KafkaError) -> EpochEndOffset:
    return EpochEndOffset(error.code, index)


async def describe_producers(
    passing: Passing, api: Api, request: DescribeProducersRequest, asked: Asked
) -> DescribeProducersResponse:
    """The producers of the cluster's partitions."""
    wanted = [
        (TopicPartition(topic.name, index), index)
        for topic in request.topics
        for index in topic.partition_indexes
    ]

    def part(topics: dict[str, list[int]]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[TopicRequest(name, own) for name, own in topics.items()]
        )

    def parts_of(
        response: DescribeProducersResponse,
    ) -> Iterable[tuple[str, int, PartitionResponse]]:
        return ((one.name, p.partition_index, p) for one in response.topics for p in one.partitions)

    answers = await _from_leaders(
        passing, api, asked, wanted, part, parts_of, _no_producers, Operation.READ
    )
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name,
                [answers[TopicPartition(topic.name, index)] for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _no_producers(index: int, error: errors.KafkaError) -> PartitionResponse:
    return PartitionResponse(index, error.code, error.message)


async def write_markers(
    passing: Passing, api: Api, request: WriteTxnMarkersRequest, asked: Asked
) -> WriteTxnMarkersResponse:
    """End transactions in the cluster's partitions by hand."""
    results = await asyncio.gather(
        *(_write_marker(passing, api, one, asked) for one in request.markers)
    )
    return WriteTxnMarkersResponse(markers=results)


async def _write_marker(
    passing: Passing, api: Api, marker: WritableTxnMarker, asked: Asked
) -> WritableTxnMarkerResult:
    wanted = [
        (TopicPartition(topic.name, index), index)
        for topic in marker.topics
        for index in topic.partition_indexes
    ]

    def part(topics: dict[str, list[int]]) -> WriteTxnMarkersRequest:
        own = [WritableTxnMarkerTopic(name, indexes) for name, indexes in topics.items()]
        return WriteTxnMarkersRequest(markers=[replace(marker, topics=own)])

    def parts_of(
        response: WriteTxnMarkersResponse,
    ) -> Iterable[tuple[str, int, WritableTxnMarkerPartitionResult]]:
        topics = [topic for one in response.markers for topic in one.topics]
        return ((topic.name, p.partition_index, p) for topic in topics for p in topic.partitions)

    answers = await _from_leaders(passing, api, asked, wanted, part, parts_of, _no_marker)
    return WritableTxnMarkerResult(
        marker.producer_id,
        [
            WritableTxnMarkerTopicResult(
                topic.name,
                [answers[TopicPartition(topic.name, index)] for index in topic.partition_indexes],
            )
            for topic in marker.topics
        ],
    )


def _no_marker(index: int, error: errors.KafkaError) -> WritableTxnMarkerPartitionResult:
    return WritableTxnMarkerPartitionResult(index, error.code)


async def _from_leaders(
    passing: Passing,
    api: Api,
    asked: Asked,
    wanted: Iterable[tuple[TopicPartition, P]],
    part: Callable[[dict[str, list[P]]], Any],
    parts_of: Callable[[Any], Iterable[tuple[str, int, R]]],
    refused: Callable[[int, errors.KafkaError], R],
    needed: Operation | None = None,
) -> dict[TopicPartition, R]:
    """What the leaders answer about these partitions.

    Args:
        part: the request to one leader, about the partitions of these topics.
        parts_of: what a leader's answer says of each partition.
        refused: what to say of a partition that cannot be asked about.
        needed: what the client must be allowed on each topic; None: nothing of its own.
    """
    answers: dict[TopicPartition, R] = {}
    asking: dict[int, list[tuple[TopicPartition, P]]] = {}
    for where, one in wanted:
        try:
            require_topic(asked.access, needed, where.topic)
            asking.setdefault(await _leader(passing.cluster, where), []).append((where, one))
        except errors.KafkaError as error:
            answers[where] = refused(where.partition, error)

    async def ask(leader: int, own: list[tuple[TopicPartition, P]]) -> None:
        topics: dict[str, list[P]] = {}
        for where, one in own:
            answers[where] = refused(where.partition, errors.UnknownServerError())
            topics.setdefault(where.topic, []).append(one)
        try:
            response = await passing.to_node(leader, api, part(topics), asked)
        except errors.KafkaError as error:
            answers.update({where: refused(where.partition, error) for where, _ in own})
            return
        answers.update({TopicPartition(name, at): one for name, at, one in parts_of(response)})

    await asyncio.gather(*(ask(leader, own) for leader, own in asking.items()))
    if any(getattr(one, "error_code", 0) in _MOVED for one in answers.values()):
        with suppress(errors.KafkaError):  # what the others have answered counts nevertheless
            await passing.cluster.refresh()
    return answers


_MOVED = (
    errors.NotLeaderOrFollower.code,
    errors.NetworkException.code,
    errors.RequestTimedOut.code,
)


async def _leader(cluster: Cluster, where: TopicPartition) -> int:
    topic = await cluster.topic(where.topic)
    if where.partition >= len(topic.partitions):
        raise errors.UnknownTopicOrPartition
    leader = topic.partitions[where.partition].leader
    if leader not in cluster.metadata.nodes:
        raise errors.LeaderNotAvailable
    return leader
