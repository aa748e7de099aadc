"""`sharegroup groups pause`, `resume`, `purge`, and `groups records --accept …`, with a broker."""

from __future__ import annotations

import os

import pytest

from sharegroup import sync
from sharegroup.client.core.record import Record
from tests.cli.command import Commands

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        os.environ.get("SHAREGROUP_TEST_BROKER") == "kafka", reason="Apache Kafka has no such hands"
    ),
]


def consumer_of(commands: Commands, name: str) -> sync.ShareConsumer:
    return sync.ShareConsumer(
        name,
        group_id=name,
        bootstrap_servers=commands.bootstrap,
        acknowledgement_mode="explicit",
        fetch_max_wait_ms=50,
    )


def polled(consumer: sync.ShareConsumer, count: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < count:
        found += consumer.poll(timeout_ms=120_000)
    return found


def prepared(commands: Commands, name: str, records: int) -> None:
    commands.given("topics", "create", name, "--partitions", "1")
    commands.given("produce", name, stdin="".join(f"{at}\n" for at in range(records)))
    with sync.Admin(commands.bootstrap) as admin:
        admin.begin_group_at(name, "earliest")


def states(commands: Commands, name: str) -> list[tuple[int, int, str]]:
    rows = commands.given("groups", "records", name, "--json").json
    return [(row["first"], row["last"], row["state"]) for row in rows]


def test_a_group_is_paused_and_resumed(commands: Commands, name: str) -> None:
    prepared(commands, name, 2)
    with consumer_of(commands, name) as consumer:
        consumer.accept(*polled(consumer, 2))
        consumer.commit()
        unsure = commands.inside("groups", "pause", name)
        assert unsure.status == 2
        assert "confirm with --yes" in unsure.stderr
        assert commands.ok("groups", "pause", name, "--yes").stdout == f"{name} is paused\n"
        shown = commands.ok("groups", "describe", name).stdout
        assert f"group {name}, stable, paused, epoch" in shown
        line = commands.given("groups", "describe", name, "--state", "--json").json
        assert line["paused"] is True
        commands.given("produce", name, stdin="later\n")
        assert not consumer.poll(timeout_ms=200)
        assert commands.ok("groups", "resume", name).stdout == f"{name} is resumed\n"
        (later,) = polled(consumer, 1)
        assert later.value == b"later"
        consumer.accept(later)
        assert ", paused" not in commands.given("groups", "describe", name).stdout
    assert commands.inside("groups", "pause", "nobody", "--yes").status == 1


def test_decisions_about_records(commands: Commands, name: str) -> None:
    prepared(commands, name, 10)
    records = ("groups", "records", name)
    with consumer_of(commands, name) as consumer:
        held = polled(consumer, 10)
        unsure = commands.inside(*records, "--offsets", "2", "--archive")
        assert (unsure.status, unsure.stdout) == (2, "")
        assert f"archive, and never deliver again, 1 record of {name}?" in unsure.stderr
        done = commands.ok(*records, "--offsets", "2,4-5", "--archive", "--yes")
        assert done.stdout == "3 records archived, 3 of them held by members\n"
        done = commands.ok(
            *records, "--topic", name, "-p", "0", "--offsets", "0-1", "--accept", "-y"
        )
        assert done.stdout == "2 records accepted, 2 of them held by members\n"
        done = commands.ok(*records, "--offsets", "3-6", "--extend", "1h", "--yes", "--json")
        assert done.json == {"group": name, "extended": 2, "held": 2}
        rows = commands.given(*records, "--state", "acquired", "--json").json
        assert [row["first"] for row in rows if row["lock_ms"] > 600_000] == [3, 6]
        done = commands.ok(*records, "--offsets", "9", "--release", "--yes")
        assert done.stdout == "1 record released, 1 of them held by members\n"
        consumer.accept(*held)
        assert [type(one).__name__ for one in consumer.commit().values()] == ["InvalidRecordState"]
        assert states(commands, name)[-1] == (9, 9, "available"), "the other answers took effect"
        assert [one.offset for one in polled(consumer, 1)] == [9]
        consumer.close()
    nothing = commands.inside(*records, "--offsets", "0-5", "--archive", "--yes")
    assert nothing.status == 1
    assert "no such records to decide about" in nothing.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--accept", "--archive"), "take one of"),
        (("--accept", "--reason", "x"), "--reason goes with --archive"),
        (("--extend", "soon"), "write a duration up to 7d"),
        (("--extend", "8d"), "write a duration up to 7d"),
        (("--offsets", "7-3"), "ends before it begins"),
        (("--offsets", "a"), "write an offset or a range"),
    ],
)
def test_wrong_options(commands: Commands, name: str, options: tuple[str, ...], said: str) -> None:
    wrong = commands.inside("groups", "records", name, *options)
    assert wrong.status == 2
    assert said in wrong.stderr


def test_a_group_is_purged(commands: Commands, name: str) -> None:
    prepared(commands, name, 5)
    with consumer_of(commands, name) as consumer:
        held = polled(consumer, 5)
        commands.given("produce", name, stdin="later\n")
        young = commands.ok("groups", "purge", name, "--older-than", "1h", "--yes", "--json").json
        assert [row["purged"] for row in young] in ([], [0])
        unsure = commands.inside("groups", "purge", name)
        assert unsure.status == 2
        assert f"purge {name}: give up all its records" in unsure.stderr
        done = commands.ok("groups", "purge", name, "--yes", "--json").json
        assert done == [{"topic": name, "partition": 0, "purged": 6, "held": 5}]
        consumer.accept(*held)
        assert [type(one).__name__ for one in consumer.commit().values()] == ["InvalidRecordState"]
        commands.given("produce", name, stdin="new\n")
        (new,) = polled(consumer, 1)
        assert new.value == b"new"
        consumer.accept(new)
    rows = commands.ok("groups", "records", name, "--state", "archived", "--json").json
    assert [(row["first"], row["last"], row["reason"]) for row in rows] == [
        (0, 4, "purged"),
        (5, 5, "purged"),
    ]
    wrong = commands.inside("groups", "purge", name, "--older-than", "long", "--yes")
    assert wrong.status == 2
    assert "write a duration" in wrong.stderr
