"""The example of what becomes of records, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.test_flights import PNG, ROOT


@pytest.mark.process
def test_each_payment_is_handled_once(tmp_path: Path) -> None:
    picture = tmp_path / "ways.png"
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "queue_life.py"), "--output", str(picture)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "23 payments: 23 handled" in done.stdout
    assert "3 became dead letters, and were redriven" in done.stdout
    assert picture.read_bytes().startswith(PNG)
