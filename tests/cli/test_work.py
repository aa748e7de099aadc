"""`sharegroup work` as a process of its own: a user's module, signals, and a broker that dies."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import IDLE_SECONDS, SECONDS, Commands, finish
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

JOBS = """
import asyncio, pathlib, sys, threading

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")  # at once: threads say something too
    sys.stdout.flush()

async def on_loop(job):
    say(type(job.value).__name__, job.value)

def in_thread(job):
    say(threading.current_thread().name, job.value)

async def slow(job):
    say("began", job.value)
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.02)
    say("ended", job.value)

def slow_thread(job):
    say("began", job.value)
    while not pathlib.Path("go").exists():
        threading.Event().wait(0.02)
    say("ended", job.value)

async def failing(job):
    say(job.value["n"], job.delivery_count)
    raise ValueError("not this one")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory, with a module of handlers."""
    (tmp_path / "jobs.py").write_text(JOBS)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    (tmp_path / "go").touch()


@pytest.fixture
def topic(commands: Commands, name: str) -> str:
    """A fresh topic with one partition."""
    commands.given("topics", "create", name)
    return name


def words(handler: str, topic: str, *more: str) -> tuple[str, ...]:
    return ("work", f"jobs:{handler}", "-t", topic, "-g", topic, "--from-beginning", *more)


def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def until_said(process: subprocess.Popen[bytes], text: str) -> None:
    """Read its log up to the line with this text."""
    assert process.stderr is not None
    read = iter(process.stderr.readline, b"")
    assert any(text in one.decode() for one in read), "it ended, and did not say it"


def lag(commands: Commands, group: str) -> int:
    found = commands.inside("groups", "describe", group, "--json").json
    return sum(partition["lag"] for partition in found["partitions"])


@pytest.mark.parametrize(
    ("decode", "sent", "printed"),
    [
        ("json", '{"a": 1}', "dict {'a': 1}"),
        ("text", "grün", "str grün"),
        ("bytes", "plain", "bytes b'plain'"),
    ],
)
def test_a_coroutine_function(
    commands: Commands, topic: str, decode: str, sent: str, printed: str
) -> None:
    commands.given("produce", topic, stdin=f"{sent}\n")
    done = commands.ok(*words("on_loop", topic, "--decode", decode, "--until-idle", IDLE_SECONDS))
    assert done.stdout.splitlines() == [printed]
    assert f"INFO a worker in {topic} with 10 slots" in done.stderr
    assert f"INFO the worker in {topic} ended after" in done.stderr
    assert "handled 1, failed 0" in done.stderr
    assert lag(commands, topic) == 0


def test_a_plain_function_runs_in_threads(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, stdin="a\nb\nc\n")
    idle = ("--until-idle", IDLE_SECONDS, "-c", "2", "--decode", "text")
    done = commands.ok(*words("in_thread", topic, *idle))
    said = [one.split() for one in done.stdout.splitlines()]
    assert sorted(value for _, value in said) == ["a", "b", "c"]
    assert {name.rpartition("-")[0] for name, _ in said} == {"sharegroup-handler"}
    assert lag(commands, topic) == 0


def test_a_topic_that_does_not_exist_is_idle(commands: Commands, name: str) -> None:
    idle = ("work", "jobs:on_loop", "-t", name, "-g", name, "--until-idle", IDLE_SECONDS)
    done = commands.ok(*idle)
    assert f"WARNING there is no topic '{name}': waiting until there is" in done.stderr
    assert "handled 0, failed 0" in done.stderr


@pytest.mark.parametrize("handler", ["slow", "slow_thread"])
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["term", "int"]
)
def test_a_signal_drains(
    commands: Commands, topic: str, folder: Path, handler: str, number: signal.Signals, status: int
) -> None:
    commands.given("produce", topic, stdin="a\n")
    process = commands.start(*words(handler, topic, "--decode", "text"))
    assert line(process) == "began a"
    process.send_signal(number)
    until_said(process, "draining: 1 handlers run")
    (folder / "go").touch()
    done = finish(process)
    assert (done.status, done.stdout) == (status, "ended a\n")
    assert "Traceback" not in done.stderr
    assert lag(commands, topic) == 0


@pytest.mark.parametrize("handler", ["slow", "slow_thread"])
def test_a_second_signal_ends_it_at_once(commands: Commands, topic: str, handler: str) -> None:
    commands.given("produce", topic, stdin="a\n")
    process = commands.start(*words(handler, topic, "--drain", "600"))
    assert line(process).startswith("began")
    process.send_signal(signal.SIGINT)
    until_said(process, "draining: 1 handlers run")
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130
    done = finish(process)
    assert "Traceback" not in done.stderr
    assert lag(commands, topic) == 1


def test_retries_and_dead_letters(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, stdin='{"n": 1}\nno json\n')
    dead = f"{topic}-dead"
    letters = ("--dead-letter", dead, "--create-dead-letter", "--decode", "json")
    retry = ("--retry", "first_s=0.01,attempts=2", "--until-idle", IDLE_SECONDS)
    done = commands.ok(*words("failing", topic, *letters, *retry))
    assert done.stdout.splitlines() == ["1 1", "1 2"]
    assert "WARNING" in done.stderr
    assert "ValueError: not this one" in done.stderr
    found = commands.ok("consume", dead, "--peek", "--until", "latest", "--json").json_lines
    assert sorted(one["value"] for one in found) == ["no json", '{"n": 1}']
    assert lag(commands, topic) == 0


def test_it_is_not_idle_while_a_failed_record_rests(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, stdin='{"n": 1}\n')
    retry = ("--retry", f"first_s={float(IDLE_SECONDS) * 2},jitter=0,attempts=2")
    idle = ("--until-idle", IDLE_SECONDS, "--decode", "json")
    done = commands.ok(*words("failing", topic, *retry, *idle))
    assert done.stdout.splitlines() == ["1 1", "1 2"]
    assert lag(commands, topic) == 0


def test_a_broker_that_is_killed_while_it_works(tmp_path: Path, folder: Path) -> None:
    with SharegroupServer(tmp_path) as server:
        commands = Commands(server.bootstrap)
        commands.given("topics", "create", "photos")
        commands.given("produce", "photos", stdin="a\n")
        process = commands.start(*words("slow", "photos", "--decode", "text"))
        assert line(process) == "began a"
        server.kill()
        until_said(process, "the results of photos-0@0 are kept")
        (folder / "go").touch()
        assert line(process) == "ended a"
        server.start()
        until_said(process, "no result is kept any more: so far 1 have")
        process.send_signal(signal.SIGTERM)
        done = finish(process)
        assert (done.status, done.stdout) == (143, "")
        assert lag(commands, "photos") == 0


def test_a_topic_that_is_missing(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path, "auto.create.topics.enable=false") as server:
        process = Commands(server.bootstrap).start(*words("on_loop", "nowhere"))
        until_said(process, "there is no topic 'nowhere': waiting until there is")
        process.send_signal(signal.SIGINT)
        assert finish(process).status == 130
