"""A broker for the commands, and a fresh name for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.cli.command import Commands
from tests.servers.sharegroup_server import SharegroupServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer | KafkaBroker]:
    """Ours, or Apache Kafka with SHAREGROUP_TEST_BROKER=kafka: the commands work with both."""
    with new_server(tmp_path_factory.mktemp("broker")) as running:
        yield running


def new_server(folder: Path) -> SharegroupServer | KafkaBroker:
    kafka = os.environ.get("SHAREGROUP_TEST_BROKER") == "kafka"
    return KafkaBroker(folder) if kafka else SharegroupServer(folder)


@pytest.fixture
def commands(server: SharegroupServer | KafkaBroker) -> Commands:
    return Commands(server.bootstrap)


@pytest.fixture
def own_commands(tmp_path: Path) -> Iterator[Commands]:
    """Commands for a broker where nobody else has groups."""
    with new_server(tmp_path) as running:
        yield Commands(running.bootstrap)


@pytest.fixture
def name() -> str:
    """A name that no other test uses, for a topic or a group."""
    return f"cli-{next(_numbers)}"


@pytest.fixture
def topic(commands: Commands, name: str) -> str:
    """A fresh topic with two partitions."""
    commands.given("topics", "create", name, "--partitions", "2")
    return name
