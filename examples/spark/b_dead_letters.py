"""Jobs that fail are tried again, and after three attempts lie in quarantine with the reason.

    python b_dead_letters.py --bootstrap-server HOST:PORT [--topic jobs] [--output FOLDER]

A record is JSON: {"a": 6, "b": 2}; the job is to divide. Finished jobs are accepted. Failed jobs
are released and come again; a job that fails for the third time is rejected. Tables are written
before answers, in one folder per batch: a batch that runs again replaces its folder.
"""

import argparse
import json
import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sharegroup.spark import acknowledge

ATTEMPTS = 3  # below the group's share.delivery.count.limit (5): we decide, not the broker

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
parser.add_argument("--topic", default="jobs")
parser.add_argument("--output", type=os.path.abspath, default="jobs-done")
arguments = parser.parse_args()
output, answers = arguments.output, f"{arguments.output}/answers"
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or Spark runs the PATH's python3
spark = SparkSession.builder.config("spark.python.unix.domain.socket.enabled", "true").getOrCreate()


@f.udf("result DOUBLE, error STRING")
def work(job):  # without type hints: PySpark takes them for the kind of the UDF, and warns
    try:
        numbers = json.loads(job)
        return numbers["a"] / numbers["b"], None
    except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError) as error:
        return None, f"{type(error).__name__}: {error}"


def decide(jobs: DataFrame, batch_id: int) -> None:
    """Results and dead letters into their tables, then an answer for each."""
    failed = f.when(f.col("delivery_count") < ATTEMPTS, "release").otherwise("reject")
    ack = f.when(f.col("error").isNull(), "accept").otherwise(failed)
    done = jobs.select("*", work("value").alias("w")).select("*", "w.*").withColumn("ack", ack)
    done = done.drop("w").persist()  # each job runs once, though its row is used four times
    for verdict, table in (("accept", "results"), ("reject", "quarantine")):
        rows = done.where(f.col("ack") == verdict).write
        rows.parquet(f"{output}/{table}/batch={batch_id}", "overwrite")
    acknowledge(done, answers)
    print(f"batch {batch_id}:", dict(done.groupBy("ack").count().collect()))
    done.unpersist()


source = {"kafka.bootstrap.servers": arguments.bootstrap_server, "ackLocation": answers}
source |= {"kafka.group.id": "jobs", "subscribe": arguments.topic, "startingOffsets": "earliest"}
queue = spark.readStream.format("kafka-share").options(**source).load()
sink = queue.writeStream.foreachBatch(decide).option("checkpointLocation", f"{output}/checkpoint")
sink.trigger(availableNow=True).start().awaitTermination()
