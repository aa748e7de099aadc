"""--bootstrap-server anywhere on the line, what Tab completes, and brokers that do not answer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from tests.cli.command import SECONDS, Commands, finish
from tests.servers.gate import Gate
from tests.servers.process import HOST

pytestmark = pytest.mark.process

NOWHERE = Commands("127.0.0.1:1")


@pytest.mark.parametrize(
    "line",
    [
        "-b {} topics list --json",
        "--bootstrap-server={} topics list --json",
        "topics -b {} list --json",
        "topics list --json -b {}",
        "-b 127.0.0.1:2 topics list --json -b {}",
    ],
)
def test_bootstrap_server_anywhere(commands: Commands, topic: str, line: str) -> None:
    listed = NOWHERE.ok(*line.format(commands.bootstrap).split())  # it wins over the environment
    assert topic in {one["topic"] for one in listed.json}


def completed(bootstrap: str, line: str) -> list[str]:
    """What bash is told when Tab is pressed at the end of ``line``."""
    done = subprocess.run(
        [sys.executable, "-m", "sharegroup"],
        env={
            **os.environ,
            "SHAREGROUP_BOOTSTRAP_SERVER": bootstrap,
            "_SHAREGROUP_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_tab_completes_topics_and_groups(commands: Commands, topic: str) -> None:
    move = ("groups", "reset-offsets", topic, "-t", topic, "--to-earliest", "--execute")
    assert commands.inside(*move).status == 0
    part = topic[:-1]
    for line in (
        f"sharegroup topics describe {part}",
        f"sharegroup produce {part}",
        f"sharegroup consume t --group {part}",
        f"sharegroup work jobs:handle --topic {part}",
        f"sharegroup work jobs:handle --topic t --group {part}",
        f"sharegroup work jobs:handle --topic t --group g --dead-letter {part}",
        f"sharegroup groups describe {part}",
    ):
        assert topic in completed(commands.bootstrap, line), line
    before = f"sharegroup -b {commands.bootstrap} topics describe {part}"
    assert topic in completed(NOWHERE.bootstrap, before)


def test_tab_is_silent_without_a_broker() -> None:
    assert completed(NOWHERE.bootstrap, "sharegroup topics describe ") == []
    assert "describe" in completed(NOWHERE.bootstrap, "sharegroup topics d")
    with socket.create_server((HOST, 0)) as silent:
        address = f"{HOST}:{silent.getsockname()[1]}"
        assert completed(address, "sharegroup groups describe ") == []


def test_an_unreachable_server_is_reported_in_one_sentence() -> None:
    started = [
        NOWHERE.start(*line.split())
        for line in (
            "topics list",
            "produce t",
            "consume t -g g",
            "consume t --peek",
            "groups describe g --watch",
        )
    ]
    for process in started:
        done = finish(process)
        assert (done.status, done.stdout) == (3, "")
        # On a busy machine the first look may run out of time; another sentence says so then.
        *before, last = done.stderr.splitlines()
        assert last.startswith("sharegroup: no broker could be reached at 127.0.0.1:1 ")
        assert "refused" in last or "Connect call failed" in last
        assert all("no answer yet" in line for line in before)


def test_a_server_that_is_silent_at_first_is_waited_for(commands: Commands, topic: str) -> None:
    """As one that is far away: connections to it are not refused, and not accepted for a while."""
    gate = Gate()
    gate.target = int(commands.bootstrap.rpartition(":")[2])
    gate._listener.listen(0)
    waiting = [socket.socket() for _ in range(3)]
    for one in waiting:  # the line of those who wait to be accepted is full: no more are answered
        one.setblocking(False)
        one.connect_ex((HOST, gate.port))
    process = Commands(f"{HOST}:{gate.port}").start("topics", "list", "--json")
    assert process.stderr is not None
    said = process.stderr.readline().decode()
    assert said == f"sharegroup: {HOST}:{gate.port}: no answer yet; waiting for up to 10 s\n"
    with gate:
        done = finish(process)
    for one in waiting:
        one.close()
    assert (done.status, done.stderr) == (0, "")
    assert topic in {one["topic"] for one in done.json}


def test_a_port_forwarder_without_a_broker_is_reported() -> None:
    with socket.create_server((HOST, 0)) as forwarder:
        forwarder.settimeout(SECONDS)
        address = f"{HOST}:{forwarder.getsockname()[1]}"
        process = Commands(address).start("topics", "list")
        while process.poll() is None:
            try:
                forwarder.settimeout(0.1)
                with forwarder.accept()[0] as connection:
                    connection.recv(1_000)
            except TimeoutError:
                continue
        done = finish(process)
    assert done.status == 3
    assert done.stderr.startswith(f"sharegroup: no broker could be reached at {address} (")
    assert "set security.protocol to SSL or SASL_SSL in the file of --command-config" in done.stderr


def test_a_group_that_does_not_exist(commands: Commands, name: str) -> None:
    done = commands.inside("groups", "records", name)
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("sharegroup: GROUP_ID_NOT_FOUND: ")
