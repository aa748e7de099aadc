"""Stock consumers with `group.protocol=consumer` (KIP-848): librdkafka, Java, Kafka's tool."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, Message
from confluent_kafka import ConsumerGroupState as ConfluentState

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.member import ConsumerGroupState
from sharegroup.groups.consumer.records import plain
from sharegroup.wire.internal.consumer_groups import decode_record
from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.tools import dump_log, run_tool
from tests.foreign.share_reader import RECEIVE_SECONDS
from tests.foreign.test_group_log_formats import RECORD, group_records
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

OPTIONS = (
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=100",
    "group.consumer.assignment.interval.ms=0",
    "group.initial.rebalance.delay.ms=0",
)
REGEX = "(^flig.*)"
"""As librdkafka sends it."""
EVERY_RECORD_KIND = {"3", "5", "6", "7", "8", "16"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A broker whose members send heartbeats often, so that partitions change hands soon."""
    with SharegroupServer(tmp_path_factory.mktemp("kip848"), *OPTIONS) as server:
        yield server


@contextmanager
def consumer(broker: RunningServer, group: str, *topics: str, **more: str) -> Iterator[Consumer]:
    """A librdkafka consumer; underscores in the names of settings stand for dots."""
    settings = {key.replace("_", "."): value for key, value in more.items()}
    made = Consumer({
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "topic.metadata.refresh.interval.ms": "500",
        **settings,
    })  # fmt: skip
    try:
        made.subscribe(list(topics))
        yield made
    finally:
        made.close()


def until(holds: Callable[[], bool], *consumers: Consumer) -> None:
    """Poll the consumers until the condition holds."""
    deadline = time.monotonic() + RECEIVE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, [made.assignment() for made in consumers]
        for made in consumers:
            message = made.poll(0.05)
            assert message is None or message.error() is None, message


def receive(made: Consumer) -> Message:
    """The next record."""
    read: list[Message] = []

    def came() -> bool:
        message = made.poll(0.1)
        if message is not None:
            assert message.error() is None, message
            read.append(message)
        return bool(read)

    until(came)
    return read[0]


def numbers(made: Consumer) -> set[tuple[str, int]]:
    return {(p.topic, p.partition) for p in made.assignment()}


@pytest.mark.process
def test_members_share_partitions_and_hand_them_on(
    broker: RunningServer, admin: Admin, name: str, group: str
) -> None:
    admin.create_topic(name, partitions=4)
    with consumer(broker, group, name) as first:
        until(lambda: len(numbers(first)) == 4, first)
        with consumer(broker, group, name) as second:
            until(lambda: len(numbers(first)) == len(numbers(second)) == 2, first, second)
            assert not numbers(first) & numbers(second)
        until(lambda: len(numbers(first)) == 4, first)


@pytest.mark.process
def test_the_next_member_goes_on_where_the_last_has_committed(
    broker: RunningServer, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [b"one", b"two"])
    with consumer(broker, group, topic) as first:
        message = receive(first)
        first.commit(message, asynchronous=False)
        assert message.value() == b"one"
    with consumer(broker, group, topic) as second:
        assert receive(second).value() == b"two"


@pytest.mark.process
def test_a_group_goes_to_the_classic_protocol_and_back(
    broker: RunningServer, topic: str, group: str
) -> None:
    values = [b"one", b"two", b"three"]
    produce(broker.bootstrap, topic, values)
    for protocol, value in zip(("consumer", "classic", "consumer"), values, strict=True):
        with consumer(broker, group, topic, group_protocol=protocol) as member:
            message = receive(member)
            member.commit(message, asynchronous=False)
            assert message.value() == value


@pytest.mark.process
def test_a_regular_expression_finds_topics_that_are_created_later(
    broker: RunningServer, admin: Admin, name: str, group: str
) -> None:
    admin.create_topic(f"{name}-eu")
    admin.create_topic(f"other-{name}")
    with consumer(broker, group, f"^{name}-.*") as member:
        until(lambda: numbers(member) == {(f"{name}-eu", 0)}, member)
        admin.create_topic(f"{name}-us")
        until(lambda: numbers(member) == {(f"{name}-eu", 0), (f"{name}-us", 0)}, member)


@pytest.mark.process
def test_a_static_member_keeps_its_partitions_while_it_is_away(
    broker: RunningServer, admin: Admin, name: str, group: str
) -> None:
    admin.create_topic(name, partitions=2)
    with consumer(broker, group, name) as other:
        with consumer(broker, group, name, group_instance_id="i") as member:
            until(lambda: len(numbers(other)) == len(numbers(member)) == 1, other, member)
            before = numbers(member)
        with consumer(broker, group, name, group_instance_id="i") as member:
            until(lambda: numbers(member) == before, member)
        assert len(numbers(other)) == 1


