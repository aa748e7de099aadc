"""AddPartitionsToTxn (API key 24).

Source: Kafka's message definitions AddPartitionsToTxnRequest.json, AddPartitionsToTxnResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i16, i32, i64, message, string


@message
class AddPartitionsToTxnTopic(Message):
    """A topic whose partitions are to be added."""

    name: str = string()
    partitions: Sequence[int] = array("i32")


@message
class AddPartitionsToTxnTransaction(Message):
    """A transaction, and the partitions to add to it or to verify (from version 4 on)."""

    transactional_id: str = string("4+")
    producer_id: int = i64("4+")
    producer_epoch: int = i16("4+")
    verify_only: bool = boolean("4+")
    topics: Sequence[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


@message
class AddPartitionsToTxnRequest(Message):
    """AddPartitionsToTxnRequest, versions 0-5."""

    FLEXIBLE = 3

    transactions: Sequence[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, "4+"
    )
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = i64("0-3")
    v3_and_below_producer_epoch: int = i16("0-3")
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


@message
class AddPartitionsToTxnPartitionResult(Message):
    """Whether one partition was added."""

    partition_index: int = i32()
    partition_error_code: int = i16()


@message
class AddPartitionsToTxnTopicResult(Message):
    """The results of one topic's partitions."""

    name: str = string()
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


@message
class AddPartitionsToTxnResult(Message):
    """The results of one transaction."""

    transactional_id: str = string("4+")
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "4+"
    )


@message
class AddPartitionsToTxnResponse(Message):
    """AddPartitionsToTxnResponse, versions 0-5."""

    FLEXIBLE = 3

    throttle_time_ms: int = i32()
    error_code: int = i16("4+")
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, "4+"
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3"
    )
