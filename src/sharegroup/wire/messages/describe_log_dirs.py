"""DescribeLogDirs (API key 35).

Source: Kafka's message definitions DescribeLogDirsRequest.json, DescribeLogDirsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i16, i32, i64, message, string


@message
class DescribableLogDirTopic(Message):
    """In DescribeLogDirsRequest."""

    topic: str = string()
    partitions: Sequence[int] = array("i32")


@message
class DescribeLogDirsRequest(Message):
    """DescribeLogDirsRequest, versions 1-5."""

    FLEXIBLE = 2

    topics: Sequence[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@message
class DescribeLogDirsPartition(Message):
    """In DescribeLogDirsResponse."""

    partition_index: int = i32()
    partition_size: int = i64()
    offset_lag: int = i64()
    is_future_key: bool = boolean()


@message
class DescribeLogDirsTopic(Message):
    """In DescribeLogDirsResponse."""

    name: str = string()
    partitions: Sequence[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@message
class DescribeLogDirsResult(Message):
    """In DescribeLogDirsResponse."""

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
