"""`sharegroup groups reset-offsets` against a running broker."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from sharegroup.client import Producer
from tests.cli.command import Commands, finish
from tests.client.working import run

pytestmark = pytest.mark.process

DAY_MS = 86_400_000
RECORDS = 4


@pytest.fixture
def dated(commands: Commands, topic: str) -> str:
    """A topic with a record on each of the first four days of 1970, in its partition 0."""

    async def produce() -> None:
        async with Producer(commands.bootstrap) as producer:
            for day in range(RECORDS):
                stamp = day * DAY_MS + 1
                await producer.send(topic, f"day {day}", partition=0, timestamp_ms=stamp)

    run(produce)
    return topic


def moved_to(commands: Commands, group: str) -> dict[int, int]:
    """The group's start offsets by partition."""
    found = commands.inside("groups", "describe", group, "--offsets", "--json").json
    return {one["partition"]: one["start_offset"] for one in found["partitions"]}


TARGETS = [
    ("--to-earliest", 0),
    ("--to-latest", RECORDS),
    ("--to-offset 3", 3),
    ("--to-offset 99", RECORDS),  # the nearest
    ("--to-datetime 1970-01-02T00:00:00.000", 1),
    ("--to-datetime 1970-01-03T00:00:00.000+01:00", 2),
    ("--to-datetime 2096-01-01T00:00:00.000Z", RECORDS),  # nothing is that young
    ("--by-duration PT1H", RECORDS),
    ("--by-duration P36500D", 0),
    ("--to-offset 2", 2),
    ("--to-current", 2),
]


def test_every_target(commands: Commands, dated: str) -> None:
    reset = ("groups", "reset-offsets", dated, "--topic", f"{dated}:0", "--execute", "--json")
    before = None
    for target, offset in TARGETS:
        done = commands.inside(*reset, *target.split())
        assert done.status == 0, done
        move = {"group": dated, "topic": dated, "partition": 0, "start_offset": before}
        moved = move | {"new_offset": offset, "error": None}
        assert done.json == {"executed": True, "moves": [moved]}, target
        assert moved_to(commands, dated) == {0: offset}
        before = offset


def test_a_dry_run_changes_nothing_and_its_plan_can_be_executed(
    commands: Commands, dated: str, tmp_path: Path
) -> None:
    reset = ("groups", "reset-offsets", dated)
    commands.inside(*reset, "--topic", dated, "--to-latest", "--execute")
    plan = tmp_path / "plan.csv"
    dry = commands.ok(*reset, "--all-topics", "--to-earliest", "--dry-run", "--export", str(plan))
    assert "2 partitions would be moved" in dry.stdout
    assert moved_to(commands, dated) == {0: RECORDS, 1: 0}

    text = plan.read_text()
    assert text == f"group,topic,partition,new-offset\n{dated},{dated},0,0\n{dated},{dated},1,0\n"
    reviewed = text.replace(f"{dated},0,0", f"{dated},0,2").replace(f"{dated},1,0", f"{dated},1,7")
    plan.write_text(reviewed)
    done = commands.ok("groups", "reset-offsets", "--from-file", str(plan), "--execute")
    assert "2 partitions moved" in done.stdout
    assert f"{dated}-1 has offsets 0 to 0: using 0 instead of 7" in done.stderr
    assert moved_to(commands, dated) == {0: 2, 1: 0}
    again = ("groups", "reset-offsets", "--from-file", "-", "--dry-run", "--json")
    marked = f"\ufeff{reviewed}"  # by a spreadsheet
    assert [m["new_offset"] for m in commands.ok(*again, stdin=marked).json["moves"]] == [2, 0]

    got = commands.ok("consume", dated, "-g", dated, "--max", "2").stdout
    assert got == "day 2\nday 3\n"


def test_current_offsets_can_be_saved_and_restored(
    commands: Commands, dated: str, tmp_path: Path
) -> None:
    reset = ("groups", "reset-offsets", dated)
    commands.inside(*reset, "--topic", f"{dated}:0", "--to-offset", "3", "--execute")
    plan = str(tmp_path / "plan.csv")
    kept = ("--topic", dated, "--to-current", "--dry-run", "--export", plan)
    done = commands.inside(*reset, *kept)
    assert f"group {dated} has no offset for {dated}-1: using its end offset, 0" in done.stderr
    commands.inside(*reset, "--all-topics", "--to-earliest", "--execute")
    commands.inside("groups", "reset-offsets", "--from-file", plan, "--execute")
    assert moved_to(commands, dated) == {0: 3, 1: 0}


def test_a_group_with_members_is_not_reset(commands: Commands, dated: str) -> None:
    process = commands.start("consume", dated, "-g", dated, "--from-beginning")
    assert process.stdout is not None
    for _ in range(RECORDS):
        process.stdout.readline()
    reset = ("groups", "reset-offsets", dated, "--topic", dated, "--to-earliest")
    dry = commands.inside(*reset, "--dry-run")
    refused = commands.inside(*reset, "--execute")
    process.send_signal(signal.SIGINT)
    finish(process)

    assert refused.status == 1
    assert refused.stderr.startswith(f"sharegroup: NON_EMPTY_GROUP: group {dated} has 1 member: ")
    assert "Stop them and run this again" in refused.stderr
    assert f"group {dated} has 1 member: " in dry.stderr  # the plan can be made meanwhile
    (done, _) = commands.inside("groups", "describe", dated, "--json").json["partitions"]
    assert done["lag"] == 0
    assert commands.inside(*reset, "--execute").status == 0
    assert moved_to(commands, dated) == {0: 0, 1: 0}


def test_a_group_that_does_not_exist_is_created(commands: Commands, dated: str) -> None:
    group = f"{dated}-new"
    reset = ("groups", "reset-offsets", group, "--topic", f"{dated}:0", "--to-offset", "1")
    dry = commands.inside(*reset, "--dry-run")
    assert f"there is no group {group}: --execute creates it" in dry.stderr
    assert commands.inside("groups", "describe", group).status == 1
    assert commands.inside(*reset, "--execute").status == 0
    assert moved_to(commands, group) == {0: 1}


def test_unknown_groups_and_topics(commands: Commands, dated: str) -> None:
    reset = ("groups", "reset-offsets", dated, "--to-earliest", "--execute")
    for topic in (f"{dated}-x", f"{dated}:0,7"):
        done = commands.inside(*reset, "--topic", topic)
        assert done.status == 1
        assert done.stderr.startswith("sharegroup: UNKNOWN_TOPIC_OR_PARTITION: ")
    nothing = commands.inside(*reset, "--all-topics")
    assert nothing.status == 2
    assert "has no offsets: name topics with --topic" in nothing.stderr
