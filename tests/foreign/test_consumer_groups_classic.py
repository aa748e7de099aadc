"""Classic consumer groups of stock clients: Java, librdkafka, aiokafka, franz-go, Kafka's tool."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, TopicPartition

from sharegroup.groups.classic.groups import ClassicGroups
from sharegroup.groups.classic.requests import Now, Settings
from sharegroup.wire.batch import decode_batch, parse_headers
from sharegroup.wire.internal.classic_groups import KEY_PREFIX, decode_record
from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.tools import dump_log
from tests.foreign.test_franz_go import program, run
from tests.foreign.tool_shell import Ran, ToolShell
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

__all__ = ["program"]  # a fixture

OPTIONS = ("group.initial.rebalance.delay.ms=200", "group.min.session.timeout.ms=1000")
PATIENCE_S = 120
RECORD = re.compile(r"^\|.* key: (\{.*?\}) payload: (\{.*\})$", re.MULTILINE)

kafka = pytest.mark.kafka
process = pytest.mark.process


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A broker whose groups do not wait long for their first members."""
    with SharegroupServer(tmp_path_factory.mktemp("broker"), *OPTIONS) as server:
        yield server


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    """A fresh topic with four partitions, and a record in each."""
    admin.create_topic(name, 4)
    produce(admin.bootstrap, name, [b"0", b"1", b"2", b"3"])
    return name


def consumer(bootstrap: str, group: str, topic: str, **options: str | int) -> Consumer:
    """A member of a group; underscores in the names of options stand for dots."""
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 200,
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in options.items()},
        }
    )
    made.subscribe([topic])
    return made


def partitions(one: Consumer) -> set[int]:
    return {part.partition for part in one.assignment()}


