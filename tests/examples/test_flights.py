"""The demo as a user runs it, with a part of the flights."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The demo, with its output in ``folder/out`` and its data in ``folder/data``."""
    command = [sys.executable, "-u", str(ROOT / "examples" / "flights.py"), "--quick", *arguments]
    command += ["--output", str(folder / "out"), "--data", str(folder / "data")]
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, *arguments: str) -> str:
    """Run the demo to its end; what it printed."""
    with start(folder, *arguments) as demo:
        printed, _ = demo.communicate()
    assert demo.returncode == 0, printed
    return printed


def address(printed: str) -> tuple[str, int]:
    found = re.search(r"ready on (\S+):(\d+)", printed)
    assert found is not None, printed
    return found[1], int(found[2])


@pytest.mark.process
def test_every_flight_has_the_right_outcome_after_the_kills(tmp_path: Path) -> None:
    printed = run(tmp_path, "--no-spark")
    assert "✗" not in printed
    assert "kill -9 consumer-1" in printed
    assert "the broker is back" in printed
    assert re.search(r"accepted +20,532 +20,532 +✓", printed)
    assert (tmp_path / "out" / "flights.png").read_bytes().startswith(PNG)


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_spark_answers_each_flight_once_despite_kills_of_it_and_the_broker(
    tmp_path: Path,
) -> None:
    printed = run(tmp_path)
    assert "✗" not in printed
    assert "kill -9 Spark" in printed
    assert re.search(r"twice in the tables +0 +0 +✓", printed)
    assert re.search(r"departures +20,532 +20,532 +✓", printed)


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_no_process_is_left_after_a_stop(number: signal.Signals, tmp_path: Path) -> None:
    with start(tmp_path, "--no-spark") as demo:
        assert demo.stdout is not None
        printed = demo.stdout.readline()
        demo.send_signal(number)
        rest, _ = demo.communicate(timeout=240)
    assert demo.returncode == 130, printed + rest
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address(printed), timeout=60)


def test_a_data_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").touch()
    with start(tmp_path) as demo:
        printed, _ = demo.communicate()
    assert demo.returncode == 2
    assert "is not empty" in printed
