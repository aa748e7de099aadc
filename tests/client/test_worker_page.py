"""docs/worker.md tells the truth: its programs print what it says, its figures are all of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sharegroup.client.worker.metrics import WorkerMetrics
from sharegroup.testing import broker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "worker.md").read_text()
PROGRAMS = re.findall(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_every_program_is_found() -> None:
    assert len(PROGRAMS) == PAGE.count("```python") - PAGE.count("<!-- file: ") == 3


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program(number: int, tmp_path: Path) -> None:
    text, printed = PROGRAMS[number]
    program = tmp_path / "program.py"
    with broker() as kafka:
        program.write_text(text.replace("127.0.0.1:9092", kafka.bootstrap))
        done = subprocess.run(
            [sys.executable, str(program)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_every_figure_is_on_the_page() -> None:
    names = {
        name
        for _, name in WorkerMetrics(lambda: 0.0).read(
            slots=1, running=0, waiting=0, resting=0, resting_at_broker=0, kept=0
        )
    }
    rows = PAGE.partition("## Figures")[2]
    assert (
        set(
            re.findall(
                r"`([a-z-]+-(?:total|slots|flight|avg|max|broker)|waiting|resting|kept)`", rows
            )
        )
        == names
    )
