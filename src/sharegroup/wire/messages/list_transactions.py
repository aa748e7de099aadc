"""ListTransactions (API key 66).

Source: Kafka's message definitions ListTransactionsRequest.json, ListTransactionsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, i32, i64, message, string


@message
class ListTransactionsRequest(Message):
    """ListTransactionsRequest, versions 0-2."""

    FLEXIBLE = 0

    state_filters: Sequence[str] = array("string")
    producer_id_filters: Sequence[int] = array("i64")
    duration_filter: int = i64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", default=None, nullable="2+")


@message
class TransactionState(Message):
    """A transactional id in the list."""

    transactional_id: str = string()
    producer_id: int = i64()
    transaction_state: str = string()


@message
class ListTransactionsResponse(Message):
    """ListTransactionsResponse, versions 0-2."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    unknown_state_filters: Sequence[str] = array("string")
    transaction_states: Sequence[TransactionState] = array(TransactionState)
