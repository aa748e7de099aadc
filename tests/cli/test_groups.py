"""`sharegroup groups` against a running broker."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli.command import Commands, finish

pytestmark = pytest.mark.process


def test_a_group_with_members(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, "--key-separator", ":", stdin="k:1\nk:2\nk:3\n")
    process = commands.start("consume", topic, "-g", topic, "--from-beginning", "--json")
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()

    found = commands.inside("groups", "describe", topic, "--json").json
    assert (found["group"], found["state"]) == (topic, "Stable")
    assert found["configs"] == {"share.auto.offset.reset": "earliest"}
    (member,) = found["members"]
    assert member["topics"] == [topic]
    assert member["assignment"] == [{"topic": topic, "partition": n} for n in (0, 1)]
    shown = commands.inside("groups", "describe", topic).stdout
    assert member["member"] in shown
    assert "start offset" in shown

    (row,) = rows_of(commands.inside("groups", "describe", topic, "--members", "--verbose").stdout)
    assert row[:2] == [topic, member["member"]]
    assert row[4] == f"{topic}:0,1"

    busy = commands.inside("groups", "delete", "--yes", topic)
    assert busy.status == 1
    assert busy.stderr.startswith(f"sharegroup: NON_EMPTY_GROUP: group {topic} has 1 member: ")
    assert member["member"] in busy.stderr
    forgetting = commands.inside("groups", "delete-offsets", topic, "--topic", topic)
    assert (forgetting.status, forgetting.stderr) == (1, busy.stderr)

    process.send_signal(signal.SIGINT)
    assert finish(process).status == 130
    found = commands.inside("groups", "describe", topic, "--json").json
    assert (found["state"], found["members"]) == ("Empty", [])
    # Apache Kafka knows nothing of a partition from which no record was acknowledged (null), and
    # the start offset that it shows trails by a write: only the lag is right at once.
    assert all(set(p) == PARTITION_KEYS and not p["lag"] for p in found["partitions"])

    listed = {"group": topic, "type": "share", "state": "Empty"}
    assert listed in commands.inside("groups", "list", "--json").json
    deleted = commands.inside("groups", "delete", "--yes", topic, "--json").json
    assert deleted == {"deleted": [topic], "refused": {}}
    gone = commands.inside("groups", "describe", topic)
    assert gone.status == 1
    assert gone.stderr.startswith("sharegroup: GROUP_ID_NOT_FOUND: ")


PARTITION_KEYS = {
    "topic",
    "partition",
    "leader_epoch",
    "start_offset",
    "in_flight",
    "lag",
    "damaged",
    "error",
}


def rows_of(table: str) -> list[list[str]]:
    """The cells of a table on a pipe, without its two lines of titles."""
    return [line.split() for line in table.splitlines()[2:]]


def test_several_groups(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, stdin="one\ntwo\n")
    first, second, nobody = f"{topic}-1", f"{topic}-2", f"{topic}-nobody"
    reset = ("groups", "reset-offsets", first, second, "--topic", topic)
    commands.ok(*reset, "--to-earliest", "--execute")

    listed = commands.inside("groups", "list", "--state", "empty", "--json").json
    assert {"group": first, "type": "share", "state": "Empty"} in listed
    assert {"group": second, "type": "share", "state": "Empty"} in listed
    assert not [
        one
        for one in commands.inside("groups", "list", "--state", "stable", "--json").json
        if one["group"] in (first, second)
    ]

    found = commands.inside("groups", "describe", first, second, nobody, "--offsets", "--json")
    assert found.status == 1
    assert found.stderr.startswith("sharegroup: GROUP_ID_NOT_FOUND: ")
    assert [one["group"] for one in found.json] == [first, second]
    assert [sum(p["lag"] for p in one["partitions"]) for one in found.json] == [2, 2]
    assert "members" not in found.json[0]

    shown = commands.inside("groups", "describe", "--all-groups", "--offsets", "--verbose").stdout
    rows = [row for row in rows_of(shown) if row[0] == first]
    assert [row[1:3] for row in rows] == [[topic, "0"], [topic, "1"]]
    shown = commands.inside("groups", "describe", first, "--state", "--verbose").stdout
    (row,) = rows_of(shown)
    assert "Empty" in row

    gone = commands.inside("groups", "delete", "--yes", first, second, nobody)
    assert gone.status == 1
    assert gone.stdout == f"{first}, {second} deleted\n"
    assert gone.stderr.startswith(f"sharegroup: GROUP_ID_NOT_FOUND: group {nobody}: ")


def test_all_groups_are_deleted(own_commands: Commands) -> None:
    own_commands.given("topics", "create", "t")
    for group in ("a", "b"):
        own_commands.inside("groups", "reset-offsets", group, "-t", "t", "--to-latest", "--execute")
    assert (
        own_commands.inside("groups", "delete", "--yes", "--all-groups").stdout == "a, b deleted\n"
    )
    assert own_commands.inside("groups", "list", "--json").json == []
    assert own_commands.inside("groups", "delete", "--yes", "--all-groups").stdout == ""
    assert own_commands.inside("groups", "describe", "--all-groups", "--json").json == []


def test_offsets_of_topics_are_deleted(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, stdin="one\n")
    commands.inside("groups", "reset-offsets", topic, "-t", topic, "--to-latest", "--execute")
    done = commands.inside(
        "groups", "delete-offsets", topic, "-t", topic, "-t", "nothing", "--json"
    )
    assert done.status == 1
    assert done.json == {
        "forgotten": [topic],
        "refused": {"nothing": "UNKNOWN_TOPIC_OR_PARTITION"},
    }
    assert (
        commands.inside("groups", "describe", topic, "--offsets", "--json").json["partitions"] == []
    )
    nobody = commands.inside("groups", "delete-offsets", f"{topic}-x", "-t", topic)
    assert nobody.status == 1
    assert nobody.stderr.startswith("sharegroup: GROUP_ID_NOT_FOUND: ")


def test_settings(commands: Commands, name: str) -> None:
    settings = ("share.auto.offset.reset=earliest", "share.record.lock.duration.ms=20000")
    done = commands.inside("groups", "set", name, *settings, "--json")
    assert done.json == {
        "group": name,
        "configs": {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": "20000",
        },
    }
    table = commands.inside("groups", "set", name, "share.auto.offset.reset=").stdout
    assert "share.record.lock.duration.ms" in table
    assert "share.auto.offset.reset" not in table


def test_invalid_settings_are_refused(commands: Commands, name: str) -> None:
    for pair in ("share.auto.offset.reset=tomorrow", "share.auto.offset.rest=earliest"):
        done = commands.inside("groups", "set", name, pair)
        assert done.status == 1
        assert done.stderr.startswith("sharegroup: INVALID_CONFIG: ")
    assert commands.inside("groups", "set", name, "earliest").status == 2


def test_delete_asks_first(commands: Commands, name: str) -> None:
    refused = commands.inside("groups", "delete", name)
    assert (refused.status, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"sharegroup: delete {name}? There is no terminal to ask on: confirm with --yes\n"
    )


def test_watch_refreshes_a_group_until_ctrl_c(commands: Commands, topic: str) -> None:
    watch = ("groups", "describe", topic, "--offsets", "--json", "--watch", "--interval", "0.1")
    process = commands.start(*watch)
    assert process.stderr is not None
    assert process.stdout is not None
    assert b"GROUP_ID_NOT_FOUND" in process.stderr.readline()
    move = ("groups", "reset-offsets", topic, "-t", topic, "--to-earliest", "--execute")
    assert commands.inside(*move).status == 0
    looks = [json.loads(process.stdout.readline()) for _ in range(3)]
    assert [one["group"] for one in looks] == [topic] * 3
    process.send_signal(signal.SIGINT)
    assert finish(process).status == 0


def test_watch_on_a_terminal_draws_in_the_same_place(commands: Commands, topic: str) -> None:
    move = ("groups", "reset-offsets", topic, "-t", topic, "--to-earliest", "--execute")
    assert commands.inside(*move).status == 0
    watch = ("groups", "describe", topic, "--watch", "--interval", "0.1")
    status, shown = commands.answering("\x03", *watch, after=f"group {topic}, empty")
    assert status == 0
    assert shown.startswith("\x1b[2J\x1b[H")
