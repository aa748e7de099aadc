"""The pipeline of ``f_pipeline.py`` as a client of Spark Connect: this process has no Java.

    pip install 'pyspark[connect]'
    python g_connect.py --bootstrap-server HOST:PORT [--remote sc://HOST:15002] [--output FOLDER]

The query runs in the server, and goes on when this client ends; the server's Python is the one that
needs ``sharegroup``. ``--remote local`` starts a server for as long as this program runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
parser.add_argument("--remote", default="local")
parser.add_argument("--topic", default="readings")
parser.add_argument("--output", type=Path, default=Path("climate"), help="on the server")
arguments = parser.parse_args()

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or a local server runs the PATH's python3
spark = SparkSession.builder.remote(arguments.remote).getOrCreate()
source = {
    "kafka.bootstrap.servers": arguments.bootstrap_server,
    "kafka.group.id": "climate-connect",
    "subscribe": arguments.topic,
    "startingOffsets": "earliest",
}
records = spark.readStream.format("kafka-share").options(**source).load()
reading = f.from_json(f.col("value").cast("string"), "sensor STRING, celsius DOUBLE")
readings = records.select(reading.alias("r")).select("r.*")
sink = readings.writeStream.format("parquet").trigger(availableNow=True)
sink = sink.option("checkpointLocation", str(arguments.output.absolute() / "checkpoint"))
table = str(arguments.output.absolute() / "readings")
sink.start(table).awaitTermination()

of_sensor = spark.read.parquet(table).groupBy("sensor")
hottest = of_sensor.agg(f.count("*").alias("readings"), f.max("celsius").alias("celsius"))
for row in hottest.orderBy("sensor").collect():
    print(f"{row.sensor}: {row.readings:,} readings, {row.celsius:.1f} °C at most")
spark.stop()
