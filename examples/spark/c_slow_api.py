"""A slow HTTP API is asked about every record, by more tasks at once than the topic has partitions.

    python c_slow_api.py --bootstrap-server HOST:PORT --api http://HOST:PORT/ [--at-once 16]

A task that waits for an answer needs no processor, so many of them may wait side by side. A batch
is cut into tasks of ten records each, however few partitions the topic has.
"""

import argparse
import os
import sys
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

RECORDS_PER_TASK = 10

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
parser.add_argument("--api", required=True, metavar="URL")
parser.add_argument("--at-once", type=int, default=16, help="tasks that run side by side")
parser.add_argument("--topic", default="questions")
parser.add_argument("--output", type=Path, default=Path("answers"))
arguments = parser.parse_args()
api = arguments.api
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or Spark runs the PATH's python3
builder = SparkSession.builder.config("spark.python.unix.domain.socket.enabled", "true")
spark = builder.master(f"local[{arguments.at_once}]").getOrCreate()  # without it on a cluster


@f.udf("string")
def ask(question):  # without type hints: PySpark takes them for the kind of the UDF, and warns
    """The API's answer. An exception fails the task, and Spark runs it again."""
    with urlopen(f"{api}?q={quote(question)}", timeout=30) as answer:
        return str(answer.read(), "utf-8")


def keep(answers: DataFrame, batch_id: int) -> None:
    """Write the answers to the batch's own folder: a batch that runs again replaces it."""
    folder = str(arguments.output / f"batch={batch_id}")
    answers.write.mode("overwrite").parquet(folder)
    answered = spark.read.parquet(folder).count()
    print(f"batch {batch_id}: {answered:,} answers by {answers.rdd.getNumPartitions()} tasks")


source = {"kafka.bootstrap.servers": arguments.bootstrap_server, "kafka.group.id": "answers"}
source |= {"subscribe": arguments.topic, "startingOffsets": "earliest"}
source |= {"maxRecordsPerPartition": str(RECORDS_PER_TASK)}
questions = spark.readStream.format("kafka-share").options(**source).load()
text = f.col("value").cast("string")
answers = questions.select(text.alias("question"), ask(text).alias("answer"))
sink = answers.writeStream.option("checkpointLocation", str(arguments.output / "checkpoint"))
sink.foreachBatch(keep).trigger(availableNow=True).start().awaitTermination()
