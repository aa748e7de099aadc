"""Topics of the cluster that can lose records which it has confirmed. A queue cannot be safer than
its topic."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.metadata import TopicMetadata
from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

logger = logging.getLogger("sharegroup.broker")

REPLICAS_MIN: Final = 2
UNCLEAN: Final = "unclean.leader.election.enable"
TOPIC: Final = 2
"""The type of a resource."""
AT_ONCE: Final = 500
"""Topics whose settings are asked for in one request."""
NAMED: Final = 5
"""So many topics a warning names."""


async def say_unsafe(cluster: Cluster, topics: Collection[TopicMetadata]) -> None:
    """Warn of the topics that lie on one broker alone, and of those where a broker that lacks
    records may become the leader. Of a topic whose settings may not be seen nothing is said."""
    alone = sorted(topic.name for topic in topics if is_alone(topic))
    if alone:
        logger.warning(
            "%d of %d topics of the cluster have partitions on one broker alone, and are lost with "
            "it: %s",
            len(alone),
            len(topics),
            some_of(alone),
        )
    try:
        may_be = await may_be_unclean(cluster, sorted(topic.name for topic in topics))
    except errors.KafkaError as error:
        logger.info("whether topics of the cluster have %s is not known: %s", UNCLEAN, error)
        return
    unclean = [name for name, is_so in may_be.items() if is_so]
    if unclean:
        logger.warning(
            "%d of %d topics of the cluster have %s=true: what is confirmed may be lost when their "
            "brokers fail one after the other, and offsets be given to other records: %s",
            len(unclean),
            len(topics),
            UNCLEAN,
            some_of(unclean),
        )


def is_alone(topic: TopicMetadata) -> bool:
    """Whether some of its partitions lie on one broker alone."""
    return any(len(partition.replicas) < REPLICAS_MIN for partition in topic.partitions)


def some_of(topics: Sequence[str]) -> str:
    """The first names, for a warning."""
    return ", ".join(topics[:NAMED]) + (", …" if len(topics) > NAMED else "")


async def may_be_unclean(cluster: Cluster, names: Sequence[str]) -> dict[str, bool | None]:
    """Whether a broker that lacks records may become the leader; None: the settings of the topic
    may not be seen.

    Raises:
        KafkaError: the cluster cannot be asked.
    """
    found: dict[str, bool | None] = {}
    for at in range(0, len(names), AT_ONCE):
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(TOPIC, name, [UNCLEAN]) for name in names[at : at + AT_ONCE]
            ]
        )
        answer: DescribeConfigsResponse = await cluster.send_to_any(apis.DESCRIBE_CONFIGS, request)
        found |= {one.resource_name: _is_unclean(one) for one in answer.results}
    return found


def _is_unclean(result: DescribeConfigsResult) -> bool | None:
    if result.error_code:
        return None
    return any(one.name == UNCLEAN and one.value == "true" for one in result.configs)
