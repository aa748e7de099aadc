"""DescribeLogDirs: the data folder, and how large its partitions are (KIP-113, KIP-827; Kafka class
ReplicaManager, describeLogDirs)."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


async def describe_log_dirs(
    parts: BrokerParts, request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    """Every partition, or the partitions that the request names; unknown partitions are left out.
    There are no followers and no moves between folders, so the lag is 0."""
    context.access.require(Operation.DESCRIBE, CLUSTER)
    folder = parts.views.topics.folder()
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        pairs = ((topic.topic, number) for topic in request.topics for number in topic.partitions)
        wanted = {TopicPartition(*pair) for pair in pairs}
    found: dict[str, list[DescribeLogDirsPartition]] = {}
    async for key, size in sliced(sorted(folder.sizes.items())):
        if wanted is None or key in wanted:
            found.setdefault(key.topic, []).append(DescribeLogDirsPartition(key.partition, size))
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=folder.path,
                topics=[DescribeLogDirsTopic(name, own) for name, own in found.items()],
                total_bytes=folder.total_bytes,
                usable_bytes=folder.usable_bytes,
            )
        ]
    )
