"""kafka-python: produce, read as a group, administer, and do all of a transaction."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import InvalidProducerEpochError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

# kafka-python 3.0 now and then forgets a socket that it was opening when it was closed.
FORGOTTEN = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
pytestmark = [pytest.mark.process, pytest.mark.filterwarnings(FORGOTTEN)]

PARTITIONS = 4
PATIENCE_S = 120
POLL_MS = 2_000
"""How long a poll waits for a group at least. kafka-python 3.0 forgets the assignment of a group
that it joins right after such a wait is over: the member then owns nothing, and is silent until
its session ends. With 200 ms that happened on a busy machine."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A broker whose groups do not wait for further members."""
    options = ("group.initial.rebalance.delay.ms=0",)
    with SharegroupServer(tmp_path_factory.mktemp("broker"), *options) as server:
        yield server


@pytest.fixture(autouse=True)
def forgotten_sockets() -> Iterator[None]:
    """What a client forgot is collected while its warning is ignored, not in another test."""
    yield
    gc.collect()


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    admin.create_topic(name, PARTITIONS)
    return name


@pytest.fixture
def kafka(broker: RunningServer) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as client:
        yield client


def member(broker: RunningServer, topic: str, **options: str) -> KafkaConsumer:
    """A member of the group with the topic's name, with heartbeats often enough for a test."""
    return KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        session_timeout_ms=6_000,
        **options,
    )


def received(consumer: KafkaConsumer, count: int) -> list[ConsumerRecord]:
    """The next ``count`` records."""
    deadline = time.monotonic() + PATIENCE_S
    records: list[ConsumerRecord] = []
    while len(records) < count:
        assert time.monotonic() < deadline, records
        for some in consumer.poll(POLL_MS).values():
            records += some
    return records


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_records_come_back_as_they_were_sent(
    broker: RunningServer, topic: str, compression: str | None
) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, compression_type=compression, linger_ms=50
    )
    with closing(producer):
        sent = [
            producer.send(
                topic,
                b"value" * 9,
                key=b"k",
                headers=[("h", b"v")],
                timestamp_ms=1_700,
                partition=1,
            )
            for _ in range(20)
        ]
        assert [future.get(PATIENCE_S).offset for future in sent] == list(range(20))
    with closing(member(broker, topic)) as consumer:
        for offset, record in enumerate(received(consumer, 20)):
            assert (record.partition, record.offset, record.timestamp) == (1, offset, 1_700)
            assert (record.key, record.value) == (b"k", b"value" * 9)
            assert record.headers == [("h", b"v")]


def test_two_members_share_the_partitions_and_go_on_where_they_have_committed(
    broker: RunningServer, kafka: KafkaAdminClient, topic: str
) -> None:
    produce(broker.bootstrap, topic, [b"%d" % number for number in range(20)])
    with closing(member(broker, topic, group_instance_id="one")) as one:
        assert {record.value for record in received(one, 20)} == {b"%d" % n for n in range(20)}
        one.commit()
        with (
            closing(member(broker, topic, client_id="two")) as two,
            ThreadPoolExecutor(2) as threads,
        ):
            deadline = time.monotonic() + PATIENCE_S
            while not len(one.assignment()) == len(two.assignment()) == 2:
                assert time.monotonic() < deadline, (one.assignment(), two.assignment())
                polls = [threads.submit(consumer.poll, POLL_MS) for consumer in (one, two)]
                assert [poll.result() for poll in polls] == [{}, {}], "all of it is committed"
            assert not one.assignment() & two.assignment()
            described = kafka.describe_groups([topic])[topic]
            assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
            owned = {
                found["group_instance_id"] or found["client_id"]: [
                    partition
                    for part in found["member_assignment"]["assigned_partitions"]
                    for partition in part["partitions"]
                ]
                for found in described["members"]
            }
            assert {who: len(those) for who, those in owned.items()} == {"one": 2, "two": 2}
    committed = kafka.list_group_offsets(topic)[topic]
    offsets = {place.partition: found.offset for place, found in committed.items()}
    assert offsets == dict.fromkeys(range(PARTITIONS), 5)


