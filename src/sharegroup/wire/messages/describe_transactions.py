"""DescribeTransactions (API key 65).

Source: Kafka's message definitions DescribeTransactionsRequest.json,
DescribeTransactionsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, i32, i64, message, string


@message
class DescribeTransactionsRequest(Message):
    """DescribeTransactionsRequest, versions 0-0."""

    FLEXIBLE = 0

    transactional_ids: Sequence[str] = array("string")


@message
class TopicData(Message):
    """Partitions of one topic that are part of the transaction."""

    topic: str = string()
    partitions: Sequence[int] = array("i32")


@message
class TransactionState(Message):
    """The state of one transactional id, or an error."""

    error_code: int = i16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = i32()
    transaction_start_time_ms: int = i64()
    producer_id: int = i64()
    producer_epoch: int = i16()
    topics: Sequence[TopicData] = array(TopicData)


@message
class DescribeTransactionsResponse(Message):
    """DescribeTransactionsResponse, versions 0-0."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    transaction_states: Sequence[TransactionState] = array(TransactionState)
