"""ListPartitionReassignments: there is never one where one node has everything (KIP-455)."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


async def list_partition_reassignments(
    _parts: BrokerParts, _request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """None, for whatever topics were asked."""
    context.access.require(Operation.DESCRIBE, CLUSTER)
    return ListPartitionReassignmentsResponse()
