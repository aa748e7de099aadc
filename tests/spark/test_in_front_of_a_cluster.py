"""A query on a broker in front of a cluster that has the records."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import source_options

pytestmark = [pytest.mark.process, pytest.mark.spark]
RECORDS = 100


def test_a_query_works_off_records_of_the_cluster(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    folders = [tmp_path / "cluster", tmp_path / "node"]
    for folder in folders:
        folder.mkdir()
    with (
        SharegroupServer(folders[0]) as cluster,
        SharegroupServer(folders[1], arguments=["--upstream", cluster.bootstrap]) as node,
    ):
        admin.Admin(cluster.bootstrap).create_topic(name, partitions=2)
        admin.produce(cluster.bootstrap, name, [b"%d" % number for number in range(RECORDS)])
        stream = spark.readStream.format("kafka-share").options(**source_options(node, name)).load()
        query = (
            stream.selectExpr("INT(STRING(value)) AS number")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "rows"))
        )
        query.awaitTermination(120)
        rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted(row.number for row in rows) == [*range(RECORDS)]
