"""The user's program that is hit: one query for each seed, started again whenever it ends.

Arguments: bootstrap servers, folder, seeds. It obeys the flags in a lane's folder.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import threading
import zlib
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, format_string, udf, when
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from sharegroup.spark import acknowledge
from tests.spark.crash.lane import ANCHOR_MS, Lane, LaneFolder, Mode, lane_of
from tests.spark.session import SETTINGS

log = logging.getLogger("crash")

LOOK_SECONDS = 0.05
RESULT = ("number", "partition", "offset", "delivery_count", "ack")
TASK_FAILURES = 20
"""Every so many-th task fails once, whatever else happens."""


class InjectedFailure(Exception):
    """A part of the query fails because the test wants it."""


QUICK_START = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""These queries see a thousand records each: to compile for them costs more than it saves."""


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2,4]").appName("crash")
    for name, value in {**SETTINGS, **QUICK_START}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Pipeline:
    """The query of one lane."""

    def __init__(self, spark: SparkSession, bootstrap: str, lane: Lane, folder: LaneFolder) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.lane = lane
        self.folder = folder

    def start(self) -> StreamingQuery:
        rows = self.decided(self.rows())
        if self.lane.mode is not Mode.SINK:
            return self.checkpointed(rows).foreachBatch(self.write).start()
        result = format_string('[%d,%d,%d,%d,"%s"]', *RESULT)
        return (
            self.checkpointed(rows.withColumn("value", result).drop("number", "delivery_count"))
            .format("kafka-share")
            .option("ackLocation", str(self.folder.acks))
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", self.lane.results)
            .start()
        )

    def checkpointed(self, rows: DataFrame) -> DataStreamWriter:
        return rows.writeStream.option("checkpointLocation", str(self.folder.checkpoint))

    def rows(self) -> DataFrame:
        reader = (
            self.spark.readStream.format("kafka-share")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("kafka.group.id", self.lane.name)
            .option("subscribe", self.lane.name)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self.lane.per_batch)
        )
        if self.lane.mode.is_answered:
            reader = reader.option("ackLocation", str(self.folder.acks))
        if self.lane.mode is Mode.CLAIM:
            reader = reader.option("claimLocation", str(self.folder.claims))
        return reader.load()

    def decided(self, rows: DataFrame) -> DataFrame:
        """The rows with their answers; this is where tasks fail."""
        lane, flag = self.lane, str(self.folder.fail_tasks)

        def decide(number: int, delivery_count: int) -> str:
            task = TaskContext.get()
            assert task is not None
            unlucky = zlib.crc32(b"%d" % task.taskAttemptId()) % TASK_FAILURES == lane.seed % 20
            if os.path.exists(flag) or (unlucky and task.attemptNumber() == 0):
                raise InjectedFailure("a task fails")
            return lane.decision(number, delivery_count)

        number = col("value").cast("string").cast("int")
        return rows.select(
            "topic",
            "partition",
            "offset",
            "delivery_count",
            number.alias("number"),
            udf(decide, "string", useArrow=False)(number, "delivery_count").alias("ack"),
            when(number < lane.partitions, ANCHOR_MS).otherwise(0).alias("delay_ms"),
        )

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Results into one file per batch and content, so that a repeated batch replaces itself;
        then the answers."""
        found = sorted(list(row) for row in rows.select(*RESULT).collect())
        text = json.dumps(found)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        part = self.folder.sink / f"{batch_id}-{digest}.part"
        part.write_text(text)
        os.replace(part, part.with_suffix(".json"))
        if self.lane.mode is Mode.FOREACH:
            acknowledge(rows, str(self.folder.acks))
        if self.folder.fail_sink.exists():
            raise InjectedFailure("the sink fails after writing")


class Supervisor:
    """Runs one pipeline, again and again, until the flag says that it is over.

    All are called from one thread: Spark 4.3 finds a sink in Python only from a thread that has an
    active session.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._folder = pipeline.folder
        self._query: StreamingQuery | None = None

    @property
    def over(self) -> bool:
        return self._query is None and self._folder.finish.exists()

    @property
    def starting(self) -> bool:
        query = self._query
        return query is not None and query.isActive and "Initializing" in query.status["message"]

    def look(self, *, may_start: bool) -> None:
        folder = self._folder
        if self._query is not None and self._query.isActive:
            if folder.finish.exists() or folder.pause.exists():
                self._query.stop()
                self._query = None
            return
        if self._query is not None:
            error = str(self._query.exception())
            log.warning("%s failed: %s", self._pipeline.lane.name, error)
            if "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY" in error:
                self._delete_half_written_offsets()
            folder.fail_tasks.unlink(missing_ok=True)
            folder.fail_sink.unlink(missing_ok=True)
            self._query = None
        if folder.pause.exists():
            folder.pause.rename(folder.paused)
        if may_start and not folder.paused.exists() and not folder.finish.exists():
            self._query = self._pipeline.start()

    def _delete_half_written_offsets(self) -> None:
        """Spark does not start a query with state again that was killed while it wrote its first
        offsets: the file is there under a temporary name. docs/spark.md says to delete it."""
        offsets = self._folder.checkpoint / "offsets"
        assert not (offsets / "0").exists()
        for leftover in offsets.glob(".*.tmp*"):
            leftover.unlink()


def main(bootstrap: str, root: str, *seeds: str) -> None:
    spark = session()
    lanes = [lane_of(int(seed)) for seed in seeds]
    supervisors = [
        Supervisor(Pipeline(spark, bootstrap, lane, LaneFolder(Path(root), lane))) for lane in lanes
    ]
    while not all(supervisor.over for supervisor in supervisors):
        for supervisor in supervisors:
            # One after the other: Spark gives a source process ten seconds to come up.
            supervisor.look(may_start=not any(other.starting for other in supervisors))
        threading.Event().wait(LOOK_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
