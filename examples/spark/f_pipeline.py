r"""A Spark Declarative Pipeline on a queue: a streaming table, and a view that follows it.

    pip install 'pyspark[pipelines]'
    spark-pipelines init --name climate
    cp f_pipeline.py climate/transformations/
    cd climate && KAFKA_BOOTSTRAP_SERVERS=HOST:PORT spark-pipelines run \
        --conf spark.python.unix.domain.socket.enabled=true

Each run takes the records that are in the topic by then. You need not register the source: Spark
finds it. Only *one* table reads the queue, and everything else reads that table: a second reader of
the queue would be a second worker, and would take records away from the first.
"""

from __future__ import annotations

import os

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


@pipelines.table
def readings() -> DataFrame:
    """Every reading, once: {"sensor": "cellar", "celsius": 11.5}."""
    source = {
        "kafka.bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
        "kafka.group.id": "climate",
        "subscribe": "readings",
        "startingOffsets": "earliest",
    }
    records = SparkSession.active().readStream.format("kafka-share").options(**source).load()
    reading = f.from_json(f.col("value").cast("string"), "sensor STRING, celsius DOUBLE")
    return records.select(reading.alias("r")).select("r.*")


@pipelines.materialized_view
def hottest() -> DataFrame:
    """The number of readings and the hottest reading of each sensor."""
    of_sensor = SparkSession.active().read.table("readings").groupBy("sensor")
    return of_sensor.agg(f.count("*").alias("readings"), f.max("celsius").alias("celsius"))