@pytest.mark.process
def test_librdkafkas_admin_client_describes_the_group(
    broker: RunningServer, admin: Admin, topic: str, group: str
) -> None:
    with consumer(broker, group, topic) as member:
        until(lambda: len(numbers(member)) == 1, member)
        (asked,) = admin.client.describe_consumer_groups([group]).values()
        found = asked.result(RECEIVE_SECONDS)
        assert (found.type, found.state) == (
            ConsumerGroupType.CONSUMER,
            ConfluentState.STABLE,
        )
        ((held,),) = (m.assignment.topic_partitions for m in found.members)
        assert (held.topic, held.partition) == (topic, 0)
        listed = admin.client.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result()
        assert group in {one.group_id for one in listed.valid}
    (deleted,) = admin.client.delete_consumer_groups([group]).values()
    deleted.result(RECEIVE_SECONDS)


@pytest.mark.kafka
def test_javas_consumer_and_tool(
    broker: RunningServer, admin: Admin, name: str, group: str
) -> None:
    admin.create_topic(name, partitions=2)
    produce(broker.bootstrap, name, [b"one", b"two", b"three"])
    values = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", name, "--group", group),
        *("--command-property", "group.protocol=consumer"),
        *("--command-property", "auto.offset.reset=earliest"),
        *("--max-messages", "3", "--timeout-ms", "30000"),
    ).splitlines()
    assert sorted(values) == ["one", "three", "two"]
    with consumer(broker, group, name, client_id="librd") as member:
        until(lambda: len(numbers(member)) == 2, member)
        state = row(describe(broker, group, "--state", "--verbose"), group)
        members = row(describe(broker, group, "--members", "--verbose"), group)
    assert {"Stable", "uniform", "1"} <= set(state)
    assert "librd" in members
    assert f"{name}(0,1)" in members or f"{name}:0,1" in members, members
    offsets = [line.split() for line in describe(broker, group, "--offsets").splitlines()]
    ends = {line[2]: line[3:6] for line in offsets if line[:2] == [group, name]}
    assert sum(int(committed) for committed, _, _ in ends.values()) == 3, offsets


def describe(broker: RunningServer, group: str, *what: str) -> str:
    return run_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", broker.bootstrap, "--describe", "--group", group, *what),
    )


def row(table: str, group: str) -> list[str]:
    (line,) = (line.split() for line in table.splitlines() if line.startswith(group))
    return line


@pytest.mark.kafka
def test_kafka_reads_our_records(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path, *OPTIONS, "group.share.records.per.rewrite=3") as server:
        Admin(server.bootstrap).create_topic("flights", 2)
        with consumer(server, "readers", "^flig.*", group_instance_id="i") as member:
            until(lambda: len(numbers(member)) == 2, member)
            (log,) = server.data.rglob("__consumer_offsets-0/*.log")
            dumped = dump_log(log, "--offsets-decoder")
    written = {
        json.loads(key)["type"]: json.loads(value)["data"] for key, value in RECORD.findall(dumped)
    }
    assert set(written) >= EVERY_RECORD_KIND
    assert written["5"]["subscribedTopicRegex"] == REGEX
    assert written["5"]["instanceId"] == "i"
    assert written["16"]["topics"] == ["flights"]
    (held,) = written["8"]["assignedPartitions"]
    assert (held["partitions"], len(held["assignmentEpochs"])) == ([0, 1], 2)


@pytest.mark.kafka
def test_our_broker_reads_kafkas_records(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path, *OPTIONS) as kafka:
        Admin(kafka.bootstrap).create_topic("flights", 4)
        with (
            consumer(kafka, "readers", "^flig.*") as first,
            consumer(kafka, "readers", "flights", group_instance_id="i") as second,
        ):
            until(lambda: len(numbers(first)) == len(numbers(second)) == 2, first, second)
            state = row(describe(kafka, "readers", "--state", "--verbose"), "readers")
            (log,) = tmp_path.rglob("__consumer_offsets-0/*.log")
            records = group_records(log, decode_record)
            held = {made.memberid(): {p for _, p in numbers(made)} for made in (first, second)}
    groups = ConsumerGroups(lambda _: GroupSettings())
    for record in records:
        groups.table.replay(record)
    groups.sessions_restarted(0)
    groups.check_invariants()
    group = groups.describe("readers")
    assert {str(group.epoch), str(group.assignment_epoch), "Stable"} <= set(state)
    assert group.state is ConsumerGroupState.STABLE
    owned = {m.member_id: set(*plain(m.assigned).values()) for m in group.members}
    assert owned == held
    assert {m.instance_id for m in group.members} == {None, "i"}
    assert {m.subscribed_regex for m in group.members} == {None, REGEX}
