"""SaslHandshake where it is out of place. Elsewhere ``network.sasl_session`` answers it."""

from __future__ import annotations

from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import IllegalSaslState
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def sasl_handshake(
    parts: BrokerParts, request: SaslHandshakeRequest, context: RequestContext
) -> SaslHandshakeResponse:
    """Refuse: the listener has no SASL, or the client has authenticated already (Kafka class
    KafkaApis).

    Raises:
        IllegalSaslState: always.
    """
    raise IllegalSaslState
