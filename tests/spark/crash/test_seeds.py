"""Six seeds of the crash test; `make soak-spark` runs as many as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.crash.round import BROKER_OPTIONS, Round

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(1200)]

SEEDS = range(4)
"""One of each mode; `make soak-spark` runs as many as one likes."""
KAFKA_SEEDS = (110, 113)
"""Two modes: each seed takes half a minute. They share one JVM."""


@pytest.mark.xdist_group("seeds")
def test_nothing_is_lost_and_nothing_repeated(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path / "broker", *BROKER_OPTIONS) as server:
        assert Round(server, tmp_path / "round", SEEDS).run() == []


@pytest.mark.kafka
@pytest.mark.xdist_group("seeds on Kafka")
def test_on_apache_kafka(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "broker", *BROKER_OPTIONS) as server:
        assert Round(server, tmp_path / "round", KAFKA_SEEDS).run() == []
