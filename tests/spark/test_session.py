"""A test that breaks Spark fails; those after it get a session that works."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Spark breaks as it has happened: a time limit comes during a call, and during a set-up. The report
# of a test with a DataFrame asks the JVM again.
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
import signal
from test_small import late, too_late

def test_0_stopped_again(late, spark):
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    spark._jvm.java.lang.Thread.sleep(3_600_000)

def test_1_stopped_in_the_set_up(spark):
    assert False, "its limit did not come"

def test_2_goes_on_too(spark):
    assert spark.range(3).count() == 3
"""
# The limit comes when the JVM has been asked for its context, and before the answer is read. After
# a test that was stopped in a call there never is an answer, so it need not be waited for.
CONFTEST = """
import sys, pytest
from tests.spark import session

def stop_in_the_set_up(frame, event, called):
    if event == "c_call" and called.__name__ == "readline":
        while frame is not None and frame.f_code.co_name != "_initialize_context":
            frame = frame.f_back
        if frame is not None:
            sys.setprofile(None)
            pytest.fail("Timeout in the set-up")

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    session.ANSWER_S = 1 if "_stopped_" in item.name else 60
    if item.name == "test_1_stopped_in_the_set_up":
        sys.setprofile(stop_in_the_set_up)
"""
BOUND_S = 800
pytestmark = pytest.mark.spark


def bounded(command: Sequence[str | Path], folder: Path) -> str:
    """What ``command`` prints until it ends, or is killed with all that it started.

    A file takes it: a JVM that is left holds a pipe open, and its reader would wait for ever.
    """
    printed = folder / "printed.txt"
    with printed.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            child.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"not over after {BOUND_S} s:\n{printed.read_text()}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return printed.read_text()


def test_a_broken_session_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text(TESTS)
    (tmp_path / "test_small_too.py").write_text(NEXT_FILE)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    command = [
        *(sys.executable, "-m", "pytest", "-rA", "--rootdir", tmp_path),
        *("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "tests.conftest"),
        *("-p", "tests.spark.conftest", "--import-mode=prepend", tmp_path),
    ]
    shown = bounded(command, tmp_path)
    ended = {
        line.split("::")[1].split()[0]: line.split()[0]
        for line in shown.splitlines()
        if "::" in line and line.split()[0] in {"PASSED", "FAILED", "ERROR"}
    }
    assert "Timeout in the set-up" in shown
    assert ended == {
        "test_1_stopped_in_a_call": "FAILED",
        "test_2_goes_on": "PASSED",
        "test_3_fails_and_breaks_nothing": "FAILED",
        "test_4_keeps_its_session": "PASSED",
        "test_0_stopped_again": "FAILED",
        "test_1_stopped_in_the_set_up": "ERROR",
        "test_2_goes_on_too": "PASSED",
    }, shown
