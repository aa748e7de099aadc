"""`make bench` that is interrupted or killed leaves no broker, and shows what it has measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from benchmarks.systems import OURS
from tests.servers import family

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 240
ENDLESS = 100_000
"""Rounds of the row that is quickest to start its broker."""

pytestmark = pytest.mark.process


def brokers(name: str) -> list[int]:
    return [
        process
        for process in family.members(name)
        if b"\0serve\0" in Path(f"/proc/{process}/cmdline").read_bytes()
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays(number: int, tmp_path: Path) -> None:
    name = f"{os.environ[family.VARIABLE]}/bench"
    output = tmp_path / "output"
    with output.open("wb") as file:
        bench = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks", "--only", "start", "--system", OURS),
                *("--rounds", str(ENDLESS), "--quick"),
            ],
            cwd=ROOT,
            env={**os.environ, family.VARIABLE: name},
            stdout=file,
            stderr=file,
        )
    try:
        deadline = monotonic() + SECONDS
        while not brokers(name):
            assert bench.poll() is None, output.read_text()
            assert monotonic() < deadline, output.read_text()
            Event().wait(0.02)
        bench.send_signal(number)
        status = bench.wait(SECONDS)
        while list(family.members(name)):
            assert monotonic() < deadline, output.read_text()
            Event().wait(0.02)
    finally:
        family.end(name)
        bench.wait()
    if number == signal.SIGINT:
        assert status == 130, output.read_text()
        assert f"median of at most {ENDLESS}" in " ".join(output.read_text().split())
        assert "Traceback" not in output.read_text()
