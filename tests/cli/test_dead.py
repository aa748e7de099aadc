"""`sharegroup groups redrive` and `sharegroup dead` against a running broker."""

from __future__ import annotations

import json
import signal
from time import monotonic

import pytest

from sharegroup import sync
from sharegroup.client.core.dead_letter import DeadLetter
from tests.cli.command import Commands, finish
from tests.client.dead_letters import said
from tests.client.working import WAIT_S

pytestmark = pytest.mark.process


@pytest.fixture
def letters(commands: Commands, name: str) -> str:
    """The name of a topic and of its group, which has 4 letters in ``NAME-dead``."""
    dead = f"{name}-dead"
    commands.inside("topics", "create", name, "--partitions", "1")
    commands.inside("topics", "create", dead, "--partitions", "1")
    with sync.Producer(commands.bootstrap) as producer:
        for number in range(4):
            headers = said(
                name,
                name,
                0,
                number,
                cause="rejected" if number % 2 else "released",
                message=f"no customer {number}",
                failed_ms=1_000_000 + number,
                timestamp=5,
            )
            producer.send(dead, f"v{number}", key="k", headers=[("h", b"1"), *headers])
    return name


def test_letters_are_listed_shown_exported_redriven_and_purged(
    commands: Commands, letters: str
) -> None:
    topic = ("--dead-letters", f"{letters}-dead")
    rows = commands.inside("dead", "list", letters, *topic, "--json").json
    assert rows == [
        {
            "cause": cause,
            "message": "no customer #",
            "letters": 2,
            "first": "1970-01-01T00:16:40Z",
            "last": "1970-01-01T00:16:40Z",
        }
        for cause in ("rejected", "released")
    ]
    rows = commands.inside("dead", "list", letters, *topic, "--each", "--json").json
    assert [(row["letter"], row["offset"]) for row in rows] == [(f"0:{n}", n) for n in range(4)]

    one = commands.ok("dead", "show", letters, "0:1", *topic)
    assert "cause:      rejected\n" in one.stdout
    assert one.stdout.endswith("header:     h=1\n\nv1\n")
    one = commands.inside("dead", "show", letters, "0:1", *topic, "--json")
    assert (one.json["value"], one.json["headers"], one.json["done"]) == ("v1", [["h", "1"]], False)

    where = ("--where", 'cause == "rejected"')
    lines = commands.ok("dead", "export", letters, *topic, *where).json_lines
    assert [line["value"] for line in lines] == ["v1", "v3"]

    dry = commands.inside("groups", "redrive", letters, *topic, "--dry-run")
    assert dry.stdout == "4 letters would be redriven\n"
    done = commands.inside("groups", "redrive", letters, *topic, *where)
    assert done.stdout == "2 letters redriven, 2 others left\n"
    found = commands.ok("consume", letters, "--peek", "--until", "latest", "--json").json_lines
    assert [(one["value"], one["headers"]) for one in found] == [
        (value, [["h", "1"], ["sharegroup.redriven", "1"]]) for value in ("v1", "v3")
    ]

    unsure = commands.inside("dead", "purge", letters, *topic)
    assert unsure.status == 2
    assert "confirm with --yes" in unsure.stderr
    done = commands.inside("dead", "purge", letters, *topic, "--older-than", "1d", "--yes")
    assert done.stdout == "2 letters purged\n"
    again = commands.inside("groups", "redrive", letters, *topic, "--json")
    assert json.loads(again.stdout.splitlines()[-1])["done"] == 0
    assert commands.inside("dead", "list", letters, *topic, "--json").json == []


def test_ctrl_c_ends_a_redrive_and_the_next_one_goes_on(commands: Commands, letters: str) -> None:
    words = ("groups", "redrive", letters, "--dead-letters", f"{letters}-dead", "--json")
    process = commands.start(*words, "--rate", "4")  # one in each transaction
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert (first["step"], first["done"], first["records"]) == ("committed", 1, 4)
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.status == 130
    done = 1 + len(stopped.json_lines)
    assert f"{done} letter{'s' * (done > 1)} redriven: the same command goes on" in stopped.stderr
    assert f"{letters} reads uncommitted records: if this" in stopped.stderr
    again = commands.inside(*words)
    last = again.json_lines[-1]
    assert last["step"] == "end"
    assert last["done"] == 4 - done
    found = commands.ok("consume", letters, "--peek", "--until", "latest").stdout
    assert sorted(found.splitlines()) == ["v0", "v1", "v2", "v3"]


def test_a_bar_on_a_terminal(commands: Commands, letters: str) -> None:
    status, shown = commands.answering(
        "y\n", "dead", "purge", letters, "--dead-letters", f"{letters}-dead"
    )
    assert status == 0
    assert f"mark all dead letters of {letters} as done, and never redrive them? [y/N]" in shown
    assert "4 letters purged" in shown


def test_what_is_wrong_is_said(commands: Commands, letters: str) -> None:
    wrong = commands.inside("groups", "redrive", letters, "--where", "caus == 1")
    assert wrong.status == 2
    assert "  caus == 1\n  ^\nsharegroup: caus is no field; the fields are topic," in wrong.stderr
    unnamed = commands.inside("dead", "list", letters)
    assert unnamed.status == 2
    assert "names no dead-letter topic" in unnamed.stderr
    missing = commands.inside("dead", "show", letters, "0:9", "--dead-letters", f"{letters}-dead")
    assert missing.status == 1


def written(admin: sync.Admin, group: str) -> list[DeadLetter]:
    """The letters of a group, which are written after the answer to its consumer."""
    deadline = monotonic() + WAIT_S
    while monotonic() < deadline:
        if letters := admin.list_dead_letters(group):
            return letters
    raise AssertionError("no letter was written")


def test_what_a_broker_has_written_is_redriven(commands: Commands, name: str) -> None:
    """Apache Kafka 4.4 writes letters if share.version is 2."""
    dead = f"dlq.{name}"
    with sync.Admin(commands.bootstrap) as admin:
        admin.create_topics(name, partitions=1)
        admin.create_topics(
            dead, partitions=1, configs={"errors.deadletterqueue.group.enable": "true"}
        )
        settings = {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": dead,
            "errors.deadletterqueue.copy.record.enable": "true",
        }
        admin.alter_configs("group", name, settings)
        with (
            sync.Producer(commands.bootstrap) as producer,
            sync.ShareConsumer(
                name,
                group_id=name,
                bootstrap_servers=commands.bootstrap,
                acknowledgement_mode="explicit",
            ) as consumer,
        ):
            producer.send(name, "job", key="k", headers=[("own", b"1")])
            records = consumer.poll(timeout_ms=120_000)
            consumer.reject(*records)
            assert set(consumer.commit().values()) == {None}
            letters = written(admin, name)
            assert [(one.source.topic, one.offset, one.has_copy) for one in letters] == [
                (name, 0, True)
            ]
            done = commands.inside("groups", "redrive", name)
            assert done.stdout == "1 letter redriven\n"
            [record] = consumer.poll(timeout_ms=120_000)
            assert (record.key, record.value, record.offset) == (b"k", b"job", 1)
            assert record.headers == [("own", b"1"), ("sharegroup.redriven", b"1")]