def test_the_admin_client_moves_a_group_and_deletes_it(
    broker: RunningServer, kafka: KafkaAdminClient, topic: str
) -> None:
    produce(broker.bootstrap, topic, [b"%d" % number for number in range(20)])
    place = TopicPartition(topic, 0)
    kafka.alter_group_offsets(topic, {place: OffsetAndMetadata(3, "by hand", -1)})
    found = kafka.list_group_offsets(topic)[topic]
    assert {at: (one.offset, one.metadata) for at, one in found.items()} == {place: (3, "by hand")}

    kafka.reset_group_offsets(topic, {place: OffsetSpec.LATEST})
    assert kafka.list_group_offsets(topic)[topic][place].offset == 5
    with closing(member(broker, topic)) as consumer:
        assert {record.partition for record in received(consumer, 15)} == {1, 2, 3}

    assert kafka.delete_groups([topic]) == {topic: "OK"}
    assert topic not in {group["group_id"] for group in kafka.list_groups()}


def test_the_admin_client_looks_after_a_topic(
    broker: RunningServer, kafka: KafkaAdminClient, topic: str
) -> None:
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    produce(broker.bootstrap, topic, [b"x"] * 8)
    deleted = kafka.delete_records({places[0]: 1})
    assert deleted[places[0]]["low_watermark"] == 1
    listed = kafka.list_partition_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
    assert {place.partition: one.offset for place, one in listed.items()} == {
        0: 1,
        1: 0,
        2: 0,
        3: 0,
    }
    (described,) = kafka.describe_topics([topic])
    leaders = {one["partition_index"]: one["leader_id"] for one in described["partitions"]}
    assert leaders == dict.fromkeys(range(PARTITIONS), 1)
    kafka.delete_topics([topic])
    assert topic not in kafka.list_topics()


def transactional(broker: RunningServer, name: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=name)
    producer.init_transactions()
    return producer


def test_a_transaction_moves_records_and_their_offsets_or_nothing(
    broker: RunningServer, admin: Admin, kafka: KafkaAdminClient, topic: str
) -> None:
    target = f"{topic}-done"
    admin.create_topic(target)
    produce(broker.bootstrap, topic, [b"%d" % number for number in range(20)])
    with (
        closing(member(broker, topic)) as consumer,
        closing(transactional(broker, topic)) as producer,
    ):
        records = received(consumer, 20)
        offsets = {
            TopicPartition(topic, partition): OffsetAndMetadata(5, "", -1)
            for partition in range(PARTITIONS)
        }

        def copy(prefix: bytes) -> None:
            producer.begin_transaction()
            for record in records:
                producer.send(target, prefix + record.value)
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            producer.flush(PATIENCE_S)

        copy(b"aborted ")
        producer.abort_transaction()
        assert kafka.list_group_offsets(topic)[topic] == {}
        copy(b"done ")
        (shown,) = kafka.describe_transactions([topic]).values()
        assert shown.state.value == "Ongoing"
        producer.commit_transaction()
    found = kafka.list_group_offsets(topic)[topic]
    assert {place: one.offset for place, one in found.items()} == dict.fromkeys(offsets, 5)
    with closing(member(broker, target, isolation_level="read_committed")) as reader:
        values = [record.value for record in received(reader, 20)]
        assert values == [b"done " + record.value for record in records]


def test_a_second_producer_fences_the_first(broker: RunningServer, topic: str) -> None:
    with closing(transactional(broker, topic)) as first:
        first.begin_transaction()
        first.send(topic, b"first", partition=0)
        first.flush(PATIENCE_S)
        with closing(transactional(broker, topic)) as second:
            second.begin_transaction()
            second.send(topic, b"second", partition=0)
            second.commit_transaction()
        with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
            first.commit_transaction()
    with closing(member(broker, topic, isolation_level="read_committed")) as reader:
        assert [record.value for record in received(reader, 1)] == [b"second"]
