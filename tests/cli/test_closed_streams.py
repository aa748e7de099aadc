"""`sharegroup …` without a standard input, output or error, as some supervisors start a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sharegroup.sasl.users_file import user_lines
from tests.cli.command import SECONDS, Finished
from tests.servers.process import HOST, ServerProcess, answers_api_versions, free_port
from tests.servers.sharegroup_server import SOURCE, START_SECONDS

pytestmark = pytest.mark.process
ENVIRONMENT = {"PYTHONPATH": str(SOURCE)}


def command(closed: str, *words: str) -> list[str]:
    return ["bash", "-c", f'exec "$@" {closed}', "bash", sys.executable, "-m", "sharegroup", *words]


def run(closed: str, *words: str) -> Finished:
    done = subprocess.run(
        command(closed, *words),
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        text=True,
    )
    return Finished(status=done.returncode, stdout=done.stdout, stderr=done.stderr)


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "<&-", ">&- 2>&-"])
def test_serve_stops_in_order(tmp_path: Path, closed: str) -> None:
    port = free_port()
    words = ("serve", "--listen", f"{HOST}:{port}", "--data", str(tmp_path / "data"))
    server = ServerProcess(
        command(closed, *words), log_path=tmp_path / "log", environment=ENVIRONMENT
    )
    server.start()
    try:
        server.wait_until(lambda: answers_api_versions(port), timeout_s=START_SECONDS)
        assert server.stop() == 0
    finally:
        server.kill()


def test_without_output(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("\n".join(user_lines("alice", "secret", bytes(48), 4096)))
    done = run(">&-", "users", "list", "--file", str(users))
    assert done == Finished(status=0, stdout="", stderr="")


def test_without_error_no_error_is_taken_for_output(tmp_path: Path) -> None:
    done = run("2>&-", "users", "list", "--file", str(tmp_path / "nowhere"), "--json")
    assert done == Finished(status=2, stdout="", stderr="")


def test_without_input_there_is_none(tmp_path: Path) -> None:
    done = run("<&-", "users", "create", "alice", "--file", str(tmp_path / "users"))
    said = "sharegroup: the password is empty\n"
    assert done == Finished(status=2, stdout="", stderr=said)
