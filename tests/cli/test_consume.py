"""`sharegroup consume` against a running broker."""

from __future__ import annotations

import select
import signal
import subprocess

import pytest

from tests.cli.command import IDLE_SECONDS, SECONDS, Commands, finish

pytestmark = pytest.mark.process


def consume(commands: Commands, topic: str, *more: str) -> list[tuple[str, int]]:
    """Values and delivery counts of all that the group named as the topic is given."""
    words = ("consume", topic, "-g", topic, "--from-beginning", "--json", *more)
    read = commands.ok(*(words if "-n" in more else (*words, "--timeout", IDLE_SECONDS)))
    return sorted((record["value"], record["delivery_count"]) for record in read.json_lines)


def test_values_as_lines(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, stdin="ä\nb\n")
    done = commands.ok("consume", topic, "-g", topic, "--from-beginning", "-n", "2")
    assert sorted(done.stdout.splitlines()) == ["b", "ä"]
    assert done.stderr == "2 records accepted\n"


def test_records_as_json(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, "--key-separator", ":", stdin="k:v\n")
    read = commands.ok("consume", topic, "-g", topic, "--from-beginning", "-n", "1", "--json")
    (record,) = read.json_lines
    assert record.pop("timestamp") > 1_700_000_000_000
    assert record.pop("partition") in {0, 1}
    assert record == {
        "topic": topic,
        "offset": 0,
        "delivery_count": 1,
        "key": "k",
        "value": "v",
        "headers": [],
    }


def test_a_new_group_begins_at_the_end_by_default(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, stdin="a\n")
    idle = ("--timeout", IDLE_SECONDS)
    assert commands.ok("consume", topic, "-g", topic, *idle, "--json").stdout == ""
    again = commands.ok("consume", topic, "-g", topic, *idle, "--from-beginning")
    assert again.stdout == ""
    assert f"group {topic} is not new" in again.stderr


def test_released_records_are_redelivered_and_accepted_ones_are_not(
    commands: Commands, topic: str
) -> None:
    commands.given("produce", topic, "--key-separator", ":", stdin="k:a\nk:b\nk:c\n")
    assert consume(commands, topic, "-n", "2", "--ack", "release") == [("a", 1), ("b", 1)]
    assert consume(commands, topic, "-n", "1", "--ack", "reject") == [("a", 2)]
    assert consume(commands, topic, "-n", "1") == [("b", 2)]
    assert [value for value, _ in consume(commands, topic)] == ["c"]
    assert consume(commands, topic) == []


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_ctrl_c_leaves_nothing_half_done(
    commands: Commands, topic: str, number: signal.Signals, status: int
) -> None:
    commands.given("produce", topic, stdin="a\nb\nc\n")
    process = commands.start("consume", topic, "-g", topic, "--from-beginning", "--json")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    process.send_signal(number)
    done = finish(process)
    assert (done.status, done.stdout, done.stderr) == (status, "", "")
    assert len(set(lines)) == 3

    described = commands.ok("groups", "describe", topic, "--json").json
    assert described["members"] == []  # it has left
    assert sum(one["lag"] or 0 for one in described["partitions"]) == 0
    assert consume(commands, topic) == []


def lag(commands: Commands, group: str) -> int:
    """How many records are not done yet."""
    described = commands.inside("groups", "describe", group, "--offsets", "--json").json
    return sum(one["lag"] or 0 for one in described["partitions"])


def test_only_records_read_by_head_are_accepted(commands: Commands, topic: str) -> None:
    commands.inside("groups", "set", topic, "share.auto.offset.reset=earliest")
    commands.given("produce", topic, stdin="".join(f"{n}\n" for n in range(500)))
    process = commands.start("consume", topic, "-g", topic)
    shown = subprocess.run(
        ["head", "-2"], stdin=process.stdout, capture_output=True, timeout=SECONDS, check=True
    )
    assert len(shown.stdout.splitlines()) == 2
    assert process.stdout is not None
    process.stdout.close()  # ours: head has gone, and now nobody reads
    process.stdout = None
    done = finish(process)
    assert (done.status, done.stderr) == (0, "")
    assert lag(commands, topic) == 498


def test_an_unread_record_in_the_pipe_is_released(commands: Commands, topic: str) -> None:
    commands.inside("groups", "set", topic, "share.auto.offset.reset=earliest")
    commands.given("produce", topic, stdin="a\nb\n")
    process = commands.start("consume", topic, "-g", topic)
    assert process.stdout is not None
    select.select([process.stdout], [], [], SECONDS)  # the first record is there, and nobody reads
    process.send_signal(signal.SIGINT)
    process.wait(SECONDS)
    done = finish(process)
    assert (done.status, done.stderr) == (130, "0 records accepted\n")
    assert lag(commands, topic) == 2


def test_a_closed_pipe_ends_it_even_without_records(commands: Commands, topic: str) -> None:
    process = commands.start("consume", topic, "-g", topic, "--from-beginning")
    assert process.stdout is not None
    commands.given("produce", topic, stdin="a\n")
    assert process.stdout.readline() == b"a\n"
    process.stdout.close()
    process.stdout = None
    done = finish(process)
    assert (done.status, done.stderr) == (0, "")
    assert lag(commands, topic) == 0


def test_no_group(commands: Commands) -> None:
    refused = commands.run("consume", "t")
    assert refused.status == 2
    assert refused.stderr == (
        "sharegroup: name a share group with --group, or read without one with --peek\n"
    )


def test_waiting_for_a_missing_topic_is_reported(commands: Commands, name: str) -> None:
    done = commands.ok("consume", name, "-g", name, "--timeout", "0.1")
    told, ended = done.stderr.splitlines()
    assert told.startswith(f"there is no topic {name!r}: waiting until there is; create it")
    assert ended == "0 records accepted"


HOSTILE = "\x1b[2J\x1b]0;title\x07a\u202eb\tc"


def test_a_file_gets_the_bytes_that_a_terminal_shows_escaped(
    commands: Commands, topic: str
) -> None:
    commands.given("produce", topic, stdin=HOSTILE + "\n")
    words = ("consume", topic, "--from-beginning", "-n", "1")
    piped = commands.ok(*words, "-g", f"{topic}-piped")
    assert piped.stdout == HOSTILE + "\n"
    shown = commands.on_terminal(*words, "-g", f"{topic}-shown")
    assert "\\x1b[2J\\x1b]0;title\\x07a\\u202eb\tc" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_json_has_no_control_characters_either(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, stdin=HOSTILE + "\n")
    words = ("consume", topic, "-g", topic, "--from-beginning", "-n", "1", "--json")
    read = commands.ok(*words)
    assert read.json["value"] == HOSTILE
    assert read.stdout.rstrip("\n").isprintable()
