"""ListPartitionReassignments: a single node never has a reassignment in progress (KIP-455)."""

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
    """An empty list, whatever topics the request names."""
    context.access.require(Operation.DESCRIBE, CLUSTER)
    return ListPartitionReassignmentsResponse()
