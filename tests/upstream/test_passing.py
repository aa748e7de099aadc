"""What a broker in front of a cluster passes on: groups, settings, transactions, and who may."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sharegroup import Admin, Producer, ShareConsumer
from sharegroup.client import AckType
from sharegroup.client.admin.descriptions import ConfigSetting
from sharegroup.model import errors
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.upstream.reading import read

pytestmark = pytest.mark.process
SECONDS = 60


def test_a_list_has_the_groups_of_broker_and_cluster(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    admin.Admin(node.bootstrap).create_topic("listed")
    admin.produce(cluster.bootstrap, "listed", [b"1", b"2"])
    admin.Admin(node.bootstrap).start_group_at_earliest("list-queue")
    with share_consumer(node.bootstrap, "list-queue", "listed", explicit=False) as consumer:
        receive_accepting(consumer, 2)
    read(cluster.bootstrap, "list-readers", "listed", 2)

    async def scenario() -> None:
        async with Admin(node.bootstrap) as ours, Admin(cluster.bootstrap) as theirs:
            types = {one.group_id: one.type for one in await ours.list_groups()}
            assert types["list-queue"] == "share"
            assert types["list-readers"] == "classic"
            assert "list-readers" not in {one.group_id for one in await ours.list_groups("share")}
            assert [one.group_id for one in await ours.list_groups("classic")].count(
                "list-queue"
            ) == 0
            described = (await ours.describe_consumer_groups(["list-readers"]))["list-readers"]
            assert described.state == "Empty"
            offsets = await ours.list_consumer_group_offsets("list-readers")
            assert [one.offset for one in offsets.values()] == [2]
            await ours.delete_groups("list-readers", "list-queue")
            left = {one.group_id for one in await ours.list_groups()}
            assert not left & {"list-readers", "list-queue"}
            assert "list-readers" not in {one.group_id for one in await theirs.list_groups()}
            with pytest.raises(errors.GroupIdNotFound):
                await ours.delete_groups("list-nobody")

    asyncio.run(scenario())


def test_what_may_be_done_with_a_group_is_told(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    admin.Admin(node.bootstrap).create_topic("operated")
    admin.produce(cluster.bootstrap, "operated", [b"1"])
    read(cluster.bootstrap, "operators", "operated", 1)

    def operations(bootstrap: str) -> set[object]:
        client = AdminClient({"bootstrap.servers": bootstrap})
        asked = client.describe_consumer_groups(["operators"], include_authorized_operations=True)
        return set(asked["operators"].result().authorized_operations)

    assert operations(node.bootstrap) == operations(cluster.bootstrap) > set()


async def known(one: Admin, topic: str, name: str, value: str) -> dict[str, ConfigSetting]:
    """The settings of a topic when one has this value: Kafka's brokers hear of a change later than
    whoever has made it."""
    while (found := await one.describe_configs("topic", topic))[name].value != value:
        continue
    return found


def test_settings_of_topics_are_the_clusters(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    letters = "errors.deadletterqueue.group.enable"

    async def scenario() -> None:
        async with Admin(node.bootstrap) as ours, Admin(cluster.bootstrap) as theirs:
            await ours.create_topics("dlq.set", configs={letters: "true", "retention.ms": "5000"})
            await ours.alter_configs("topic", "dlq.set", {"segment.ms": "7000"})
            found = await known(theirs, "dlq.set", "segment.ms", "7000")
            assert found["retention.ms"].value == "5000"
            found = await ours.describe_configs("topic", "dlq.set")
            assert (found["retention.ms"].value, found["segment.ms"].value) == ("5000", "7000")
            assert found[letters].value == "true"
            await ours.alter_configs("topic", "dlq.set", {letters: "false", "retention.ms": None})
            found = await known(ours, "dlq.set", "retention.ms", "604800000")
            assert found[letters].value == "false"
            with pytest.raises(errors.UnknownTopicOrPartition):
                await ours.alter_configs("topic", "dlq.none", {"retention.ms": "1"})
            assert (await ours.describe_configs("broker", "")) is not None
            mixed = {"consumer.session.timeout.ms": "50000", "share.paused": "true"}
            with pytest.raises(errors.InvalidRequest, match="which the cluster has: set it there"):
                await ours.alter_configs("group", "settled", mixed)
            assert (await ours.describe_configs("group", "settled"))["share.paused"].value != "true"

    asyncio.run(scenario())


def test_a_rejected_record_becomes_a_dead_letter_in_the_cluster(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    async def prepare() -> None:
        async with Admin(node.bootstrap) as ours:
            await ours.create_topics("bills")
            await ours.create_topics(
                "dlq.bills", configs={"errors.deadletterqueue.group.enable": "true"}
            )
            named = {
                "errors.deadletterqueue.topic.name": "dlq.bills",
                "errors.deadletterqueue.copy.record.enable": "true",
                "share.auto.offset.reset": "earliest",
            }
            await ours.alter_configs("group", "billers", named)

    async def rejecting() -> None:
        async with ShareConsumer(
            "bills",
            group_id="billers",
            bootstrap_servers=node.bootstrap,
            acknowledgement_mode="explicit",
        ) as consumer:
            [record] = await consumer.poll(SECONDS * 1_000)
            consumer.acknowledge(record, AckType.REJECT)
            await consumer.commit()

    asyncio.run(prepare())
    admin.produce(node.bootstrap, "bills", [b"not a bill"])
    asyncio.run(rejecting())
    read(cluster.bootstrap, "letter-readers", "dlq.bills", 1)

    async def redrive() -> int:
        async with Admin(node.bootstrap) as ours:
            return (await ours.redrive_dead_letters("billers")).done

    assert asyncio.run(redrive()) == 1
    with share_consumer(node.bootstrap, "billers", "bills", explicit=False) as consumer:
        assert receive_accepting(consumer, 1) == [b"not a bill"]


def was_created(theirs: admin.Admin, name: str) -> bool:
    """Whether it could be: a cluster with ZooKeeper deletes for a while."""
    try:
        theirs.create_topic(name)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def test_a_topic_that_is_made_anew_begins_anew(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    theirs = admin.Admin(cluster.bootstrap)
    theirs.create_topic("anew")
    admin.Admin(node.bootstrap).start_group_at_earliest("anew-queue")
    admin.produce(cluster.bootstrap, "anew", [b"old"])
    with share_consumer(node.bootstrap, "anew-queue", "anew", explicit=False) as consumer:
        assert receive_accepting(consumer, 1) == [b"old"]
    theirs.delete_topic("anew")
    while not was_created(theirs, "anew"):
        continue
    admin.produce(cluster.bootstrap, "anew", [b"new"])
    with share_consumer(node.bootstrap, "anew-queue", "anew", explicit=False) as consumer:
        assert receive_accepting(consumer, 1) == [b"new"]


def test_transactions_are_shown(node: SharegroupServer) -> None:
    async def scenario() -> None:
        async with (
            Admin(node.bootstrap) as ours,
            Producer(node.bootstrap, transactional_id="shown") as producer,
        ):
            await ours.create_topics("tills")
            async with producer.transaction():
                await producer.send("tills", b"1")
                described = (await ours.describe_transactions(["shown"]))["shown"]
                assert described.state == "Ongoing"
            assert "shown" in {one.transactional_id for one in await ours.list_transactions()}

    asyncio.run(scenario())
