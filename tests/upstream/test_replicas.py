"""Topics of ours that were made while the cluster had fewer brokers."""

from __future__ import annotations

from uuid import uuid4

import pytest

from sharegroup.broker.coordination.cluster_topic import too_few_replicas
from sharegroup.client.network.metadata import PartitionInfo, TopicMetadata


def topic(*replicas: int) -> TopicMetadata:
    """With so many replicas of each partition."""
    return TopicMetadata(
        name="state",
        topic_id=uuid4(),
        is_internal=False,
        partitions=tuple(
            PartitionInfo(number, 0, 0, tuple(range(many)), tuple(range(many)))
            for number, many in enumerate(replicas)
        ),
    )


@pytest.mark.parametrize(
    ("replicas", "brokers"), [((1,), 1), ((2, 2), 2), ((3, 3), 3), ((3,), 9), ((4,), 4)]
)
def test_what_the_cluster_can_keep_is_enough(replicas: tuple[int, ...], brokers: int) -> None:
    assert too_few_replicas(topic(*replicas), brokers) is None


@pytest.mark.parametrize(
    ("replicas", "brokers", "said"),
    [
        ((1, 1), 3, "1 of the cluster's 3 brokers keep it"),
        ((3, 2), 3, "give it 3 replicas (kafka-reassign-partitions) and min.insync.replicas=2"),
        ((1,), 2, "give it 2 replicas (kafka-reassign-partitions) and min.insync.replicas=1"),
    ],
)
def test_too_few_are_said_with_what_to_do(
    replicas: tuple[int, ...], brokers: int, said: str
) -> None:
    assert said in (too_few_replicas(topic(*replicas), brokers) or "")
