"""UnregisterBroker (API key 64).

Source: Kafka's message definitions UnregisterBrokerRequest.json, UnregisterBrokerResponse.json.
"""

from __future__ import annotations

from sharegroup.wire.schema import Message, i16, i32, message, string


@message
class UnregisterBrokerRequest(Message):
    """UnregisterBrokerRequest, version 0."""

    FLEXIBLE = 0

    broker_id: int = i32()


@message
class UnregisterBrokerResponse(Message):
    """UnregisterBrokerResponse, version 0."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(nullable="0+")
