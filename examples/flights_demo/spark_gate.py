"""Spark as a worker of the queue: the share group ``gate``, with an answer for every flight.

Departures go into one table and are accepted. Cancelled flights go into another and are rejected.
Very late ones are released when they come for the first time. The tables have one folder per
batch: a batch that runs again has the same flights and replaces its own folders, so each flight is
in them once, whatever is killed. At the end (SIGTERM) the statistics are made from the table.
"""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from flights_demo.produce import TOPIC
from sharegroup.spark import acknowledge

GROUP = "gate"
SCHEMA = "id INT, origin STRING, carrier STRING, day DATE, dep_time INT, dep_delay INT"
VERY_LATE_MINUTES = 300
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


def flights(spark: SparkSession, bootstrap: str, answers: Path, per_batch: int) -> DataFrame:
    """The stream of flights, with the decision about each in the column ``ack``."""
    source = {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.group.id": GROUP,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "ackLocation": str(answers),
        "maxOffsetsPerTrigger": str(per_batch),
    }
    flight = f.from_json(f.col("value").cast("string"), SCHEMA).alias("flight")
    put_back = (f.col("dep_delay") >= VERY_LATE_MINUTES) & (f.col("delivery_count") == 1)
    verdict = f.when(f.col("dep_time").isNull(), "reject").when(put_back, "release")
    return (
        spark.readStream.format("kafka-share")
        .options(**source)
        .load()
        .select("topic", "partition", "offset", "delivery_count", flight)
        .select("*", "flight.*")
        .drop("flight")
        .withColumn("ack", verdict.otherwise("accept"))
    )


class Tables:
    """The sink: one folder per batch, in it one per answer, in it the flights."""

    def __init__(self, folder: Path, answers: Path) -> None:
        self._folder = folder
        self._answers = answers

    def keep(self, decided: DataFrame, batch_id: int) -> None:
        """Write the flights, then acknowledge them: every accepted flight is in the table."""
        decided.persist()  # used twice, read once
        final = decided.where("ack != 'release'").write.partitionBy("ack").mode("overwrite")
        final.parquet(str(self._folder / f"batch={batch_id}"))
        acknowledge(decided, str(self._answers))
        decided.unpersist()

    def statistics(self, spark: SparkSession) -> DataFrame:
        """Departures and mean delay per origin, carrier and day."""
        by_day = spark.read.parquet(str(self._folder)).groupBy("origin", "carrier", "day")
        return by_day.agg(
            f.count("dep_time").alias("departures"), f.mean("dep_delay").alias("mean_delay")
        )


def main() -> None:
    """Work until SIGTERM, then publish the statistics."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--data", required=True, type=Path, help="checkpoint and answers")
    parser.add_argument("--output", required=True, type=Path, help="folder of the Parquet files")
    parser.add_argument("--per-batch", type=int, default=40_000, help="flights at most")
    arguments = parser.parse_args()
    spark, answers = session(), arguments.data.absolute() / "answers"
    tables = Tables(arguments.output / "gate", answers)
    query = (
        flights(spark, arguments.bootstrap, answers, arguments.per_batch)
        .writeStream.option("checkpointLocation", str(arguments.data / "checkpoint"))
        .foreachBatch(tables.keep)
        .start()
    )
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    while query.isActive and not stop.wait(0.2):
        pass
    if not stop.is_set():
        query.awaitTermination()  # raises what it failed of
    query.stop()
    tables.statistics(spark).coalesce(1).write.parquet(str(arguments.output / "statistics"))


if __name__ == "__main__":
    main()
