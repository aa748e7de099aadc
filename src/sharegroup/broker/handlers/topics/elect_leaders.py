"""ElectLeaders: nobody stands for election where one node leads everything (KIP-460; Kafka class
ReplicationControlManager, electLeaders)."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model import errors
from sharegroup.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from sharegroup.wire.refusal import refuser

PREFERRED: Final = 0
UNCLEAN: Final = 1


async def elect_leaders(
    parts: BrokerParts, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    """ELECTION_NOT_NEEDED for each partition that the request names. If it asks for all partitions,
    partitions that need no election are left out: then the answer is empty."""
    context.access.require(Operation.ALTER, CLUSTER)
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise errors.InvalidRequest(f"there is no election type {request.election_type}")
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic,
                [_elected(parts, topic.topic, number) async for number in sliced(topic.partitions)],
            )
            async for topic in sliced(request.topic_partitions or ())
        ]
    )


failure = refuser(ElectLeadersResponse)
"""The request and each of its parts say the error."""


def _elected(parts: BrokerParts, name: str, number: int) -> PartitionResult:
    topic = parts.topics.find(name)
    error: errors.KafkaError = errors.ElectionNotNeeded()
    if topic is None:
        error = errors.UnknownTopicOrPartition(f"No such topic as {name}")
    elif not 0 <= number < topic.partition_count:
        error = errors.UnknownTopicOrPartition(f"No such partition as {name}-{number}")
    return PartitionResult(number, error.code, error.message)
