"""A test that breaks Spark fails; those after it get a session that works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Spark breaks as it has happened: a time limit comes during a call. The report of a test with a
# DataFrame asks the JVM again.
TESTS = """
import signal, pytest

def too_late(*_):
    pytest.fail("Timeout")

@pytest.fixture(scope="module")
def table(spark):
    return spark.range(3)

@pytest.fixture
def late():
    signal.signal(signal.SIGALRM, too_late)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)

def test_1_stopped_in_a_call(late, spark, table):
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    spark._jvm.java.lang.Thread.sleep(3_600_000)

def test_2_goes_on(spark, table):
    assert table.count() == 3

def test_3_fails_and_breaks_nothing(spark):
    KEPT.append(spark.sparkContext._gateway)
    assert False

KEPT = []

def test_4_keeps_its_session(spark, table):
    assert KEPT == [spark.sparkContext._gateway]
    assert table.count() == 3
"""
NEXT_FILE = """
def test_2_goes_on_too(spark):
    assert spark.range(3).count() == 3
"""
pytestmark = pytest.mark.spark


def test_a_broken_session_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text(TESTS)
    (tmp_path / "test_small_too.py").write_text(NEXT_FILE)
    shown = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-rA", "--rootdir", tmp_path),
            *("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "tests.conftest"),
            *("-p", "tests.spark.conftest", "--import-mode=prepend", tmp_path),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    ended = {
        line.split("::")[1].split()[0]: line.split()[0]
        for line in shown.stdout.splitlines()
        if "::" in line and line.split()[0] in {"PASSED", "FAILED", "ERROR"}
    }
    assert ended == {
        "test_1_stopped_in_a_call": "FAILED",
        "test_2_goes_on": "PASSED",
        "test_3_fails_and_breaks_nothing": "FAILED",
        "test_4_keeps_its_session": "PASSED",
        "test_2_goes_on_too": "PASSED",
    }, shown.stdout
