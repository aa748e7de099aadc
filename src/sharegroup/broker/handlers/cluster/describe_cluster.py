"""DescribeCluster: one node, which is its own controller."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import CLUSTER, OPERATIONS_NOT_ASKED, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import InvalidRequest
from sharegroup.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1


async def describe_cluster(
    parts: BrokerParts, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    """Answer for the brokers' endpoint; there are no controllers to list."""
    if context.version >= 1 and request.endpoint_type != BROKERS:
        raise InvalidRequest("only brokers (endpoint type 1) can be described here")
    operations = OPERATIONS_NOT_ASKED
    if request.include_cluster_authorized_operations:
        allowed = context.access.allows(Operation.DESCRIBE, CLUSTER)
        operations = context.access.operations(CLUSTER) if allowed else 0
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=parts.topics.cluster_id,
        controller_id=parts.leadership.controller_id,
        brokers=[DescribeClusterBroker(*n) for n in parts.leadership.nodes(context.advertised)],
        cluster_authorized_operations=operations,
    )
