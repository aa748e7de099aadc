"""InitProducerId: a new producer id. A transactional id is refused with the final error that
``find_coordinator`` explains."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import CLUSTER, Operation, Resource, ResourceType
from sharegroup.broker.handlers.find_coordinator import NO_TRANSACTIONS
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import (
    ClusterAuthorizationFailed,
    InvalidRequest,
    TransactionalIdAuthorizationFailed,
)
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def init_producer_id(
    parts: BrokerParts, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    """A new id with epoch 0. A producer that bumps its own epoch gets a new id too, as in Kafka
    without transactions."""
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        context.access.require(
            Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        )
        raise TransactionalIdAuthorizationFailed(NO_TRANSACTIONS)
    if not context.access.allows(Operation.IDEMPOTENT_WRITE, CLUSTER) and not (
        context.access.allows_any(Operation.WRITE, ResourceType.TOPIC)
    ):
        raise ClusterAuthorizationFailed
    return InitProducerIdResponse(producer_id=parts.store.next_producer_id(), producer_epoch=0)
