"""Orders are enriched and upserted into a table; a batch that runs again changes nothing.

    python a_upsert.py --bootstrap-server HOST:PORT [--topic orders] [--output FOLDER]

A record is JSON: {"order": 17, "customer": 2, "state": "paid", "version": 3}. The table has one row
per order, in Parquet: each batch writes the whole table anew, as a version named by the batch's id,
from the version before. A batch that is killed half-way runs again with the same records and the
same id, so it writes the same version. (On a Delta table: MERGE, with txnAppId and txnVersion=id.)
"""

import argparse
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

ORDER = "order LONG, customer LONG, state STRING, version LONG"
CUSTOMERS = [(1, "Ada"), (2, "Grace"), (3, "Edsger")]


def upsert(changes: DataFrame, batch_id: int) -> None:
    """Write version ``batch_id``: the previous version with the newest change of each order.

    A queue keeps no order between batches, so the record itself says which change is newer.
    """
    before = [int(one.parent.name) for one in table.glob("[0-9]*/_SUCCESS")]
    before = [version for version in before if version < batch_id]
    if before:
        changes = changes.unionByName(spark.read.parquet(str(table / str(max(before)))))
    newest = Window.partitionBy("order").orderBy(f.desc("version"))
    rows = changes.withColumn("rank", f.row_number().over(newest)).where("rank = 1").drop("rank")
    version = str(table / str(batch_id))
    rows.write.mode("overwrite").parquet(version)
    print(f"batch {batch_id}: the table has {spark.read.parquet(version).count():,} orders")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
parser.add_argument("--topic", default="orders")
parser.add_argument("--output", type=Path, default=Path("orders-table"))
arguments = parser.parse_args()
table = arguments.output
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or Spark runs the PATH's python3
builder = SparkSession.builder.config("spark.python.unix.domain.socket.enabled", "true")
spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
customers = spark.createDataFrame(CUSTOMERS, "customer LONG, name STRING")
source = {
    "kafka.bootstrap.servers": arguments.bootstrap_server,
    "kafka.group.id": "orders-table",
    "subscribe": arguments.topic,
    "startingOffsets": "earliest",  # where a new group begins
}
values = spark.readStream.format("kafka-share").options(**source).load().select("value")
orders = values.select(f.from_json(f.col("value").cast("string"), ORDER).alias("o")).select("o.*")
sink = orders.join(customers, "customer", "left").writeStream.trigger(availableNow=True)
sink = sink.option("checkpointLocation", str(table / "checkpoint"))
sink.foreachBatch(upsert).start().awaitTermination()
