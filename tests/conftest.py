"""How the whole suite runs: fast tests first, repeatable, and in CI nothing skipped unseen.

Stages, in this order: unmarked (milliseconds each), ``process``, ``kafka``, ``spark``. Within a
stage the order is random: ``--randomly-seed=N`` repeats a run, ``-p no:randomly`` keeps the
order of the files. ``make test`` runs several workers (pytest-xdist) with ``--dist=loadgroup``:
the tests of one file and stage stay together on one worker, so that they share their fixtures,
unless they name a group of their own (`xdist_group`). The files of a folder follow each other,
since they share its broker; all tests with the fixture ``spark`` are on one worker and share a JVM.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import family
from tests.spark import quick_start

# Seconds that one test of a stage may take; a test may say more with its own timeout mark. They
# only end what hangs: with a load of 30 on two cores a test takes fifteen times as long.
STAGES = {"process": 400, "kafka": 900, "spark": 900}

DESCRIPTORS_MAX = 300

ONE_JVM = "one JVM"
"""The group of all tests with the fixture ``spark``: the longest of all."""

settings.register_profile(
    "fast",
    max_examples=50,
    deadline=None,  # a busy machine is not a failure
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", max_examples=2_000, deadline=None, print_blob=True, database=None
)
settings.load_profile("fast")  # --hypothesis-profile=thorough wins over this

# Before anything is started.
family.begin()

# Byte code is kept, also where the machine's environment says otherwise: each command and server
# that a test starts would compile all of our sources again, and each worker all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts its background jobs with SIGINT ignored. The commands that tests start would
# inherit that; at a terminal they do not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Spark starts its workers with the `python3` of the PATH unless it is told ours.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
# Spark gives these options to its JVM, and to no other.
os.environ.setdefault("SPARK_SUBMIT_OPTS", quick_start.SHORT_LIVED)


def stage_of(item: pytest.Item) -> int:
    """0 for a fast test, then 1 and up in the order of STAGES; the slowest mark counts."""
    marks = {mark.name for mark in item.iter_markers()}
    return max((at for at, name in enumerate(STAGES, start=1) if name in marks), default=0)


def group_of(item: pytest.Item) -> str:
    """What the tests that stay together have in common: a JVM, or their file."""
    has_session = "spark" in getattr(item, "fixturenames", ())
    return ONE_JVM if has_session else item.path.name


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Bring the stages in order (within one, the shuffle stays) and limit each test.

    The groups are named first, since pytest-xdist's own hook reads them. It also renames each test,
    and a test's hash is that of its name.
    """
    shared = [item for item in items if item.get_closest_marker("xdist_group") is None]
    for item in shared:
        item.add_marker(pytest.mark.xdist_group(f"{stage_of(item)}:{group_of(item)}"))
    short = {id(item) for item in shared}
    yield
    folders = list(dict.fromkeys(item.path.parent for item in items))  # in their random order
    if config.getoption("loadgroup", False) and not all("@" in item.nodeid for item in items):
        raise pytest.UsageError(
            "pytest-xdist does not group the tests with this pytest: every worker would start every"
            " module's Spark and Kafka. Install the versions of requirements.lock (`make setup`)."
        )
    # The one JVM takes longest, and groups of their own take long: they begin early. Kafka's tests
    # of a stage come after the others: a file that runs on both brokers would start one anew for
    # each change between them.
    items.sort(
        key=lambda item: (
            stage_of(item),
            group_of(item) != ONE_JVM,
            id(item) in short,
            item.get_closest_marker("kafka") is not None,
            folders.index(item.path.parent),
        )
    )
    limits = [0, *STAGES.values()]
    for item in items:
        limit = limits[stage_of(item)]
        if limit and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(limit))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over what stays until the end: ten thousand tests and what
    they import are half a million objects, a third of a second each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before the fixtures, one of which may start Spark
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let Spark's JVM start from an archive of its classes, which the first of its tests makes."""
    unchanged = os.environ["SPARK_SUBMIT_OPTS"] == quick_start.SHORT_LIVED
    if unchanged and item.get_closest_marker("spark") is not None:
        os.environ["SPARK_SUBMIT_OPTS"] = quick_start.options(quick_start.installed_pyspark())


def no_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """With SHAREGROUP_NO_SKIP=1 a skip fails: CI has all that the tests need, or fetches it. What
    it could not fetch is the one reason in SHAREGROUP_MAY_SKIP."""
    if os.environ.get("SHAREGROUP_NO_SKIP") != "1" or not report.skipped:
        return
    may_skip = os.environ.get("SHAREGROUP_MAY_SKIP")
    if hasattr(report, "wasxfail") or (may_skip and may_skip in str(report.longrepr)):
        return
    report.outcome = "failed"
    report.longrepr = f"skipped although SHAREGROUP_NO_SKIP=1: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a test into a failure."""
    report = yield
    no_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn the skip of a whole file into a failure."""
    report = yield
    no_skip(report)
    return report


@pytest.fixture(scope="session", autouse=True)
def few_descriptors() -> Iterator[None]:
    """Whatever a test opens is closed. A leak shows far from its test: with 1,024 open descriptors
    `select()` refuses the next one, and Spark waits for a callback that nobody takes."""
    yield
    gc.collect()
    kinds = Counter(
        re.sub(r"[0-9]+", "N", os.readlink(link))
        for link in Path("/proc/self/fd").iterdir()
        if link.is_symlink()
    )
    assert kinds.total() < DESCRIPTORS_MAX, kinds.most_common(8)


class FailuresAtOnce:
    """Names a failed test when it fails: a run that is cut off never comes to its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._plugins.get_plugin("terminalreporter")  # none in a worker
        if terminal is None or not report.failed:
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        said = str(crash.message if crash else report.longrepr).partition("\n")[0][:300]
        terminal.write_line(
            f"\nFAILED {report.nodeid} ({report.when}, {report.duration:.0f} s): {said}"
        )


def pytest_configure(config: pytest.Config) -> None:
    """Tell of failures at once."""
    config.pluginmanager.register(FailuresAtOnce(config))
