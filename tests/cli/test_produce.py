"""`sharegroup produce` against a running broker."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from sharegroup.model.record_headers import DELIVER_AT, EXPIRES_AT
from tests.cli.command import IDLE_SECONDS, SECONDS, Commands, finish

pytestmark = pytest.mark.process


def values(commands: Commands, topic: str) -> list[str]:
    """All values of a topic, sorted."""
    words = ("consume", topic, "-g", f"{topic}-check", "--from-beginning", "--json")
    read = commands.ok(*words, "--timeout", IDLE_SECONDS)
    return sorted(record["value"] for record in read.json_lines)


def test_lines_of_stdin(commands: Commands, topic: str) -> None:
    done = commands.ok("produce", topic, stdin="a\nb\nc")
    assert (done.stdout, done.stderr) == ("", f"3 records sent to {topic}\n")
    assert values(commands, topic) == ["a", "b", "c"]


def test_json_lines_of_a_file_keyed_by_a_field(
    commands: Commands, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "flights.jsonl"
    path.write_text("".join(f'{{"carrier": "C{n % 5}", "n": {n}}}\n' for n in range(100)))
    done = commands.ok("produce", topic, str(path), "--key", "carrier", "--json")
    assert done.json["topic"] == topic
    assert (done.json["sent"], done.json["refused"]) == (100, 0)
    assert sum(done.json["partitions"].values()) == 100

    read = commands.ok(
        "consume", topic, "-g", topic, "--from-beginning", "-n", "100", "--json"
    ).json_lines
    partitions = {record["key"]: set[int]() for record in read}
    for record in read:
        partitions[record["key"]].add(record["partition"])
    assert sorted(partitions) == ["C0", "C1", "C2", "C3", "C4"]
    assert all(len(where) == 1 for where in partitions.values())


def test_a_message_id_is_taken_once(commands: Commands, topic: str) -> None:
    commands.given("topics", "alter", topic, "--config", "deduplication.window.ms=600000")
    lines = '{"n": 1}\n{"n": 2}\n{"n": 1}\n'
    done = commands.ok("produce", topic, "--message-id", "n", "-p", "0", stdin=lines)
    assert done.stderr == f"3 records sent to {topic}, 1 of them there already\n"
    again = commands.ok("produce", topic, "--message-id", "n", "-p", "0", "--json", stdin=lines)
    assert (again.json["sent"], again.json["repeated"]) == (3, 3)
    rows = "n,what\n2,b\n3,c\n"
    words = ("produce", topic, "--format", "csv", "--message-id", "n", "-p", "0")
    assert commands.ok(*words, stdin=rows).stderr.endswith(", 1 of them there already\n")
    assert values(commands, topic) == ['{"n": 1}', '{"n": 2}', '{"what": "c"}']
    missing = commands.inside(*words[:2], "--message-id", "n", stdin='{"n": null}\n')
    assert missing.status == 2
    assert "line 1 has no message id" in missing.stderr


def test_a_wrong_line_ends_it_after_the_lines_before(commands: Commands, topic: str) -> None:
    lines = '{"k": 1}\n{"k": 2}\n{"l": 3}\n{"k": 4}\n'
    done = commands.run("produce", topic, "--key", "k", "--json", stdin=lines)
    assert done.status == 2
    assert done.stderr == "sharegroup: line 3 has no field 'k'\n"
    assert done.json["sent"] == 2
    assert values(commands, topic) == ['{"k": 1}', '{"k": 2}']


def test_records_say_when_they_are_worthless(commands: Commands, topic: str) -> None:
    before_ms = time.time_ns() // 1_000_000
    commands.ok("produce", topic, "--expires-in", "10m", "-H", "a=b", stdin="x\n")
    read = commands.ok("consume", topic, "-g", topic, "--from-beginning", "-n", "1", "--json")
    headers = dict(read.json_lines[0]["headers"])
    assert headers["a"] == "b"
    assert 0 <= int(headers[EXPIRES_AT]) - before_ms - 600_000 <= SECONDS * 1000

    done = commands.inside("produce", topic, "--expires-in", "soon", stdin="x\n")
    assert done.status == 2
    assert "--expires-in is 'soon': write a duration, as in 90s, 15m, 12h, 2d" in done.stderr


def test_records_say_when_they_are_due(commands: Commands, topic: str) -> None:
    before_ms = time.time_ns() // 1_000_000
    commands.ok("produce", topic, "--in", "10m", stdin="x\n")
    read = commands.ok("consume", topic, "-g", topic, "--from-beginning", "-n", "1", "--json")
    headers = dict(read.json_lines[0]["headers"])
    assert 0 <= int(headers[DELIVER_AT]) - before_ms - 600_000 <= SECONDS * 1000

    done = commands.inside("produce", topic, "--in", "soon", stdin="x\n")
    assert done.status == 2
    assert "--in is 'soon': write a duration, as in 90s, 15m, 12h, 2d" in done.stderr
    done = commands.inside("produce", topic, "--in", "2h", "--expires-in", "2h", stdin="x\n")
    assert done.status == 2
    assert "--expires-in must be longer than --in: such records go to nobody" in done.stderr


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_ctrl_c_sends_and_counts_what_was_read(
    commands: Commands, topic: str, number: signal.Signals, status: int
) -> None:
    process = commands.start("produce", topic, "--json")
    assert process.stdin is not None
    process.stdin.write(b"one\ntwo\nthr")  # the third line is not whole
    process.stdin.flush()
    arrived = commands.ok(
        "consume", topic, "-g", f"{topic}-seen", "--from-beginning", "-n", "2", "--json"
    )
    assert len(arrived.json_lines) == 2
    process.send_signal(number)
    process.wait(SECONDS)  # its input is still open
    done = finish(process)
    assert done.status == status
    assert done.json["sent"] == 2
    assert values(commands, topic) == ["one", "two"]


def test_ctrl_c_in_the_middle_of_a_stream_counts_exactly(
    commands: Commands, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    path.write_text("x\n" * 2_000_000)
    process = commands.start("produce", topic, str(path), "--json")
    commands.ok("consume", topic, "-g", f"{topic}-seen", "--from-beginning", "-n", "1")
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.status == 130, done
    assert 0 < done.json["sent"] < 2_000_000
    assert done.json["refused"] == 0
    offsets = commands.given("topics", "describe", topic, "--json").json["partitions"]
    assert sum(one["latest"] for one in offsets) == done.json["sent"]


def test_a_record_that_is_too_large_is_refused_with_kafkas_name(
    commands: Commands, topic: str
) -> None:
    done = commands.run("produce", topic, stdin="x" * 2_000_000)
    assert done.status == 1
    assert done.stderr.startswith("sharegroup: MESSAGE_TOO_LARGE: ")


def test_one_large_line_fails_alone_and_is_named(commands: Commands) -> None:
    commands.given("topics", "create", "limited", "-c", "max.message.bytes=10000")
    lines = [f"small {number}" for number in range(8)]
    lines.insert(3, "x" * 12_000)
    done = commands.run("produce", "limited", stdin="\n".join(lines))
    assert done.status == 1
    assert "MESSAGE_TOO_LARGE: the record for limited-0 without a key is too large" in done.stderr
    assert "(line 4 of the input)\n8 records sent to limited, 1 refused\n" in done.stderr
