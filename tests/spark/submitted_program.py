"""A user's program as ``spark-submit`` runs it, where the test's own packages are not: reads a
share group and writes down how many rows came.

Arguments: bootstrap servers, topic (and group), folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(bootstrap: str, topic: str, folder: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    rows = (
        spark.readStream.format("kafka-share")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.group.id", topic)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    writer = rows.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    rows_read = sum(progress.numInputRows for progress in query.recentProgress)
    Path(folder, "rows.txt").write_text(str(rows_read))


if __name__ == "__main__":
    main(*sys.argv[1:])
