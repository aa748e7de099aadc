"""What is to be seen in front of three brokers of Apache Kafka: a topic that becomes safe, and
replicas that move."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import NewTopic
from kafka.admin import KafkaAdminClient
from kafka.errors import InvalidReplicationAssignmentError, KafkaError
from kafka.structs import TopicPartition

from sharegroup import Admin
from tests.apache_kafka.three_brokers import ThreeBrokers
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.upstream.refusing import SECONDS, refusal, refusing

pytestmark = [pytest.mark.process, pytest.mark.kafka]
UNCLEAN = "unclean.leader.election.enable"
T = TypeVar("T")


class Running(NamedTuple):
    """Three brokers of a cluster, and one of ours."""

    cluster: ThreeBrokers
    node: SharegroupServer


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """They have a topic `clean` and a topic `unclean`."""
    folder = tmp_path_factory.mktemp("three")

    async def make(cluster: str) -> None:
        async with Admin(cluster) as theirs:
            await theirs.create_topics("unclean", configs={UNCLEAN: "true"})
            await theirs.create_topics("clean", configs={UNCLEAN: "false"})

    with ThreeBrokers(folder) as cluster:
        asyncio.run(make(cluster.bootstrap))
        with refusing(cluster.bootstrap, folder / "node") as node:
            yield Running(cluster, node)
            node.kill()


def test_a_topic_that_becomes_safe_is_read(running: Running) -> None:
    node = running.node

    async def mend(bootstrap: str) -> None:
        async with Admin(bootstrap) as ours:
            await ours.alter_configs("topic", "unclean", {UNCLEAN: "false"})

    admin.Admin(node.bootstrap).start_group_at_earliest("readers")
    for topic in ("clean", "unclean"):
        admin.produce(node.bootstrap, topic, [topic.encode()])
    told = refusal(node.bootstrap, "unclean")
    assert f"it has {UNCLEAN}=true, so what is confirmed may be lost" in told.str()
    with share_consumer(node.bootstrap, "readers", "clean", explicit=False) as consumer:
        assert receive_accepting(consumer, 1) == [b"clean"]
    asyncio.run(mend(node.bootstrap))
    node.process.wait_until(
        lambda: "share groups get records of unclean again" in node.output(), timeout_s=SECONDS
    )
    with share_consumer(node.bootstrap, "readers", "unclean", explicit=False) as consumer:
        assert receive_accepting(consumer, 1) == [b"unclean"]


MOVED = TopicPartition("moved", 0)


class Replicas:
    """Those of MOVED, as the cluster says."""

    def __init__(self, bootstrap: str) -> None:
        self._client = admin.Admin(bootstrap).client

    def are(self, *brokers: int, leader: int) -> None:
        """Wait until they are on these brokers."""
        deadline = time.monotonic() + SECONDS
        while (found := self._found()) != (brokers, leader):
            assert time.monotonic() < deadline, found

    def _found(self) -> tuple[tuple[int, ...], int]:
        (done,) = self._client.describe_topics(TopicCollection([MOVED.topic])).values()
        [partition] = done.result(admin.ADMIN_SECONDS).partitions
        return tuple(one.id for one in partition.replicas), partition.leader.id


def answered(ask: Callable[[], T]) -> T:
    """An answer, also where the broker that is asked first has just died."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return ask()
        except KafkaError:
            assert time.monotonic() < deadline


def test_replicas_move_and_leaders_are_elected(running: Running) -> None:
    cluster, node = running
    replicas = Replicas(cluster.bootstrap)
    librdkafka = admin.Admin(node.bootstrap).client
    topic = NewTopic(MOVED.topic, 1, replica_assignment=[[1, 2]])
    for done in librdkafka.create_topics([topic]).values():
        done.result(admin.ADMIN_SECONDS)
    ours = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    move, moving = ours.alter_partition_reassignments, ours.list_partition_reassignments
    assert move({MOVED: [2, 3]}) == {MOVED: None}
    replicas.are(2, 3, leader=2)
    assert move({MOVED: [3, 2]}) == {MOVED: None}
    replicas.are(3, 2, leader=2)
    ours.elect_leaders(0, {MOVED.topic: [MOVED.partition]})
    replicas.are(3, 2, leader=3)
    [node_id] = [one["broker_id"] for one in ours.describe_cluster()["brokers"]]
    assert move({MOVED: [node_id]}) == {MOVED: InvalidReplicationAssignmentError}
    cluster.brokers[0].kill()
    assert answered(lambda: move({MOVED: [3, 1]})) == {MOVED: None}
    assert answered(moving)[MOVED]["adding_replicas"] == [1]
    assert answered(lambda: move({MOVED: None})) == {MOVED: None}
    assert answered(moving) == {}
    ours.close()
