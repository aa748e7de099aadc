"""Spark reads the same topic through a share group of its own, ``stats``: departures and mean delay
per origin, carrier and day.

The query reads everything that is there now and ends. The checkpoint remembers which records each
batch holds, so a batch that has to run again has the same records; in ``complete`` mode every batch
publishes the whole result, so publishing twice changes nothing. Each flight counts once.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from flights_demo.produce import TOPIC

GROUP = "stats"
SCHEMA = "origin STRING, carrier STRING, day DATE, dep_time INT, dep_delay INT"
LOCKS_PER_PARTITION = 10_000
SETTINGS = {
    # A job of seconds: compiling Java code thoroughly would cost more than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",  # little data: the default of 200 tasks would be all work
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session() -> SparkSession:
    """Spark inside this process, on two cores."""
    builder = SparkSession.builder.master("local[2]").appName("flights")
    return builder.config(map=dict(SETTINGS)).getOrCreate()


def statistics(spark: SparkSession, bootstrap: str) -> DataFrame:
    """The stream of records as a table of statistics."""
    records = (
        spark.readStream.format("kafka-share")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.group.id", GROUP)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        # Several batches on purpose, so that the kill falls into one; by default it is one here.
        .option("recordLocksPerPartition", LOCKS_PER_PARTITION)
        .load()
    )
    flight = f.from_json(f.col("value").cast("string"), SCHEMA)
    return (
        records.select(flight.alias("flight"))
        .select("flight.*")
        .groupBy("origin", "carrier", "day")
        .agg(f.count("dep_time").alias("departures"), f.mean("dep_delay").alias("mean_delay"))
    )


def main() -> None:
    """Read all that is there, and publish the result as Parquet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--output", required=True, help="folder of the Parquet files")
    arguments = parser.parse_args()

    def publish(rows: DataFrame, _batch_id: int) -> None:
        rows.coalesce(1).write.mode("overwrite").parquet(arguments.output)

    query = (
        statistics(session(), arguments.bootstrap)
        .writeStream.outputMode("complete")
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(publish)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
