"""A broker in front of a cluster: stock clients work a queue whose records lie in the cluster."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import UnknownTopicOrPartition
from sharegroup.wire.apis import LIST_OFFSETS
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
BACKLOG = 30_000
"""Records: some megabytes, more than an answer of the cluster has."""


def test_a_stock_client_works_off_records_of_the_cluster(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    admin.Admin(cluster.bootstrap).create_topic("jobs", partitions=3)
    admin.Admin(node.bootstrap).start_group_at_earliest("workers")
    admin.produce(cluster.bootstrap, "jobs", [b"%d" % n for n in range(50)])
    with share_consumer(node.bootstrap, "workers", "jobs", explicit=False) as consumer:
        assert sorted(receive_accepting(consumer, 50), key=int) == [b"%d" % n for n in range(50)]
        admin.produce(node.bootstrap, "jobs", [b"%d" % n for n in range(50, 60)])
        assert sorted(receive_accepting(consumer, 10), key=int) == [
            b"%d" % n for n in range(50, 60)
        ]


def test_a_consumer_may_begin_at_the_first_offset_of_what_nobody_has_read(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    """As a program does that keeps its own offsets: it asks for no offset before."""
    admin.Admin(cluster.bootstrap).create_topic("assigned", partitions=2)
    admin.produce(cluster.bootstrap, "assigned", [b"early"], partition=0)
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "none", **admin.SILENT}
    consumer = Consumer({**settings, "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition("assigned", number, 0) for number in range(2)])
    try:
        assert [one.value() for one in consumer.consume(1, 20)] == [b"early"]
        admin.produce(cluster.bootstrap, "assigned", [b"later"], partition=1)
        assert [one.value() for one in consumer.consume(1, 20)] == [b"later"]
    finally:
        consumer.close()


def test_a_topic_is_looked_for_when_its_offsets_are_asked(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    """As by a client that another broker has told of it."""

    async def scenario() -> None:
        async with Cluster(node.bootstrap) as client:
            [node_id] = client.metadata.nodes
            await asyncio.to_thread(admin.Admin(cluster.bootstrap).create_topic, "just-made")
            for name, error in ("just-made", 0), ("never-made", UnknownTopicOrPartition.code):
                wanted = [ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=-1)])]
                request = ListOffsetsRequest(replica_id=-1, topics=wanted)
                answer = await client.send(node_id, LIST_OFFSETS, request)
                assert answer.topics[0].partitions[0].error_code == error

    asyncio.run(scenario())


def test_a_backlog_is_worked_off(cluster: RunningServer, node: SharegroupServer) -> None:
    admin.Admin(cluster.bootstrap).create_topic("backlog")
    admin.Admin(node.bootstrap).start_group_at_earliest("late")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, **admin.SILENT})
    for number in range(BACKLOG):
        producer.produce("backlog", b"%0100d" % number)
        producer.poll(0)
    assert producer.flush(60) == 0
    with share_consumer(node.bootstrap, "late", "backlog", explicit=False) as consumer:
        values = receive_accepting(consumer, BACKLOG)
    assert sorted(values) == [b"%0100d" % number for number in range(BACKLOG)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_group_is_one_of_the_cluster(
    cluster: RunningServer, node: SharegroupServer, protocol: str
) -> None:
    topic = f"mails-{protocol}"
    admin.Admin(node.bootstrap).create_topic(topic, partitions=2)
    admin.produce(node.bootstrap, topic, [b"%d" % n for n in range(20)])

    def read(bootstrap: str, count: int) -> set[bytes]:
        settings = {"group.id": topic, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **admin.SILENT})
        consumer.subscribe([topic])
        found: set[bytes] = set()
        while len(found) < count:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.add(message.value())
        consumer.commit(asynchronous=False)
        consumer.close()
        return found

    assert len(read(node.bootstrap, 20)) == 20
    admin.produce(cluster.bootstrap, topic, [b"later"])
    assert read(cluster.bootstrap, 1) == {b"later"}, "it goes on where it was, without the node"


def test_a_transaction_is_one_of_the_cluster(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    admin.Admin(cluster.bootstrap).create_topic("paid")
    nodes = admin.Admin(node.bootstrap)
    nodes.start_group_at_earliest("payers")
    nodes.set_group("payers", share_isolation_level="read_committed")
    producer = Producer(
        {"bootstrap.servers": node.bootstrap, "transactional.id": "till", **admin.SILENT}
    )
    producer.init_transactions(60)
    for value in (b"aborted", b"committed"):
        producer.begin_transaction()
        producer.produce("paid", value)
        producer.flush(60)
        end = producer.commit_transaction if value == b"committed" else producer.abort_transaction
        end(60)
    with share_consumer(node.bootstrap, "payers", "paid", explicit=False) as consumer:
        assert receive_accepting(consumer, 1) == [b"committed"]
