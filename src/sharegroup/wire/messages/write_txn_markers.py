"""WriteTxnMarkers (API key 27).

Source: Kafka's message definitions WriteTxnMarkersRequest.json, WriteTxnMarkersResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i8, i16, i32, i64, message, string


@message
class WritableTxnMarkerTopic(Message):
    """A topic with partitions that get the marker."""

    name: str = string()
    partition_indexes: Sequence[int] = array("i32")


@message
class WritableTxnMarker(Message):
    """A marker, and the partitions that get it."""

    producer_id: int = i64()
    producer_epoch: int = i16()
    transaction_result: bool = boolean()
    topics: Sequence[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = i32()
    transaction_version: int = i8("2+")


@message
class WriteTxnMarkersRequest(Message):
    """WriteTxnMarkersRequest, versions 1-2."""

    FLEXIBLE = 1

    markers: Sequence[WritableTxnMarker] = array(WritableTxnMarker)


@message
class WritableTxnMarkerPartitionResult(Message):
    """Whether one partition got the marker."""

    partition_index: int = i32()
    error_code: int = i16()


@message
class WritableTxnMarkerTopicResult(Message):
    """The results of one topic's partitions."""

    name: str = string()
    partitions: Sequence[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@message
class WritableTxnMarkerResult(Message):
    """The results of one producer's marker."""

    producer_id: int = i64()
    topics: Sequence[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@message
class WriteTxnMarkersResponse(Message):
    """WriteTxnMarkersResponse, versions 1-2."""

    FLEXIBLE = 1

    markers: Sequence[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
