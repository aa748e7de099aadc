"""A cluster that has the records, and a broker in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer


@pytest.fixture(
    scope="package",
    params=[
        pytest.param(SharegroupServer, id="sharegroup"),
        pytest.param(KafkaBroker, id="kafka", marks=pytest.mark.kafka),
    ],
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("cluster")
    with request.param(folder, "group.initial.rebalance.delay.ms=0") as running:
        yield running


@pytest.fixture(scope="module")
def node(
    cluster: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharegroupServer]:
    with SharegroupServer(
        tmp_path_factory.mktemp("node"), arguments=["--upstream", cluster.bootstrap]
    ) as running:
        yield running
