"""The stops of every parcel, in the order in which they were produced, with state per parcel.

    python e_order_per_key.py --bootstrap-server HOST:PORT [--topic scans] [--output FOLDER]

A record's key is the parcel, its value the place. A queue is read by many tasks, so the rows of one
key are brought together (``groupBy``) and sorted before they reach its state. A record that was
released, or whose lock ran out, comes after its successors: its row is marked as late. (Without
state: ``repartition("parcel").sortWithinPartitions("parcel", "offset")`` in foreachBatch.)
"""

import argparse
import os
import sys
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Stops(StatefulProcessor):
    """Numbers the stops of one parcel; its state is the last offset and the last stop."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.last = handle.getValueState("last", "offset LONG, stop INT, place STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timers: Any) -> Iterator[Row]:
        offset, stop, before = self.last.get() if self.last.exists() else (-1, 0, None)
        for row in sorted(rows, key=attrgetter("offset")):
            late = row.offset < offset
            offset, stop = max(offset, row.offset), stop + 1
            yield Row(parcel=key[0], stop=stop, place=row.place, came_from=before, late=late)
            before = before if late else row.place
        self.last.update((offset, stop, before))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
parser.add_argument("--topic", default="scans")
parser.add_argument("--output", type=Path, default=Path("stops"))
arguments = parser.parse_args()
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or Spark runs the PATH's python3
settings = {"spark.sql.streaming.stateStore.providerClass": STATE_STORE}
settings |= {"spark.python.unix.domain.socket.enabled": "true", "spark.sql.shuffle.partitions": "4"}
spark = SparkSession.builder.config(map=settings).getOrCreate()
source = {"kafka.bootstrap.servers": arguments.bootstrap_server, "kafka.group.id": "stops"}
source |= {"subscribe": arguments.topic, "startingOffsets": "earliest"}
records = spark.readStream.format("kafka-share").options(**source).load()
text = ("CAST(key AS STRING) AS parcel", "CAST(value AS STRING) AS place")
scans = records.selectExpr(*text, "offset").groupBy("parcel")
schema = "parcel STRING, stop INT, place STRING, came_from STRING, late BOOLEAN"
stops = scans.transformWithState(Stops(), schema, "append", "none")
sink = stops.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
sink = sink.option("checkpointLocation", str(arguments.output / "checkpoint"))
sink.start(str(arguments.output / "table")).awaitTermination()
