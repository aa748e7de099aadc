"""DescribeCluster (API key 60).

Source: Kafka's message definitions DescribeClusterRequest.json, DescribeClusterResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i8, i16, i32, message, string


@message
class DescribeClusterRequest(Message):
    """DescribeClusterRequest, versions 0-2."""

    FLEXIBLE = 0

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = i8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


@message
class DescribeClusterBroker(Message):
    """A broker of the cluster, and its address."""

    broker_id: int = i32()
    host: str = string()
    port: int = i32()
    rack: str | None = string(default=None, nullable="0+")
    is_fenced: bool = boolean("2+")


@message
class DescribeClusterResponse(Message):
    """DescribeClusterResponse, versions 0-2."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    endpoint_type: int = i8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = i32(default=-1)
    brokers: Sequence[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = i32(default=-2147483648)
