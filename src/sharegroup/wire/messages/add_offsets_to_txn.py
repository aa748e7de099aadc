"""AddOffsetsToTxn (API key 25).

Source: Kafka's message definitions AddOffsetsToTxnRequest.json, AddOffsetsToTxnResponse.json.
"""

from __future__ import annotations

from sharegroup.wire.schema import Message, i16, i32, i64, message, string


@message
class AddOffsetsToTxnRequest(Message):
    """AddOffsetsToTxnRequest, versions 0-4."""

    FLEXIBLE = 3

    transactional_id: str = string()
    producer_id: int = i64()
    producer_epoch: int = i16()
    group_id: str = string()


@message
class AddOffsetsToTxnResponse(Message):
    """AddOffsetsToTxnResponse, versions 0-4."""

    FLEXIBLE = 3

    throttle_time_ms: int = i32()
    error_code: int = i16()
