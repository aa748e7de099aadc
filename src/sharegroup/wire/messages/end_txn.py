"""EndTxn (API key 26).

Source: Kafka's message definitions EndTxnRequest.json, EndTxnResponse.json.
"""

from __future__ import annotations

from sharegroup.wire.schema import Message, boolean, i16, i32, i64, message, string


@message
class EndTxnRequest(Message):
    """EndTxnRequest, versions 0-5."""

    FLEXIBLE = 3

    transactional_id: str = string()
    producer_id: int = i64()
    producer_epoch: int = i16()
    committed: bool = boolean()


@message
class EndTxnResponse(Message):
    """EndTxnResponse, versions 0-5."""

    FLEXIBLE = 3

    throttle_time_ms: int = i32()
    error_code: int = i16()
    producer_id: int = i64("5+", default=-1)
    producer_epoch: int = i16("5+", default=-1)
