"""DescribeLogDirs (API key 35).

Source: Kafka's message definitions DescribeLogDirsRequest.json, DescribeLogDirsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i16, i32, i64, message, string


@message
class DescribableLogDirTopic(Message):
    """A topic with the partitions to describe."""

    topic: str = string()
    partitions: Sequence[int] = array("i32")


@message
class DescribeLogDirsRequest(Message):
    """DescribeLogDirsRequest, versions 1-5."""

    FLEXIBLE = 2

    topics: Sequence[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@message
class DescribeLogDirsPartition(Message):
    """The size of one partition's log."""

    partition_index: int = i32()
    partition_size: int = i64()
    offset_lag: int = i64()
    is_future_key: bool = boolean()


@message
class DescribeLogDirsTopic(Message):
    """A topic with partitions whose logs are in the folder."""

    name: str = string()
    partitions: Sequence[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@message
class DescribeLogDirsResult(Message):
    """A data folder: its partitions and its room."""

    error_code: int = i16()
    log_dir: str = string()
    topics: Sequence[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = i64("4+", default=-1)
    usable_bytes: int = i64("4+", default=-1)
    is_cordoned: bool = boolean("5+")


@message
class DescribeLogDirsResponse(Message):
    """DescribeLogDirsResponse, versions 1-5."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    error_code: int = i16("3+")
    results: Sequence[DescribeLogDirsResult] = array(DescribeLogDirsResult)
