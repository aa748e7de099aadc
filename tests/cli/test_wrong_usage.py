"""What is wrong with a command line is said without asking a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.cli.groups import parse_states
from tests.cli.command import Commands

NOWHERE = Commands("127.0.0.1:1")  # nobody listens there


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("describe",), "name a group, or take --all-groups"),
        (("describe", "a", "--all-groups"), "not both"),
        (("describe", "a", "--state", "--members"), "one of --state, --members and --offsets"),
        (("delete",), "name a group, or take --all-groups"),
        (("delete", "a", "--all-groups"), "not both"),
        (("delete-offsets", "a"), "--topic"),
        (("delete-offsets", "--topic", "t"), "GROUP"),
        (("delete-offsets", "a", "b", "--topic", "t"), "unexpected extra argument"),
        (("list", "--state", "Asleep"), "Empty, Stable, Dead"),
        (("list", "--state", "bad, Stable"), "--state bad: "),
        (("list", "--state", "   ,   ,"), "--state : "),
        (("list", "--frobnicate"), "--frobnicate"),
    ],
)
def test_wrong_usage_of_groups(words: tuple[str, ...], says: str) -> None:
    done = NOWHERE.inside("groups", *words)
    assert done.status == 2
    assert done.stdout == ""
    assert says in done.stderr


ONE = ("--topic", "t")
TO = ("--to-earliest",)
DRY = ("--dry-run",)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("g", *ONE, *TO), "either --dry-run"),
        (("g", *ONE, *TO, *DRY, "--execute"), "either --dry-run"),
        (("g", *ONE, *DRY), "choose the new offsets with exactly one of --to-earliest"),
        (("g", *ONE, *TO, "--to-latest", *DRY), "choose the new offsets with exactly one of"),
        (("g", *TO, *DRY), "choose topics with"),
        (("g", *ONE, "--all-topics", *TO, *DRY), "choose topics with"),
        ((*ONE, *TO, *DRY), "name a group, or take --all-groups"),
        (("g", *ONE, "--to-datetime", "noon", *DRY), "--to-datetime noon: write it as"),
        (("g", *ONE, "--by-duration", "1h", *DRY), "`1h` is not an ISO-8601 duration"),
        (("g", *ONE, "--by-duration", "-PT1H", *DRY), "is negative"),
        (("g", *ONE, "--to-offset", "-1", *DRY), "--to-offset"),
        (("g", "--topic", "t:x", *TO, *DRY), "--topic t:x"),
        (("--from-file", "no-such-file", *DRY), "cannot read no-such-file"),
    ],
)
def test_wrong_usage_of_reset_offsets(words: tuple[str, ...], says: str) -> None:
    done = NOWHERE.inside("groups", "reset-offsets", *words)
    assert done.status == 2
    assert done.stdout == ""
    assert says in " ".join(done.stderr.split())


def test_states_are_parsed_into_kafkas_spelling() -> None:
    assert parse_states(["stable"]) == ["Stable"]
    assert parse_states(["Empty, DEAD", "stable"]) == ["Empty", "Dead", "Stable"]
    assert parse_states([]) == []


def test_groups_and_topics_are_refused_beside_a_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("group,topic,partition,new-offset\ng,t,0,0\n")
    for more in (("g",), ("--all-groups",), ("--topic", "t"), ("--all-topics",)):
        words = ("--from-file", str(plan), "--dry-run", *more)
        done = NOWHERE.inside("groups", "reset-offsets", *words)
        assert done.status == 2
        assert "the plan names the groups" in done.stderr


def test_a_binary_file_is_refused_as_a_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_bytes(b"\xff\xfe")
    done = NOWHERE.inside("groups", "reset-offsets", "--from-file", str(plan), "--dry-run")
    assert (done.status, done.stderr) == (2, f"sharegroup: {plan} is not UTF-8 text\n")
