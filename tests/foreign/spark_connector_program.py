"""Spark's own source and sink for Kafka at work. Prints what came of it, as JSON in the last line.

Arguments: bootstrap servers, folder, and a list of jars with commas between them. The topics `in`
and `out` are there and empty.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}


class Work:
    """The steps of the program, on one session."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: str) -> None:
        self._spark = spark
        self._server = {"kafka.bootstrap.servers": bootstrap}
        self._folder = folder

    def write(self, topic: str, first: int, end: int) -> None:
        """A batch: numbers as keys, and as values with a letter before them; one header."""
        rows = self._spark.range(first, end).selectExpr(
            "CAST(id AS string) AS key",
            "concat('v', id) AS value",
            "array(struct('from' AS key, CAST('spark' AS binary) AS value)) AS headers",
        )
        writer = rows.write.format("kafka").options(**self._server)
        writer.option("includeHeaders", "true").save(topic=topic)

    def read(self, topic: str, **options: str) -> DataFrame:
        reader = self._spark.read.format("kafka").options(**self._server, **options)
        return reader.option("subscribe", topic).load()

    def copy(self, **options: str) -> list[dict[str, Any]]:
        """A stream from one topic into the other, up to the end; its progress, batch by batch."""
        reader = self._spark.readStream.format("kafka").options(**self._server, **options)
        rows = reader.option("subscribe", "in").option("startingOffsets", "earliest").load()
        writer = rows.select("key", "value").writeStream.format("kafka").options(**self._server)
        writer = writer.option("checkpointLocation", f"{self._folder}/checkpoint")
        query = writer.option("topic", "out").trigger(availableNow=True).start()
        query.awaitTermination()
        return [
            {"rows": progress.numInputRows, "end": json.loads(progress.sources[0].endOffset)}
            for progress in query.recentProgress
        ]


def values(rows: DataFrame) -> list[str]:
    found = rows.selectExpr("CAST(value AS string) AS value").collect()
    return sorted(row["value"] for row in found)


def main(bootstrap: str, folder: str, jars: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    work = Work(spark, bootstrap, folder)
    told: dict[str, Any] = {"spark": spark.version}

    work.write("in", 0, 100)
    told["batch"] = values(work.read("in"))
    headers = "headers[0].key AS header", "CAST(headers[0].value AS string) AS said"
    rows = work.read("in", includeHeaders="true").selectExpr(
        "topic", "partition", "offset", *headers
    )
    told["rows"] = [row.asDict() for row in rows.collect()]
    first, last = '{"in": {"0": 3, "1": 0}}', '{"in": {"0": 5, "1": 0}}'
    told["range"] = work.read("in", startingOffsets=first, endingOffsets=last).count()
    told["split"] = work.read("in", minPartitions="6").rdd.getNumPartitions()
    told["after"] = work.read("in", startingTimestamp="4000000000000", **LATEST).count()
    told["streams"] = [work.copy(maxOffsetsPerTrigger="60")]
    work.write("in", 100, 107)
    told["streams"].append(work.copy())
    told["copied"] = values(work.read("out"))
    spark.stop()
    sys.stdout.write(f"{json.dumps(told)}\n")


# A timestamp after every record means the end of the partition.
LATEST: Mapping[str, str] = {"startingOffsetsByTimestampStrategy": "latest"}

if __name__ == "__main__":
    main(*sys.argv[1:])
