"""One statement per account and batch, without a shuffle: each key's records are in one task.

    python i_by_key.py --bootstrap-server HOST:PORT [--topic payments]

A record's key is the account, its value the amount. With ``splitBy`` ``key`` a task has all records
of its accounts, in the order of the log (with the group config share.ordering=key also over
batches): ``mapInArrow`` may add them up by itself, without ``repartition`` or ``groupBy``.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

SCHEMA = "account STRING, payments INT, total DOUBLE, last_offset LONG, task INT"
TYPES = {"account": pa.string(), "payments": pa.int32(), "total": pa.float64()}
TYPES |= {"last_offset": pa.int64(), "task": pa.int32()}


def statements(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up a task's payments by account."""
    context, found = TaskContext.get(), dict[str, dict[str, Any]]()
    assert context is not None, "this runs in a task"
    new = {"payments": 0, "total": 0.0, "last_offset": -1, "task": context.partitionId()}
    for row in (row for batch in batches for row in batch.to_pylist()):
        account = found.setdefault(row["account"], {"account": row["account"], **new})
        assert row["offset"] > account["last_offset"], "an account's payments come in order"
        account["payments"] += 1
        account["total"] += row["amount"]
        account["last_offset"] = row["offset"]
    yield pa.RecordBatch.from_pylist(list(found.values()), pa.schema(TYPES))


def keep(rows: DataFrame, batch_id: int) -> None:
    """Write the statements to the batch's own folder: a batch that runs again replaces it."""
    rows.write.mode("overwrite").parquet(str(arguments.output / f"batch={batch_id}"))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
parser.add_argument("--topic", default="payments")
parser.add_argument("--output", type=Path, default=Path("statements"))
arguments = parser.parse_args()
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or Spark runs the PATH's python3
spark = SparkSession.builder.config("spark.python.unix.domain.socket.enabled", "true").getOrCreate()
source = {"kafka.bootstrap.servers": arguments.bootstrap_server, "kafka.group.id": "statements"}
source |= {"subscribe": arguments.topic, "startingOffsets": "earliest"}
source |= {"splitBy": "key", "minPartitions": "4"}
records = spark.readStream.format("kafka-share").options(**source).load()
text = ("CAST(key AS STRING) AS account", "CAST(CAST(value AS STRING) AS DOUBLE) AS amount")
sink = records.selectExpr(*text, "offset").mapInArrow(statements, SCHEMA).writeStream
sink = sink.option("checkpointLocation", str(arguments.output / "checkpoint"))
sink.foreachBatch(keep).trigger(availableNow=True).start().awaitTermination()
