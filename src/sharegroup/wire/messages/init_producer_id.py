"""InitProducerId (API key 22).

Source: Kafka's message definitions InitProducerIdRequest.json, InitProducerIdResponse.json.
"""

from __future__ import annotations

from sharegroup.wire.schema import Message, boolean, i16, i32, i64, message, string


@message
class InitProducerIdRequest(Message):
    """InitProducerIdRequest, versions 0-6."""

    FLEXIBLE = 2

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = i32()
    producer_id: int = i64("3+", default=-1)
    producer_epoch: int = i16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


@message
class InitProducerIdResponse(Message):
    """InitProducerIdResponse, versions 0-6."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    error_code: int = i16()
    producer_id: int = i64(default=-1)
    producer_epoch: int = i16()
    ongoing_txn_producer_id: int = i64("6+", default=-1)
    ongoing_txn_producer_epoch: int = i16("6+", default=-1)
