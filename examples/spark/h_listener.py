"""What a query's queue looks like, batch by batch, told by a listener; and in the console.

    python h_listener.py --bootstrap-server HOST:PORT [--topic jobs] [--too-many 1000]

Spark calls the listener after every batch. In ``latestOffset`` a kafka-share source tells how far
the group is with all batches before this one. A run with an end closes with an empty batch.
"""

import argparse
import json

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from sharegroup.spark import progress_listener, spark_session


class QueueListener(StreamingQueryListener):
    def onQueryStarted(self, event):
        print(f"{event.name} started")

    def onQueryProgress(self, event):
        progress = event.progress
        for source in progress.sources:
            queue = json.loads(source.latestOffset or "null")
            if not isinstance(queue, dict) or "lag" not in queue:
                continue  # another source, or the batch that opens a query with ackLocation
            told = ", ".join(f"{name} {queue[name]}" for name in ("accepted", "redelivered", "lag"))
            print(f"batch {progress.batchId}: {source.numInputRows} rows, {told}")
            if (queue["lag"] or 0) > arguments.too_many:
                print(f"the queue is long: {queue['lagByPartition']}")

    def onQueryTerminated(self, event):
        print(f"ended: {event.exception or 'all is read'}")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
parser.add_argument("--topic", default="jobs")
parser.add_argument("--too-many", type=int, default=1_000)
arguments = parser.parse_args()
spark = spark_session(SparkSession.builder.config("spark.log.level", "ERROR"))
spark.streams.addListener(QueueListener())
servers = {"kafka.bootstrap.servers": arguments.bootstrap_server}
spark.streams.addListener(progress_listener(servers))  # for the console's page of queries
source = {
    **servers,
    "kafka.group.id": "listened-to",
    "subscribe": arguments.topic,
    "startingOffsets": "earliest",  # where a new group begins
    "maxOffsetsPerTrigger": "200",
}
jobs = spark.readStream.format("kafka-share").options(**source).load()
sink = jobs.writeStream.format("noop").option("checkpointLocation", "listener-checkpoint")
query = sink.queryName("jobs").trigger(availableNow=True).start()
query.awaitTermination()
if query.lastProgress is not None:
    print("at the end:", query.lastProgress.sources[0].latestOffset)
spark.stop()
