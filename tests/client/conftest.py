"""The two brokers that the client must work with: ours and Apache Kafka, each started once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

# Apache Kafka assigns a new member its partitions at its second heartbeat: after five seconds.
QUICK = (
    "group.share.min.heartbeat.interval.ms=500",
    "group.share.heartbeat.interval.ms=500",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
)


def quick_kafka(folder: Path) -> KafkaBroker:
    """Apache Kafka where a consumer's first record comes soon."""
    return KafkaBroker(folder, *QUICK)


BROKERS = [
    pytest.param(SharegroupServer, marks=pytest.mark.process, id="ours"),
    pytest.param(quick_kafka, marks=pytest.mark.kafka, id="kafka"),
]


@pytest.fixture(scope="package", params=BROKERS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """A running broker."""
    with request.param(tmp_path_factory.mktemp("broker")) as server:
        yield server


@pytest.fixture(scope="package")
def group_broker(broker: RunningServer) -> RunningServer:
    """A running broker with consumer groups and transactions: every broker has them."""
    return broker
