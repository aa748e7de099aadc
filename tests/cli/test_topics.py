"""`sharegroup topics` against a running broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Commands

pytestmark = pytest.mark.process


def test_create_describe_list_delete(commands: Commands, name: str) -> None:
    created = commands.ok("topics", "create", name, "-p", "3", "-c", "retention.ms=60000", "--json")
    assert created.json == {"topic": name, "partitions": 3, "created": True}
    commands.given("produce", name, "--key-separator", ":", stdin="k:1\nk:2\n")

    described = commands.ok("topics", "describe", name, "--json").json
    assert described["configs"] == {"retention.ms": "60000"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    assert sorted(p["latest"] - p["earliest"] for p in described["partitions"]) == [0, 0, 2]
    assert all(p["leader"] is not None for p in described["partitions"])

    listed = commands.ok("topics", "list", "--json").json
    assert {"topic": name, "partitions": 3, "id": described["id"], "internal": False} in listed
    assert all(not topic["internal"] for topic in listed)

    assert commands.ok("topics", "delete", name, "--yes", "--json").json == {
        "deleted": [name],
        "refused": {},
    }
    listed = commands.given("topics", "list", "--json").json
    assert name not in {topic["topic"] for topic in listed}


def test_tables_for_users(commands: Commands, topic: str) -> None:
    described = commands.ok("topics", "describe", topic).stdout
    assert described.startswith(f"topic {topic}, id ")
    assert "partition   leader   earliest   latest" in described
    assert topic in commands.ok("topics", "list").stdout


def test_the_broker_refuses_with_kafkas_name(commands: Commands, topic: str) -> None:
    again = commands.run("topics", "create", topic)
    assert (again.status, again.stdout) == (1, "")
    assert again.stderr.startswith("sharegroup: TOPIC_ALREADY_EXISTS: ")
    wrong = commands.inside("topics", "create", f"{topic}-wrong", "-c", "retention.mss=1")
    assert wrong.status == 1
    assert "INVALID_CONFIG" in wrong.stderr
    unknown = commands.inside("topics", "describe", "nowhere")
    assert unknown.status == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in unknown.stderr


def test_a_missing_topic_does_not_prevent_the_other_deletions(
    commands: Commands, topic: str
) -> None:
    done = commands.run("topics", "delete", "nowhere", topic, "-y", "--json")
    assert done.status == 1
    assert done.json == {"deleted": [topic], "refused": {"nowhere": "UNKNOWN_TOPIC_OR_PARTITION"}}
    assert "nowhere: UNKNOWN_TOPIC_OR_PARTITION" in done.stderr


def test_a_full_disk_under_the_output(commands: Commands) -> None:
    with Path("/dev/full").open("wb") as full:
        done = commands.run_into(full, "topics", "list")
    assert done.status == 1
    assert done.stderr == "sharegroup: the output cannot be written: No space left on device\n"


def test_alter_settings_and_partitions(commands: Commands, name: str) -> None:
    commands.inside("topics", "create", name, "-p", "1", "-c", "retention.ms=60000")
    words = (
        "topics",
        "alter",
        name,
        "-p",
        "3",
        "-c",
        "retention.ms=",
        "-c",
        "segment.bytes=2097152",
    )
    altered = commands.ok(*words, "--json").json
    assert altered["configs"] == {"segment.bytes": "2097152"}
    assert [one["partition"] for one in altered["partitions"]] == [0, 1, 2]
    assert altered == commands.inside("topics", "describe", name, "--json").json

    fewer = commands.inside("topics", "alter", name, "-p", "2")
    assert (fewer.status, fewer.stdout) == (1, "")
    assert fewer.stderr.startswith("sharegroup: INVALID_PARTITIONS: ")
    wrong = commands.inside("topics", "alter", name, "-c", "retention.mss=1")
    assert (wrong.status, "INVALID_CONFIG" in wrong.stderr) == (1, True)
    nothing = commands.inside("topics", "alter", name)
    assert nothing.status == 2
    assert nothing.stderr == "sharegroup: choose what to change, with --partitions or --config\n"


def test_if_not_exists_and_if_exists(commands: Commands, name: str) -> None:
    create = ("topics", "create", name, "--if-not-exists", "-p", "2")
    assert commands.ok(*create).stdout == f"{name} created, 2 partitions\n"
    assert commands.inside(*create[:-1], "5").stdout == f"{name} exists, 2 partitions\n"
    assert commands.inside(*create, "--json").json["created"] is False
    delete = ("topics", "delete", name, "--if-exists", "--yes")
    assert commands.ok(*delete).stdout == f"{name} deleted\n"
    gone = commands.inside(*delete)
    assert (gone.status, gone.stdout, gone.stderr) == (0, "", "")


def test_delete_asks_first(commands: Commands, topic: str) -> None:
    unasked = commands.run("topics", "delete", topic)
    assert (unasked.status, unasked.stdout) == (2, "")
    assert unasked.stderr == (
        f"sharegroup: delete {topic} with all records? There is no terminal to ask on: confirm "
        "with --yes\n"
    )
    question = f"delete {topic} with all records? [y/N] "
    refused, shown = commands.answering("n\n", "topics", "delete", topic)
    assert refused == 1
    assert question in shown
    assert "nothing was done" in shown
    assert topic in commands.inside("topics", "list").stdout
    interrupted, _ = commands.answering("\x03", "topics", "delete", topic)  # Ctrl-C
    assert interrupted == 130
    done, shown = commands.answering("y\n", "topics", "delete", topic)
    assert (done, f"{topic} deleted" in shown) == (0, True)


def test_wrong_usage(commands: Commands) -> None:
    assert commands.run("topics", "create").status == 2
    assert commands.inside("topics", "create", "t", "-c", "novalue").status == 2
    assert commands.inside("topics", "create", "t", "-p", "0").status == 2
    assert commands.inside("topics", "rename").status == 2
    assert commands.run("topics", "list", "-b", "host:port").status == 2
