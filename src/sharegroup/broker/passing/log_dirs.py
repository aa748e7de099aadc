"""DescribeLogDirs: the folders of all brokers of the cluster, by each of our brokers with the
partitions that it leads. Clients ask each of our brokers, so they are told of a replica once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sharegroup.broker.passing.passing import Asked, Passing
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


async def describe_log_dirs(
    passing: Passing, api: Api, request: DescribeLogDirsRequest, asked: Asked
) -> DescribeLogDirsResponse:
    """See the module. The name of a folder begins with its broker's id: brokers on several machines
    have folders of one name.

    Raises:
        ClusterAuthorizationFailed: our broker may not ask that.
    """
    await passing.seen([])  # or those of a topic that was just made elsewhere would be missing
    nodes = [*passing.cluster.metadata.nodes]
    answers = await passing.to_nodes(nodes, api, request, asked)
    found: list[DescribeLogDirsResult] = []
    for node, answer in zip(nodes, answers, strict=True):
        if answer.error_code:
            raise errors.error_from_code(answer.error_code)
        found += _of_node(node, answer, passing.leads)
    return DescribeLogDirsResponse(results=found)


def _of_node(
    node: int, answer: DescribeLogDirsResponse, leads: Callable[[TopicPartition], bool]
) -> Iterator[DescribeLogDirsResult]:
    for one in answer.results:
        topics = [
            replace(topic, partitions=own)
            for topic in one.topics
            if (
                own := [
                    each
                    for each in topic.partitions
                    if leads(TopicPartition(topic.name, each.partition_index))
                ]
            )
        ]
        yield replace(one, log_dir=f"{node}:{one.log_dir}", topics=topics)
