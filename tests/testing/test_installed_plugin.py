"""What pip installs of ``sharegroup.testing`` into somebody's pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.process


def run_pytest(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """pytest as a user starts it: no configuration but what pip has installed."""
    (folder / "test_example.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
    )


def test_the_plugin_costs_nothing_until_a_test_asks(tmp_path: Path) -> None:
    text = """
import sys

def test_nothing_is_loaded():
    assert "sharegroup.testing.pytest_plugin" in sys.modules
    assert "sharegroup.broker" not in sys.modules
"""
    done = run_pytest(tmp_path, text)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_fixture_is_listed_with_its_sentence(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "def test_one(): pass\n", "--fixtures")
    assert "sharegroup_broker" in done.stdout
    assert "A fresh broker for this test" in done.stdout
