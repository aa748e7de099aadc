"""`sharegroup groups` against a running broker."""

from __future__ import annotations

import signal

import pytest

from tests.cli.command import Commands, finish

pytestmark = pytest.mark.process


def test_a_group_at_work(commands: Commands, topic: str) -> None:
    commands.ok("produce", topic, "--key-separator", ":", stdin="k:1\nk:2\nk:3\n")
    process = commands.start("consume", topic, "-g", topic, "--from-beginning", "--json")
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()

    found = commands.ok("groups", "describe", topic, "--json").json
    assert (found["group"], found["state"]) == (topic, "Stable")
    assert found["configs"] == {"share.auto.offset.reset": "earliest"}
    (member,) = found["members"]
    assert member["topics"] == [topic]
    assert member["assignment"] == [{"topic": topic, "partition": n} for n in (0, 1)]
    shown = commands.ok("groups", "describe", topic).stdout
    assert member["member"] in shown
    assert "start offset" in shown

    busy = commands.run("groups", "delete", topic)
    assert busy.status == 1
    assert busy.stderr.startswith("sharegroup: NON_EMPTY_GROUP: ")

    process.send_signal(signal.SIGINT)
    assert finish(process).status == 130
    found = commands.ok("groups", "describe", topic, "--json").json
    assert (found["state"], found["members"]) == ("Empty", [])
    # Apache Kafka knows nothing of a partition from which no record was acknowledged: null.
    assert sorted(p["start_offset"] or 0 for p in found["partitions"]) == [0, 3]
    assert all(set(p) == PARTITION_KEYS and not p["lag"] for p in found["partitions"])

    assert {"group": topic, "state": "Empty"} in commands.ok("groups", "list", "--json").json
    assert commands.ok("groups", "delete", topic, "--json").json == {"deleted": [topic]}
    gone = commands.run("groups", "describe", topic)
    assert gone.status == 1
    assert gone.stderr.startswith("sharegroup: GROUP_ID_NOT_FOUND: ")


PARTITION_KEYS = {"topic", "partition", "start_offset", "in_flight", "lag", "error"}


def test_settings(commands: Commands, name: str) -> None:
    settings = ("share.auto.offset.reset=earliest", "share.record.lock.duration.ms=20000")
    done = commands.ok("groups", "set", name, *settings, "--json")
    assert done.json == {
        "group": name,
        "configs": {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": "20000",
        },
    }
    table = commands.ok("groups", "set", name, "share.auto.offset.reset=").stdout
    assert "share.record.lock.duration.ms" in table
    assert "share.auto.offset.reset" not in table


def test_settings_that_cannot_be(commands: Commands, name: str) -> None:
    for pair in ("share.auto.offset.reset=tomorrow", "share.auto.offset.rest=earliest"):
        done = commands.run("groups", "set", name, pair)
        assert done.status == 1
        assert done.stderr.startswith("sharegroup: INVALID_CONFIG: ")
    assert commands.run("groups", "set", name, "earliest").status == 2
