"""AlterPartitionReassignments: a partition can be given to this node only, which has it already
(KIP-455; Kafka class ReplicationControlManager, alterPartitionReassignments)."""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model import errors
from sharegroup.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from sharegroup.wire.refusal import refuser


async def alter_partition_reassignments(
    parts: BrokerParts, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    """Each partition on its own. No reassignment is ever in progress, so cancelling one is an
    error."""
    context.access.require(Operation.ALTER, CLUSTER)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [_reassigned(parts, topic.name, part) async for part in sliced(topic.partitions)],
            )
            async for topic in sliced(request.topics)
        ],
    )


failure = refuser(AlterPartitionReassignmentsResponse)
"""The request and each of its parts say the error."""


def _reassigned(
    parts: BrokerParts, name: str, wanted: ReassignablePartition
) -> ReassignablePartitionResponse:
    answer = ReassignablePartitionResponse(wanted.partition_index)
    try:
        _check(parts, name, wanted)
    except errors.KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
    return answer


def _check(parts: BrokerParts, name: str, wanted: ReassignablePartition) -> None:
    topic, number = parts.topics.find(name), wanted.partition_index
    if topic is None:
        raise errors.UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
    if not 0 <= number < topic.partition_count:
        raise errors.UnknownTopicOrPartition(f"Unable to find partition {name}:{number}.")
    if wanted.replicas is None:
        raise errors.NoReassignmentInProgress
    _check_replicas(wanted.replicas, parts.node_id)


def _check_replicas(replicas: Sequence[int], node_id: int) -> None:
    said = "The manual partition assignment includes"
    if not replicas:
        raise errors.InvalidReplicaAssignment(f"{said} an empty replica list.")
    for broker in sorted(replicas):
        if broker != node_id:
            raise errors.InvalidReplicaAssignment(
                f"{said} broker {broker}, but no such broker is registered."
            )
    if len(replicas) > 1:
        raise errors.InvalidReplicaAssignment(f"{said} the broker {node_id} more than once.")