def poll_until(
    done: Callable[[], bool], *consumers: Consumer, got: list[bytes] | None = None
) -> None:
    """Poll all consumers until ``done()``; appends what they receive to ``got``."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, [one.assignment() for one in consumers]
        for one in consumers:
            message = one.poll(0.05)
            if message is None:
                continue
            error = message.error()
            assert error is None or error.retriable(), error
            if got is not None and error is None:
                got.append(message.value() or b"")


@kafka
def test_java_console_consumer(
    broker: RunningServer, shell: ToolShell, topic: str, name: str
) -> None:
    ran = shell.run(
        "kafka-console-consumer",
        broker.bootstrap,
        *("--topic", topic, "--group", name, "--from-beginning", "--max-messages", "4"),
        *("--command-property", "group.protocol=classic"),
    )
    assert sorted(ran.stdout.split()) == ["0", "1", "2", "3"], ran
    described = shell.run("kafka-consumer-groups", broker.bootstrap, "--describe", "--group", name)
    assert f"Consumer group '{name}' has no active members." in described.stderr
    rows = [line.split() for line in described.stdout.splitlines() if line.startswith(name)]
    assert [row[2:6] for row in rows] == [[str(n), "1", "1", "0"] for n in range(4)]


@process
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_librdkafka_rebalances(broker: RunningServer, topic: str, name: str, assignor: str) -> None:
    options = {"partition_assignment_strategy": assignor}
    with closing(consumer(broker.bootstrap, name, topic, **options)) as one:
        got: list[bytes] = []
        poll_until(lambda: partitions(one) == {0, 1, 2, 3}, one, got=got)
        with closing(consumer(broker.bootstrap, name, topic, **options)) as two:
            poll_until(
                lambda: (
                    len(partitions(one)) == len(partitions(two)) == 2
                    and not partitions(one) & partitions(two)
                ),
                one,
                two,
                got=got,
            )
        poll_until(lambda: partitions(one) == {0, 1, 2, 3} and len(set(got)) == 4, one, got=got)
        one.commit(asynchronous=False)
        committed = one.committed([TopicPartition(topic, n) for n in range(4)], timeout=PATIENCE_S)
        assert [part.offset for part in committed] == [1, 1, 1, 1]
    assert set(got) == {b"0", b"1", b"2", b"3"}


@process
def test_a_static_member_keeps_its_partitions(broker: RunningServer, topic: str, name: str) -> None:
    with closing(consumer(broker.bootstrap, name, topic, group_instance_id="two")) as two:
        first = consumer(broker.bootstrap, name, topic, group_instance_id="one")
        poll_until(lambda: len(partitions(first)) == len(partitions(two)) == 2, first, two)
        before = partitions(first)
        first.close()  # a static member does not leave
        with closing(consumer(broker.bootstrap, name, topic, group_instance_id="one")) as again:
            poll_until(lambda: partitions(again) == before, again, two)
            assert len(partitions(two)) == 2


@process
def test_aiokafka_rebalances(broker: RunningServer, topic: str, name: str) -> None:
    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=name,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            session_timeout_ms=6_000,
        )

    async def work() -> set[bytes | None]:
        one = member()
        await one.start()
        try:
            got = {(await one.getone()).value for _ in range(4)}
            async with member() as two:
                while not (len(one.assignment()) == len(two.assignment()) == 2):
                    await asyncio.gather(one.getmany(timeout_ms=100), two.getmany(timeout_ms=100))
                assert not one.assignment() & two.assignment()
            while len(one.assignment()) != 4:
                await one.getmany(timeout_ms=100)
            return got
        finally:
            await one.stop()

    got = asyncio.run(asyncio.wait_for(work(), PATIENCE_S))
    assert got == {b"0", b"1", b"2", b"3"}


@process
@pytest.mark.timeout(420)
def test_franz_go(
    broker: RunningServer, admin: Admin, program: Path, topic: str, name: str
) -> None:
    events = run(program, broker, topic, name, "4", "classic")
    assert {event.get("value") for event in events if event["event"] == "record"} == set("0123")
    (member,) = [event for event in events if event["event"] == "member"]
    assert member["generation"] >= 1
    described = admin.client.describe_consumer_groups([name])[name].result(10)
    assert described.state.name == "EMPTY"


@kafka
def test_kafkas_tool_for_groups(
    broker: RunningServer, shell: ToolShell, topic: str, name: str
) -> None:
    def tool(*words: str) -> Ran:
        return shell.run("kafka-consumer-groups", broker.bootstrap, *words)

    one_group = ("--describe", "--group", name)
    with closing(consumer(broker.bootstrap, name, topic, client_id="me")) as one:
        poll_until(lambda: partitions(one) == {0, 1, 2, 3}, one)
        assert name in tool("--list").stdout.split()
        listed = tool("--list", "--state", "Stable", "--type").stdout
        assert re.search(rf"^{name} +Classic +Stable", listed, re.MULTILINE), listed
        members = tool(*one_group, "--members", "--verbose").stdout
        (row,) = [line.split() for line in members.splitlines() if line.startswith(name)]
        assert row[1].startswith("me-")
        assert row[3:5] == ["me", "4"]
        assert f"{topic}:0,1,2,3" in members
        state = tool(*one_group, "--state").stdout
        assert re.search(rf"^{name} .* range +Stable +.*1$", state.rstrip(), re.MULTILINE), state
        refused = tool("--delete", "--group", name)
        assert "GroupNotEmptyException" in refused.stdout + refused.stderr
    assert "Empty" in tool(*one_group, "--state").stdout
    assert "successful" in tool("--delete", "--group", name).stdout
    assert name not in tool("--list").stdout.split()
    gone = tool(*one_group)
    assert "not found" in gone.stdout + gone.stderr


@process
def test_members_go_on_after_a_kill(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path, *OPTIONS) as server:
        Admin(server.bootstrap).create_topic("flights", 4)
        with (
            closing(consumer(server.bootstrap, "pilots", "flights")) as one,
            closing(consumer(server.bootstrap, "pilots", "flights")) as two,
        ):
            poll_until(lambda: len(partitions(one)) == len(partitions(two)) == 2, one, two)
            ids = {one.memberid(), two.memberid()}
            server.kill()
            server.start()
            produce(server.bootstrap, "flights", [b"0", b"1", b"2", b"3"])
            got: list[bytes] = []
            poll_until(lambda: len(got) == 4, one, two, got=got)
            assert sorted(got) == [b"0", b"1", b"2", b"3"]
            assert {one.memberid(), two.memberid()} == ids
            assert not partitions(one) & partitions(two)


@kafka
def test_kafka_reads_our_record_of_a_group(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path, *OPTIONS) as server:
        Admin(server.bootstrap).create_topic("flights", 2)
        with closing(consumer(server.bootstrap, "pilots", "flights", client_id="me")) as one:
            poll_until(lambda: len(partitions(one)) == 2, one)
            (log,) = server.data.rglob("__consumer_offsets-0/*.log")
            dumped = dump_log(log, "--offsets-decoder")
    records = [(json.loads(key), json.loads(value)) for key, value in RECORD.findall(dumped)]
    values = [value for key, value in records if key["type"] == "2"]
    assert {value["version"] for value in values} == {"3"}
    group = values[-1]["data"]
    assert (group["protocolType"], group["protocol"], group["generation"]) == (
        "consumer",
        "range",
        1,
    )
    (member,) = group["members"]
    assert member["memberId"] == group["leader"]
    assert (member["clientId"], member["sessionTimeout"]) == ("me", 6_000)


@kafka
def test_we_read_kafkas_record_of_a_group(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path, *OPTIONS) as server:
        Admin(server.bootstrap).create_topic("flights", 2)
        with closing(consumer(server.bootstrap, "pilots", "flights", client_id="me")) as one:
            poll_until(lambda: len(partitions(one)) == 2, one)
            member_id = one.memberid()
            (log,) = tmp_path.rglob("__consumer_offsets-0/*.log")
            raw = log.read_bytes()
    groups = ClassicGroups(Settings(10, 0))
    at = 0
    for header in parse_headers(raw):
        for _, _, key, value in decode_batch(memoryview(raw)[at : at + header.length]):
            if key is not None and key[:2] == KEY_PREFIX:
                groups.replay(decode_record(key, value))
        at += header.length
    groups.replayed(Now(0, 0))
    groups.check_invariants()
    found = groups.describe("pilots")
    assert (found.state, found.protocol_name, found.leader) == ("Stable", "range", member_id)
    assert found.members[0].client_id == "me"
    group = groups.group("pilots")
    assert group is not None
    assert group.topics == frozenset({"flights"})
