"""A query over a secured cluster, which shows all that Spark shows of it.

python -m tests.spark.secured_program SERVERS TOPIC FOLDER

FOLDER/properties.json has the properties of the connection. Whatever Spark tells about the query
goes to stdout, stderr and FOLDER.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

PAGES = ("jobs", "stages?details=true", "environment", "sql?details=true&planDescription=true")


def tell(*words: object) -> None:
    """Print a line."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")


class Telling(StreamingQueryListener):
    """Prints what a listener of a user's gets."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        tell("started", event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        tell("progress", event.progress.json)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        tell("idle", event.id)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        tell("terminated", event.exception)


def command_lines() -> bytes:
    """What `ps` shows of every process."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found.append(file.read_bytes())
    return b"\n".join(found)


def main(servers: str, topic: str, folder: Path) -> None:
    properties = json.loads((folder / "properties.json").read_text())
    secured = {f"kafka.{name}": text for name, text in properties.items()}
    events = folder / "events"
    events.mkdir()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.port", "0")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", events.as_uri())
        .config("spark.eventLog.compress", "false")  # the search reads plain text
        .config("spark.sql.maxPlanStringLength", "1000000")
        .config("spark.log.level", "INFO")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.streams.addListener(Telling())
    common = {"kafka.bootstrap.servers": servers, **secured}
    group = {"kafka.group.id": topic, "subscribe": topic}
    stream = (
        spark.readStream.format("kafka-share")
        .options(**common, **group, startingOffsets="earliest")
        .load()
    )
    stream.explain(True)
    query = (
        stream.select("key", "value")
        .writeStream.format("kafka-share")
        .options(**common, topic=f"{topic}-results", createTopics="true")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.processAllAvailable()
    (folder / "processes.txt").write_bytes(command_lines())
    query.awaitTermination()
    query.explain(True)
    tell("last", json.dumps(query.lastProgress, default=str))
    look = spark.read.format("kafka-share").options(**common, **group, states="all").load()
    look.explain(True)
    tell("states", [row.state for row in look.select("state", "value").collect()])
    wrong = {**common, "kafka.sasl.mechanism": "DIGEST-MD5"}
    try:
        spark.readStream.format("kafka-share").options(**wrong, **group).load()
    except Exception as error:  # noqa: BLE001  Spark's own
        tell("refused", error)
    lost = {**common, "kafka.sasl.jaas.config": common["kafka.sasl.jaas.config"][:-2] + '-not";'}
    try:
        stream = spark.readStream.format("kafka-share").options(**lost, **group).load()
        to_console = stream.writeStream.format("console").trigger(availableNow=True)
        to_console.option("checkpointLocation", str(folder / "lost")).start().awaitTermination()
    except Exception as error:  # noqa: BLE001  Spark's own
        tell("not let in:", error)
    try:
        spark.read.format("kafka-share").options(**lost, **group, states="all").load().collect()
    except Exception as error:  # noqa: BLE001  Spark's own
        tell("no look:", error)
    web = spark.sparkContext.uiWebUrl
    assert web is not None
    application = f"{web}/api/v1/applications/{spark.sparkContext.applicationId}"
    for page in PAGES:
        with urlopen(f"{application}/{page}") as answer:
            (folder / f"{page.partition('?')[0]}.json").write_bytes(answer.read())
    for page in ("SQL/", "StreamingQuery/", "environment/"):
        with urlopen(f"{web}/{page}") as answer:
            (folder / f"{page.strip('/')}.html").write_bytes(answer.read())
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
