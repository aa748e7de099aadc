"""UnregisterBroker: forget a broker that is gone for good. There is only this broker, and it is not
gone (Kafka class ClusterControlManager, unregisterBroker)."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import BrokerIdNotRegistered, InvalidRequest
from sharegroup.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


async def unregister_broker(
    parts: BrokerParts, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    """Refuse. (Kafka forgets itself, and has no broker from then on.)

    Raises:
        BrokerIdNotRegistered: there is no such broker.
        InvalidRequest: the request names this broker, which is running.
    """
    context.access.require(Operation.ALTER, CLUSTER)
    if request.broker_id != parts.node_id:
        raise BrokerIdNotRegistered(f"Broker ID {request.broker_id} is not currently registered")
    raise InvalidRequest(f"Broker ID {request.broker_id} is this broker, the only one: it runs")
