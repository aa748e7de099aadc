"""Committed offsets of stock clients and tools; and `__consumer_offsets` both ways, with offsets in
transactions.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import (
    OFFSET_INVALID,
    OFFSET_STORED,
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)

from sharegroup.broker.coordination.log import ProducerEpoch as TransactionalProducer
from sharegroup.broker.coordination.offset_coordinator import OffsetTransaction
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.broker.server import Broker
from sharegroup.groups.offsets import Commit, CommitClient, CommittedOffset
from sharegroup.model.ids import TopicPartition as Place
from sharegroup.storage.checkpoints import read_topic_id
from sharegroup.storage.disk import LocalDisk
from sharegroup.transactions.transaction import EPOCH_PER_TRANSACTION
from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.tools import KafkaTools, dump_log, run_tool
from tests.broker.running import running
from tests.servers.admin import ADMIN_SECONDS, SILENT, Admin, produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def consumer_of(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **SILENT,
        }
    )


def committed(bootstrap: str, group: str, topic: str, partitions: int = 1) -> list[int]:
    consumer = consumer_of(bootstrap, group)
    try:
        asked = [TopicPartition(topic, at) for at in range(partitions)]
        return [one.offset for one in consumer.committed(asked, ADMIN_SECONDS)]
    finally:
        consumer.close()


@pytest.mark.process
def test_confluent_goes_on_where_it_has_committed(broker: RunningServer, topic: str) -> None:
    produce(broker.bootstrap, topic, [b"%d" % number for number in range(10)])
    for first, count in ((0, 4), (4, 3), (7, 3)):
        consumer = consumer_of(broker.bootstrap, topic)
        consumer.assign([TopicPartition(topic, 0, OFFSET_STORED)])
        records = consumer.consume(count, timeout=ADMIN_SECONDS)
        assert [record.offset() for record in records] == list(range(first, first + count))
        place = TopicPartition(topic, 0, first + count, "so far")
        consumer.commit(offsets=[place], asynchronous=False)
        (found,) = consumer.committed([TopicPartition(topic, 0)], ADMIN_SECONDS)
        assert (found.offset, found.metadata) == (first + count, "so far")
        consumer.close()


@pytest.mark.process
def test_aiokafka_goes_on_where_it_has_committed(broker: RunningServer, topic: str) -> None:
    produce(broker.bootstrap, topic, [b"%d" % number for number in range(10)])
    partition = AioTopicPartition(topic, 0)

    async def read(count: int) -> list[int]:
        async with AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([partition])
            offsets = [(await consumer.getone()).offset for _ in range(count)]
            await consumer.commit()
            assert await consumer.committed(partition) == offsets[-1] + 1
            return offsets

    async def work() -> list[int]:
        return await read(4) + await read(6)

    assert asyncio.run(asyncio.wait_for(work(), 120)) == list(range(10))


@pytest.mark.process
def test_committed_offsets_outlive_a_kill(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path) as server:
        Admin(server.bootstrap).create_topic("jobs", 3)
        consumer = consumer_of(server.bootstrap, "readers")
        for offset in range(1, 20):
            places = [TopicPartition("jobs", at, offset * 10 + at) for at in range(3)]
            consumer.commit(offsets=places, asynchronous=False)
        server.kill()
        server.start()
        assert committed(server.bootstrap, "readers", "jobs", 3) == [190, 191, 192]
        consumer.close()


@pytest.mark.process
def test_an_admin_client_alters_lists_and_deletes_offsets(
    broker: RunningServer, admin: Admin, topic: str
) -> None:
    wanted = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 7)])
    for done in admin.client.alter_consumer_group_offsets([wanted]).values():
        done.result(ADMIN_SECONDS)
    asked = ConsumerGroupTopicPartitions(topic)
    for done in admin.client.list_consumer_group_offsets([asked]).values():
        (found,) = done.result(ADMIN_SECONDS).topic_partitions
        assert (found.topic, found.partition, found.offset) == (topic, 0, 7)
    groups = admin.client.list_consumer_groups().result(ADMIN_SECONDS).valid
    (listed,) = [one for one in groups if one.group_id == topic]
    assert listed.is_simple_consumer_group
    assert listed.state.name == "EMPTY"
    for done in admin.client.delete_consumer_groups([topic]).values():
        done.result(ADMIN_SECONDS)
    assert committed(broker.bootstrap, topic, topic) == [OFFSET_INVALID]


@pytest.mark.kafka
def test_kafkas_tool_describes_resets_and_deletes_offsets(
    broker: RunningServer, topic: str
) -> None:
    produce(broker.bootstrap, topic, [b"%d" % number for number in range(10)])
    consumer = consumer_of(broker.bootstrap, topic)
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.close()

    def tool(*arguments: str) -> str:
        return run_tool(
            CONSUMER_GROUPS, "--bootstrap-server", broker.bootstrap, "--group", topic, *arguments
        )

    row = tool("--describe").splitlines()[-1].split()
    assert row[:6] == [topic, topic, "0", "4", "10", "6"]
    said = tool("--reset-offsets", "--to-earliest", "--execute", "--topic", topic)
    assert said.splitlines()[-1].split()[:4] == [topic, topic, "0", "0"]
    assert committed(broker.bootstrap, topic, topic) == [0]
    assert "Successful" in tool("--delete-offsets", "--topic", topic)
    assert committed(broker.bootstrap, topic, topic) == [OFFSET_INVALID]


RECORD = re.compile(r"^\|.* key: (\{.*?\}) payload: (\{.*?\}|<DELETE>)$", re.MULTILINE)
MARKER = re.compile(r"endTxnMarker: (\w+)")

OURS = CommittedOffset(5, 2, "in a transaction", 1_000)


async def in_transaction(broker: Broker, group: str, ends: bool | None) -> None:
    """Commit an offset of a group in a transaction; None leaves it open. The transactional id is
    the group's."""
    ids, offsets = broker.parts.transactions, broker.parts.offsets
    producer = await ids.initialize(group, 60_000, None)
    await offsets.commit_in_transaction(
        CommitClient(group, "", None, -1, transactional=True, version=5),
        OffsetTransaction(group, TransactionalProducer(*producer), 5),
        [Commit("flights", 1, OURS)],
    )
    if ends is not None:
        await ids.end(group, producer, EPOCH_PER_TRANSACTION, commit=ends)
        await ids.initialize(group, 60_000, None)  # waits until the markers are written


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segment of `__consumer_offsets` that we wrote: offsets outside and inside transactions, one
    of which is open."""
    folder = tmp_path_factory.mktemp("ours")

    async def write() -> None:
        async with running(folder) as (broker, _):
            topic = await broker.parts.topics.create("flights", 2, {})
            plain = CommittedOffset(3, 1, "plain", 900, topic_id=topic.topic_id)
            committer = CommitClient("plain", "", None, -1, transactional=False, version=9)
            await broker.parts.offsets.commit(committer, [Commit("flights", 0, plain)])
            expiring = CommittedOffset(4, -1, "", 900, 2**62)
            committer = CommitClient("expiring", "", None, -1, transactional=False, version=4)
            await broker.parts.offsets.commit(committer, [Commit("flights", 0, expiring)])
            await in_transaction(broker, "committed", ends=True)
            await in_transaction(broker, "aborted", ends=False)
            await in_transaction(broker, "open", ends=None)

    asyncio.run(write())
    (segment,) = folder.rglob(f"{CONSUMER_OFFSETS}-0/*.log")
    return segment


@pytest.mark.kafka
def test_kafka_dump_log_reads_our_offsets(ours: Path) -> None:
    dumped = dump_log(ours, "--offsets-decoder")
    records = [(json.loads(key), json.loads(value)) for key, value in RECORD.findall(dumped)]
    found = {key["data"]["group"]: (key["data"], value) for key, value in records}
    assert list(found) == ["plain", "expiring", "committed", "aborted", "open"]
    key, value = found["plain"]
    assert (key["topic"], key["partition"]) == ("flights", 0)
    assert value["version"] == "4"
    assert (value["data"]["offset"], value["data"]["metadata"]) == (3, "plain")
    assert value["data"]["leaderEpoch"] == 1
    assert found["expiring"][1]["version"] == "1"
    assert found["expiring"][1]["data"]["expireTimestamp"] == 2**62
    assert MARKER.findall(dumped) == ["COMMIT", "ABORT"]
    assert dumped.count("isTransactional: true") == 5


@pytest.mark.kafka
def test_kafka_goes_on_from_our_offsets(tmp_path: Path, ours: Path) -> None:
    with KafkaBroker(tmp_path) as kafka:
        Admin(kafka.bootstrap).create_topic("flights", 2)
        consumer = consumer_of(kafka.bootstrap, "makes the internal topic")
        consumer.commit(offsets=[TopicPartition("flights", 0, 1)], asynchronous=False)
        consumer.close()
        kafka.stop()
        (theirs,) = tmp_path.rglob(f"{CONSUMER_OFFSETS}-0/*.log")
        for derived in (*theirs.parent.glob("*.*index"), *theirs.parent.glob("*.snapshot")):
            derived.unlink()
        theirs.write_bytes(ours.read_bytes())
        kafka.start()
        both = {
            group: committed(kafka.bootstrap, group, "flights", 2)
            for group in ("plain", "expiring", "committed", "aborted")
        }
        assert both == {
            "plain": [3, OFFSET_INVALID],
            "expiring": [4, OFFSET_INVALID],
            "committed": [OFFSET_INVALID, 5],
            "aborted": [OFFSET_INVALID, OFFSET_INVALID],
        }
        said = KafkaTools(kafka.bootstrap)._admin(
            "org.apache.kafka.tools.TransactionsCommand",
            ["describe-producers", "--topic", CONSUMER_OFFSETS, "--partition", "0"],
        )
        rows = {row.split()[0]: row.split()[-1] for row in said.splitlines()[1:]}
        assert rows.pop("2").isdigit(), "the open transaction is open there as well"
        assert rows == {"0": "None", "1": "None"}


def commit_in_kafka(bootstrap: str, producer: Producer, group: str, offset: int) -> None:
    consumer = consumer_of(bootstrap, group)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        [TopicPartition("flights", 1, offset, "in a transaction")],
        consumer.consumer_group_metadata(),
        ADMIN_SECONDS,
    )
    consumer.close()


class WrittenByKafka(NamedTuple):
    segment: bytes
    """Of `__consumer_offsets`."""
    left_open: int
    """The id of the producer whose transaction is open."""
    topic_id: UUID


def written_by_kafka(folder: Path) -> WrittenByKafka:
    with KafkaBroker(folder) as kafka:
        Admin(kafka.bootstrap).create_topic("flights", 2)
        consumer = consumer_of(kafka.bootstrap, "plain")
        place = TopicPartition("flights", 0, 3, "plain")
        consumer.commit(offsets=[place], asynchronous=False)
        consumer.close()
        one, left_open = (transactional(kafka.bootstrap, name) for name in ("one", "open"))
        commit_in_kafka(kafka.bootstrap, one, "committed", 5)
        one.commit_transaction(ADMIN_SECONDS)
        commit_in_kafka(kafka.bootstrap, one, "aborted", 6)
        one.abort_transaction(ADMIN_SECONDS)
        commit_in_kafka(kafka.bootstrap, left_open, "open", 7)
        (segment,) = kafka.data.rglob(f"{CONSUMER_OFFSETS}-0/*.log")
        dumped = dump_log(segment, "--offsets-decoder")
        ids = re.findall(r"producerId: (\d+) .*isTransactional: true", dumped)
        topic_id = read_topic_id(LocalDisk(), str(kafka.data / "flights-0"))
        assert topic_id is not None
        return WrittenByKafka(segment.read_bytes(), int(ids[-1]), topic_id)


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **SILENT})
    producer.init_transactions(ADMIN_SECONDS)
    return producer


@pytest.mark.kafka
def test_we_go_on_from_kafkas_offsets(tmp_path: Path) -> None:
    segment, left_open, topic_id = written_by_kafka(tmp_path / "kafka")
    places = [Place("flights", 0), Place("flights", 1)]

    async def offsets_of(broker: Broker, group: str) -> Sequence[int | str | None]:
        found = await broker.parts.offsets.fetch(group, None, -1, places, stable=True)
        return [
            "unstable" if one.unstable else one.committed and one.committed.offset for one in found
        ]

    async def prepare() -> None:
        async with running(tmp_path) as (broker, _):
            await broker.parts.store.create_topic("flights", topic_id, 2, {})
            await broker.parts.topics.create_internal(CONSUMER_OFFSETS, 1)
            log = broker.parts.topics.internal_log(CONSUMER_OFFSETS, 0)
            for batch in batches(segment):
                log.append_trusted(batch)
            await log.wait_durable(log.log_end_offset)

    async def go_on() -> None:
        async with running(tmp_path) as (broker, _):
            assert await offsets_of(broker, "plain") == [3, None]
            assert await offsets_of(broker, "committed") == [None, 5]
            assert await offsets_of(broker, "aborted") == [None, None]
            assert await offsets_of(broker, "open") == [None, "unstable"]
            await broker.parts.offsets.complete_transaction(
                0, left_open, 5, committed=True, coordinator_epoch=0
            )
            assert await offsets_of(broker, "open") == [None, 7]

    asyncio.run(prepare())
    asyncio.run(go_on())


def batches(segment: bytes) -> list[bytes]:
    found = []
    position = 0
    while position < len(segment):
        size = int.from_bytes(segment[position + 8 : position + 12], "big") + 12
        found.append(segment[position : position + size])
        position += size
    return found
