"""Sixteen seeds of the crash test; `make soak` runs as many as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.crash.round import BROKER_OPTIONS, Round

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(1200)]

SEEDS = 12  # `make soak` runs as many as one likes
SEEDS_PER_ROUND = 4  # one of each mode
KAFKA_SEEDS = (110, 111, 112, 113)
"""One for each mode. They share one JVM, whose start takes longer than anything that they do."""


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.xdist_group(f"seeds from {first}"))
        for first in range(0, SEEDS, SEEDS_PER_ROUND)
    ],
)
def test_nothing_is_lost_and_nothing_repeated(first: int, tmp_path: Path) -> None:
    with SharegroupServer(tmp_path / "broker", *BROKER_OPTIONS) as server:
        seeds = range(first, first + SEEDS_PER_ROUND)
        assert Round(server, tmp_path / "round", seeds).run() == []


@pytest.mark.kafka
@pytest.mark.xdist_group("seeds on Kafka")
def test_on_apache_kafka(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "broker", *BROKER_OPTIONS) as server:
        assert Round(server, tmp_path / "round", KAFKA_SEEDS).run() == []
