"""Brokers and a Spark session for tests of whole queries."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sharegroup.client import Admin
from sharegroup.spark.task.fetch import close_idle_connections
from tests.apache_kafka.broker import KafkaBroker
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark import session

LONG_LOCKS = "group.share.max.record.lock.duration.ms=3600000"
"""Which a group may have: no test may fail because it was slow."""
BROKEN = pytest.StashKey[bool]()
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test-older-spark` sets SHAREGROUP_SPARK: the version to take in place of the newest."""
    if "SHAREGROUP_SPARK" not in os.environ:
        items[:] = [one for one in items if one.get_closest_marker("older_spark") is None]


@pytest.fixture(scope="session", autouse=True)
def idle_connections_closed() -> Iterator[None]:
    """The connections that a worker process keeps between tasks, where the tests are the worker."""
    yield
    close_idle_connections()


@pytest.fixture(
    scope="package",
    params=[
        pytest.param(SharegroupServer, id="sharegroup"),
        pytest.param(KafkaBroker, id="kafka", marks=pytest.mark.kafka),
    ],
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """A running broker: ours, and Apache Kafka."""
    with request.param(tmp_path_factory.mktemp("broker"), LONG_LOCKS) as running:
        yield running


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    running = session.start()
    yield running
    session.stop(running)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the next test a new session when this one has broken it.

    Looked at before there is a report: that shows DataFrames, which ask the JVM, without a limit.
    """
    if call.excinfo is not None and "spark" in item.fixturenames and not session.is_sound():
        session.throw_away()
        item.stash[BROKEN] = True
    report = yield
    if call.when == "teardown" and item.stash.get(BROKEN, False):
        for fixture in item._fixtureinfo.name2fixturedefs["spark"]:
            fixture.finish(item._request)  # and those that were made of it
    return report


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, for a topic and its group."""
    return f"{re.sub(r'[^a-z0-9]+', '-', request.node.name.lower()).strip('-')}-{next(_numbers)}"


@pytest.fixture
def topic(server: RunningServer, name: str) -> str:
    """A fresh topic with four partitions."""
    admin.Admin(server.bootstrap).create_topic(name, partitions=4)
    return name


def source_options(server: RunningServer, topic: str, **more: str) -> dict[str, str]:
    """Options of a stream over ``topic`` by a group of the same name, from the first record on."""
    return {
        "kafka.bootstrap.servers": server.bootstrap,
        "kafka.group.id": topic,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **more,
    }


def lags(server: RunningServer, group: str) -> list[int | None]:
    """How many records of each partition the group has not done yet, as the broker says."""

    async def ask() -> list[int | None]:
        async with Admin(server.bootstrap) as admin:
            known = await admin.list_share_group_offsets(group)
            return [state.lag for state in known.values()]

    return asyncio.run(ask())


def all_done(server: RunningServer, group: str) -> bool:
    """Whether no record is left. A partition that never held one has no lag."""
    found = set(lags(server, group))
    return 0 in found and found <= {0, None}


def wait_for(folder: Path, pattern: str, count: int, seconds: float = 400) -> None:
    """Return when ``folder`` has so many entries; raises TimeoutError."""

    deadline = time.monotonic() + seconds
    while len(list(folder.glob(pattern))) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{folder}/{pattern}: fewer than {count} after {seconds} s")
        threading.Event().wait(0.01)
