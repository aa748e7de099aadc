"""Spark's triggers with this source: which work, and what is said of those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.servers.admin import Admin, produce
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import source_options

pytestmark = pytest.mark.spark

WAIT_SECONDS = 400


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def rows(spark: SparkSession, broker: SharegroupServer, name: str) -> DataFrame:
    Admin(broker.bootstrap).create_topic(name, partitions=2)
    produce(broker.bootstrap, name, [b"%d" % n for n in range(100)])
    options = source_options(broker, name, maxAcquiredRecords="60", maxOffsetsPerTrigger="10")
    return spark.readStream.format("kafka-share").options(**options).load()


def test_once_is_one_batch_within_the_bounds(rows: DataFrame, tmp_path: Path) -> None:
    """Not those of ``maxOffsetsPerTrigger``, which Spark ignores then: the options say so."""
    counts: list[int] = []
    for _ in range(2):
        query = (
            rows.writeStream.trigger(once=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(lambda batch, _: counts.append(batch.count()))
            .start()
        )
        assert query.awaitTermination(WAIT_SECONDS)
        assert query.exception() is None
    assert counts == [60, 40]


@pytest.mark.parametrize(
    ("trigger", "sentence"),
    [
        ({"continuous": "1 second"}, "does not support continuous processing"),
        ({"realTime": "5 seconds"}, "REAL_TIME"),
    ],
)
def test_triggers_of_java_sources_are_refused(
    rows: DataFrame, tmp_path: Path, trigger: dict[str, Any], sentence: str
) -> None:
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(PySparkException, match=sentence):
        writer.trigger(**trigger).start().awaitTermination(WAIT_SECONDS)
