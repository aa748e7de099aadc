"""`consume --confirmed-by PIPE | produce --confirm-to PIPE`: a redrive that gives nothing up."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from array import array
from pathlib import Path

import pytest

from tests.cli.command import IDLE_SECONDS, SECONDS, Commands, Finished, finish
from tests.cli.test_consume import consume

pytestmark = pytest.mark.process

SHAREGROUP = f"{sys.executable} -m sharegroup"
VALUES = ["a" * 100, "b" * 100, "c" * 5_000, "d" * 100]


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    made = tmp_path / "arrived"
    os.mkfifo(made)
    return made


@pytest.fixture
def dead(commands: Commands, name: str) -> str:
    """A topic of dead letters, of which one is large."""
    commands.given("topics", "create", f"{name}-dead")
    commands.given("produce", f"{name}-dead", stdin="\n".join(VALUES))
    return f"{name}-dead"


def in_shell(commands: Commands, script: str) -> Finished:
    """A pipeline, as somebody types it."""
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}"],
        env={**commands.environment, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        text=True,
    )
    return Finished(status=done.returncode, stdout=done.stdout, stderr=done.stderr)


def redrive(dead: str, pipe: Path, to: str, between: str = "") -> str:
    read = f"consume {dead} -g {dead} --from-beginning --timeout {IDLE_SECONDS} --format json"
    write = f"produce {to} --format json --confirm-to {pipe}"
    return f"{SHAREGROUP} {read} --confirmed-by {pipe} | {between} {SHAREGROUP} {write}"


def test_all_that_arrived_is_accepted(
    commands: Commands, topic: str, dead: str, pipe: Path
) -> None:
    done = in_shell(commands, redrive(dead, pipe, topic))
    assert done.status == 0, done
    assert done.stderr == f"4 records sent to {topic}\n"
    assert [value for value, _ in consume(commands, topic)] == VALUES
    assert consume(commands, dead) == []


def test_what_is_refused_comes_again(commands: Commands, name: str, dead: str, pipe: Path) -> None:
    topic = f"{name}-small"
    commands.given("topics", "create", topic, "--config", "max.message.bytes=1000")
    done = in_shell(commands, redrive(dead, pipe, topic))
    assert done.status == 1
    assert "1 refused" in done.stderr
    assert "not confirmed, and released" in done.stderr
    arrived = [value for value, _ in consume(commands, topic)]
    left = [value for value, _ in consume(commands, dead)]
    assert VALUES[2] in left
    assert sorted(arrived + left) == VALUES


def test_a_producer_that_never_runs_takes_nothing(
    commands: Commands, dead: str, pipe: Path
) -> None:
    done = in_shell(commands, redrive(dead, pipe, "no/topic"))
    assert done.status == 1
    assert [value for value, _ in consume(commands, dead)] == VALUES


def test_only_what_passes_a_filter_is_accepted(
    commands: Commands, topic: str, dead: str, pipe: Path
) -> None:
    done = in_shell(commands, redrive(dead, pipe, topic, "grep --line-buffered -v ccc |"))
    assert done.status == 1
    assert "1 record not confirmed, and released" in done.stderr
    assert [value for value, _ in consume(commands, topic)] == [*VALUES[:2], VALUES[3]]
    assert [value for value, _ in consume(commands, dead)] == [VALUES[2]]


def test_ctrl_c_keeps_what_the_reader_confirms_after_it(
    commands: Commands, dead: str, pipe: Path
) -> None:
    words = ("consume", dead, "-g", dead, "--from-beginning", "--json", "--confirmed-by", str(pipe))
    process = commands.start(*words)
    assert process.stdout is not None
    with open(pipe, "wb", buffering=0) as confirm:
        lines = [process.stdout.readline() for _ in VALUES]
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""  # the reader sees the end of its input
        confirm.write(lines[1])
    done = finish(process)
    assert (done.status, done.stderr) == (
        130,
        "sharegroup: 3 records not confirmed, and released\n",
    )
    assert [value for value, _ in consume(commands, dead)] == [VALUES[0], *VALUES[2:]]


def test_a_confirmation_may_come_before_the_command_knows_that_the_record_is_read(
    commands: Commands, name: str, pipe: Path
) -> None:
    """The reader is quick, and the command was not given the processor since it has written."""
    commands.given("topics", "create", name)
    commands.given("produce", name, stdin="a" * 20_000)  # some pages of the pipe
    words = ("consume", name, "-g", name, "--from-beginning", "--json", "--confirmed-by", str(pipe))
    process = commands.start(*words, "--max", "1")
    assert process.stdout is not None
    with open(pipe, "wb", buffering=0) as confirm:
        begin = process.stdout.read(1)
        confirm.write(json.dumps({"topic": name, "partition": 0, "offset": 0}).encode() + b"\n")
        while unread(confirm.fileno()):
            assert process.poll() is None
        assert json.loads(begin + process.stdout.readline())["value"] == "a" * 20_000
    done = finish(process)
    assert (done.status, done.stderr) == (0, "")
    assert consume(commands, name) == []


def unread(pipe: int) -> int:
    """How many bytes of a pipe nobody has read yet."""
    found = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]


def test_what_is_no_place_is_said(commands: Commands, dead: str, pipe: Path) -> None:
    words = ("consume", dead, "-g", dead, "--from-beginning", "--json", "--confirmed-by", str(pipe))
    process = commands.start(*words)
    with open(pipe, "wb", buffering=0) as confirm:
        confirm.write(b'{"topic": "t", "partition": "0", "offset": 1}\n')
        done = finish(process)
    assert done.status == 2
    assert "expected lines with topic, partition and offset" in done.stderr
    assert [value for value, _ in consume(commands, dead)] == VALUES


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("consume", "t", "-g", "g", "--confirmed-by", "{folder}/none"), "mkfifo"),
        (("consume", "t", "-g", "g", "--confirmed-by", "{folder}"), "cannot open|no named pipe"),
        (("consume", "t", "--peek", "--confirmed-by", "{folder}/none"), "with --peek"),
        (("produce", "t", "--confirm-to", "{folder}/none"), "--format json"),
        (("produce", "t", "-f", "json", "--confirm-to", "{folder}/none"), "mkfifo"),
    ],
)
def test_wrong_usage(commands: Commands, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = commands.inside(*(word.format(folder=tmp_path) for word in words))
    assert done.status == 2
    assert any(part in done.stderr for part in said.split("|"))
    assert "Traceback" not in done.stderr
