"""Views of each page per minute, counted by the time in the record, with a watermark.

    python d_windows.py --bootstrap-server HOST:PORT [--topic views] [--output FOLDER]

A record is JSON: {"page": "/jobs", "at": "2026-01-31T10:00:05Z"}. A minute is written when the
watermark has passed it, and never changes afterwards. State, watermark and output belong to one
batch of the checkpoint, so a batch that runs again counts nothing twice. A record that was released
and comes again after its minute is written is dropped: make the watermark's delay longer than that.
"""

import argparse
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

VIEW = "page STRING, at TIMESTAMP"

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
parser.add_argument("--topic", default="views")
parser.add_argument("--output", type=Path, default=Path("views-per-minute"))
arguments = parser.parse_args()

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or Spark runs the PATH's python3
builder = SparkSession.builder.config("spark.python.unix.domain.socket.enabled", "true")
builder.config("spark.sql.session.timeZone", "UTC")
builder.config("spark.sql.shuffle.partitions", "4")  # tasks with state; 200 of them take minutes
spark = builder.getOrCreate()
source = {
    "kafka.bootstrap.servers": arguments.bootstrap_server,
    "kafka.group.id": "views-per-minute",
    "subscribe": arguments.topic,
    "startingOffsets": "earliest",
}
records = spark.readStream.format("kafka-share").options(**source).load()
view = f.from_json(f.col("value").cast("string"), VIEW)
minutes = (
    records.select(view.alias("view"))
    .select("view.*")
    .withWatermark("at", "10 minutes")
    .groupBy(f.window("at", "1 minute"), "page")
    .count()
    .select("window.start", "page", "count")
)
sink = minutes.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
sink = sink.option("checkpointLocation", str(arguments.output / "checkpoint"))
query = sink.start(str(arguments.output / "table"))
query.awaitTermination()
rows = spark.read.parquet(str(arguments.output / "table"))
[[views]] = rows.agg(f.sum("count")).collect()
print(f"{rows.count():,} rows, {views or 0:,} views in closed minutes")
