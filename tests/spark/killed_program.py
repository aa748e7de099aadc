"""A user's program that a test kills: reads a share group, writes each batch to a file of its own.

Arguments: bootstrap servers, topic (and group), folder, records per batch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import SETTINGS


def main(bootstrap: str, topic: str, folder: str, per_batch: str) -> None:
    sink = Path(folder) / "sink"
    sink.mkdir(exist_ok=True)

    def write(rows: DataFrame, batch_id: int) -> None:
        found = [row.value.decode() for row in rows.select("value").collect()]
        part = sink / f"{batch_id}.part"
        part.write_text("\n".join(found))
        os.replace(part, sink / f"{batch_id}.txt")

    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = (
        spark.readStream.format("kafka-share")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.group.id", topic)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", per_batch)
        .load()
    )
    query = (
        rows.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .foreachBatch(write)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
