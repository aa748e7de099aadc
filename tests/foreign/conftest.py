"""The broker under test, and a fresh topic and group for each test."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.in_front import InFrontOfKafka
from tests.apache_kafka.tools import KafkaTools
from tests.foreign.tool_shell import Printed, Tool, ToolShell
from tests.servers.admin import Admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

# Kafka refuses locks under 15 s unless the broker allows them.
OPTIONS = ("group.share.min.record.lock.duration.ms=1000",)

NewServer = Callable[[Path], RunningServer]


def new_server(folder: Path) -> SharegroupServer | KafkaBroker | InFrontOfKafka:
    """A server that is not started yet: ours, or the one that SHAREGROUP_TEST_BROKER asks for:
    ``kafka``, ``fleet`` for two of ours in front of it, or ``moving`` for two of ours that lead by
    turns."""
    wanted = os.environ.get("SHAREGROUP_TEST_BROKER")
    if wanted in ("fleet", "moving"):
        return InFrontOfKafka(folder, *OPTIONS, nodes=2, moving=wanted == "moving")
    return (
        KafkaBroker(folder, *OPTIONS) if wanted == "kafka" else SharegroupServer(folder, *OPTIONS)
    )


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One running broker for all tests that do not stop or kill it."""
    with new_server(tmp_path_factory.mktemp("broker")) as server:
        yield server


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[RunningServer]:
    """A running broker for one test, which may stop it, kill it and start it again."""
    with new_server(tmp_path) as server:
        yield server


@pytest.fixture
def admin(broker: RunningServer) -> Admin:
    return Admin(broker.bootstrap)


@pytest.fixture
def tools(broker: RunningServer) -> KafkaTools:
    return KafkaTools(broker.bootstrap)


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("classes")) as running:
        yield running


@pytest.fixture
def run(broker: RunningServer, shell: ToolShell) -> Tool:
    """Run one of Kafka's tools against the broker."""
    return lambda tool, *words: shell.run(tool, broker.bootstrap, *words)


@pytest.fixture
def printed(run: Tool) -> Printed:
    """What a tool that must succeed printed."""

    def printed(tool: str, *words: str) -> str:
        ran = run(tool, *words)
        assert ran.status == 0, ran
        return ran.stdout

    return printed


_numbers = itertools.count(1)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, for a topic or a group."""
    return f"{re.sub(r'[^a-z0-9]+', '-', request.node.name.lower()).strip('-')}-{next(_numbers)}"


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    """A fresh topic with one partition."""
    admin.create_topic(name)
    return name


@pytest.fixture
def group(admin: Admin, name: str) -> str:
    """The name of a fresh share group that starts at the first record."""
    admin.start_group_at_earliest(name)
    return name
