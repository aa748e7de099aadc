"""Moves between two machines."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from sharegroup import TopicPartition, sync
from tests.cli.command import Commands, finish
from tests.move.machines import end, move, worked_on
from tests.move.queue import records, states
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process


def test_settings_come_along(source: SharegroupServer, target: SharegroupServer) -> None:
    settings = {"deduplication_window_ms": "60000", "message_timestamp_type": "LogAppendTime"}
    worked_on(source.bootstrap, "set", **settings)
    admin.Admin(source.bootstrap).set_group("set", share_delivery_count_limit="9")
    with sync.Admin(source.bootstrap) as client:  # into a compacted topic they would not come
        client.alter_configs("topic", "set", {"cleanup.policy": "delete,compact"})
    assert move(source, target, "-t", "set").status == 0
    with sync.Admin(target.bootstrap) as client:
        topic = client.describe_configs("topic", "set")
        assert topic["deduplication.window.ms"].value == "60000"
        assert topic["message.timestamp.type"].value == "LogAppendTime"
        assert topic["cleanup.policy"].value == "delete,compact"
        assert topic["retention.ms"].value == "604800000"
        group = client.describe_configs("group", "set")
        assert group["share.delivery.count.limit"].value == "9"
        assert group["share.paused"].is_default
    with sync.Admin(source.bootstrap) as client:
        client.pause_group("set")
    assert move(source, target, "-t", "set").status == 0
    with sync.Admin(target.bootstrap) as client:
        assert client.describe_configs("group", "set")["share.paused"].value == "true"


def test_settings_of_a_group_that_nobody_has_used_come_along(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    admin.Admin(source.bootstrap).start_group_at_earliest("planned")
    admin.Admin(source.bootstrap).create_topic("plans")
    done = move(source, target, "-t", "plans", "-g", "planned", "--json")
    assert done.status == 0, done
    [row] = done.json["groups"]
    assert (row["group"], row["partitions"], row["left_after"]) == ("planned", 0, None)
    with sync.Admin(target.bootstrap) as client:
        settings = client.describe_configs("group", "planned")
        assert settings["share.auto.offset.reset"].value == "earliest"
        assert settings["share.paused"].is_default


def test_settings_of_the_target_change_no_record(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    ids = [("sharegroup.message.id", b"the same")]
    admin.Admin(source.bootstrap).create_topic("twice")
    admin.Admin(target.bootstrap).create_topic(
        "twice",
        1,
        deduplication_window_ms="600000",
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms="1000",
        compression_type="zstd",
    )
    with sync.Producer(source.bootstrap) as producer:
        for number in range(3):
            producer.send("twice", b"%d" % number, headers=ids, timestamp_ms=1_000_000 + number)
    assert move(source, target, "-t", "twice").status == 0
    assert records(target.bootstrap, "twice", 1) == records(source.bootstrap, "twice", 1)
    with sync.Admin(target.bootstrap) as client:
        topic = client.describe_configs("topic", "twice")
        assert topic["message.timestamp.type"].is_default
        assert topic["deduplication.window.ms"].value == "0"


def test_what_came_later_is_copied_behind_the_rest(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    worked_on(source.bootstrap, "grows")
    where = TopicPartition("grows", 0)
    with sync.Admin(source.bootstrap) as client:
        client.delete_records({where: 4})
    first = move(source, target, "-t", "grows", "--json")
    assert (first.status, first.json["topics"][0]["offsets"]) == (0, "others"), first
    left = first.json["groups"][0]
    assert (left["left_before"], left["left_after"]) == (5, 5)
    admin.produce(source.bootstrap, "grows", [b"later", b"last"])
    second = move(source, target, "-t", "grows", "--json")
    assert second.status == 0, second
    assert (second.json["topics"][0]["there_before"], second.json["topics"][0]["copied"]) == (6, 2)
    assert second.json["groups"][0]["left_after"] == 7
    assert states(target.bootstrap, "grows", "grows", 1) == states(
        source.bootstrap, "grows", "grows", 1
    )


def test_a_move_on_a_terminal_and_with_settings_of_the_connection(
    source: SharegroupServer, target: SharegroupServer, tmp_path: Path
) -> None:
    worked_on(source.bootstrap, "shown")
    properties = tmp_path / "client.properties"
    properties.write_text("client.id=mover\nrequest.timeout.ms=20000\n")
    sides = ("--from", source.bootstrap, "--to", target.bootstrap, "-t", "shown")
    config = ("--from-config", str(properties), "--to-config", str(properties))
    status, shown = Commands(source.bootstrap).answering("", "move", *sides, *config)
    assert status == 0
    assert "shown   share" in shown
    properties.write_text("linger.ms=5\n")
    wrong = move(source, target, "--to-config", str(properties))
    assert wrong.status == 2
    assert "linger.ms in" in wrong.stderr


@pytest.mark.parametrize(
    ("number", "status", "says"),
    [
        (signal.SIGINT, 130, "sharegroup: not all is moved: the same command goes on\n"),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
    ids=["ctrl-c", "kill"],
)
def test_an_interrupted_copy_goes_on(
    source: SharegroupServer,
    target: SharegroupServer,
    number: signal.Signals,
    status: int,
    says: str,
) -> None:
    topic = f"long-{number.name}"
    admin.Admin(source.bootstrap).create_topic(topic)
    count = 40_000
    admin.produce(source.bootstrap, topic, [b"%01000d" % n for n in range(count)])
    sides = ("--from", source.bootstrap, "--to", target.bootstrap, "-t", topic, "--json")
    slowly = ("producer_byte_rate=5000000", "--client-id", "sharegroup-move")
    Commands(target.bootstrap).given("quotas", "set", *slowly)
    process = Commands(source.bootstrap).start("move", *sides)
    while process.poll() is None and not end(target.bootstrap, topic):
        pass
    process.send_signal(number)
    stopped = finish(process)
    assert (stopped.status, stopped.stderr) == (status, says)
    assert 0 < end(target.bootstrap, topic) < count
    with sync.Admin(target.bootstrap) as client:
        assert client.describe_configs("topic", topic)["retention.ms"].value == "-1"
    Commands(target.bootstrap).given("quotas", "remove", "producer_byte_rate", *slowly[1:])
    done = move(source, target, "-t", topic, "--json")
    assert done.status == 0, done
    [row] = done.json["topics"]
    assert row["there_before"] > 0
    assert row["copied"] + row["there_before"] == count
    assert records(target.bootstrap, topic, 1) == records(source.bootstrap, topic, 1)
    with sync.Admin(target.bootstrap) as client:
        assert client.describe_configs("topic", topic)["retention.ms"].value == "604800000"
