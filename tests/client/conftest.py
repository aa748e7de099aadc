"""The two brokers that the client must work with: ours and Apache Kafka, each started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

BROKERS = [
    pytest.param(SharegroupServer, marks=pytest.mark.process, id="ours"),
    pytest.param(KafkaBroker, marks=pytest.mark.kafka, id="kafka"),
]


@pytest.fixture(scope="package", params=BROKERS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """A running broker."""
    with request.param(tmp_path_factory.mktemp("broker")) as server:
        yield server
