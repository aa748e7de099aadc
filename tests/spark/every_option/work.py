"""What the cases use: a Spark session, a broker, topics with records, and queries over them.

It writes down every option that a case gives to Spark, so that a test can name those that none
gives.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, Row, SparkSession

from tests.servers.admin import SILENT, Admin

SERVERS = "kafka.bootstrap.servers"
GROUP = "kafka.group.id"
PARTITIONS = 2
SECONDS = 400

Headers = Sequence[tuple[str, bytes | None]]


@dataclass
class Drained:
    """What came of one run of a query: the rows and the number of tasks of each batch."""

    columns: list[str] = field(default_factory=list)
    batches: list[list[Row]] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]

    def values(self) -> list[str]:
        return sorted(row.value.decode() for row in self.rows)


class Work:
    """See the module. ``mortal`` is a second broker (address, process id) that a case may kill."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, mortal: tuple[str, int], folder: Path
    ) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.mortal = mortal
        self.given: dict[str, set[str]] = {
            table: set() for table in ("stream", "look", "letters", "sink")
        }
        self._folder = folder
        self._numbers = itertools.count(1)

    # --- topics -----------------------------------------------------------------------------------

    def name(self) -> str:
        """A name that no other case has, for a topic and its group."""
        return f"queue-{next(self._numbers)}"

    def topic(self, records: int = 0, *, bootstrap: str = "") -> str:
        """A new topic, with the values r000, r001, … in turns over its partitions."""
        topic = self.name()
        Admin(bootstrap or self.bootstrap).create_topic(topic, partitions=PARTITIONS)
        values = [f"r{number:03}" for number in range(records)]
        self.produce(topic, *values, bootstrap=bootstrap)
        return topic

    def produce(
        self,
        topic: str,
        *values: str,
        headers: Headers = (),
        timestamp: int = 0,
        bootstrap: str = "",
    ) -> None:
        """Append these values, each with the key ``k``."""
        producer = Producer({"bootstrap.servers": bootstrap or self.bootstrap, **SILENT})
        for at, value in enumerate(values):
            more = {"timestamp": timestamp} if timestamp else {}
            producer.produce(
                topic, value, "k", partition=at % PARTITIONS, headers=list(headers), **more
            )
        assert producer.flush(30) == 0

    def records(self, topic: str, count: int) -> list[Any]:
        """The first records of a topic, as librdkafka's consumer gives them."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "none", **SILENT})
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found = consumer.consume(count, 30)
        consumer.close()
        assert [record.error() for record in found] == [None] * count
        return found

    # --- Spark ------------------------------------------------------------------------------------

    def folder(self) -> str:
        """A new folder's name."""
        return str(self._folder / f"folder-{next(self._numbers)}")

    def options(self, topic: str, **more: str) -> dict[str, str]:
        """Options of a query over ``topic`` by a group of that name."""
        return {SERVERS: self.bootstrap, GROUP: topic, "subscribe": topic, **more}

    def stream(self, options: dict[str, str]) -> DataFrame:
        """``spark.readStream…load()``."""
        return self._loaded("stream", self.spark.readStream, options)

    def look(self, options: dict[str, str]) -> DataFrame:
        """``spark.read…load()``."""
        return self._loaded("look", self.spark.read, options)

    def letters(self, options: dict[str, str]) -> DataFrame:
        """``spark.read…load()``, of dead letters."""
        return self._loaded("letters", self.spark.read, options)

    def sink(self, writer: Any, options: dict[str, str]) -> Any:
        """A ``df.write`` or ``df.writeStream`` of our format with these options."""
        self.given["sink"].update(options)
        return writer.format("kafka-share").options(**options)

    def drained(
        self,
        topic: str,
        checkpoint: str = "",
        write: Callable[[DataFrame], None] | None = None,
        **more: str,
    ) -> Drained:
        """All that a query from the earliest record on reads of ``topic`` by now."""
        options = {"startingOffsets": "earliest", **self.options(topic), **more}
        return self.run(options, checkpoint, write)

    def run(
        self,
        options: dict[str, str],
        checkpoint: str = "",
        write: Callable[[DataFrame], None] | None = None,
    ) -> Drained:
        """All that a query with these options reads by now."""
        drained = Drained()
        rows = self.stream(options)
        drained.columns = rows.columns

        def keep(batch: DataFrame, _: int) -> None:
            drained.tasks.append(batch.rdd.getNumPartitions())
            drained.batches.append(batch.collect())
            if write is not None:
                write(batch)

        writer = rows.writeStream.option("checkpointLocation", checkpoint or self.folder())
        query = writer.trigger(availableNow=True).foreachBatch(keep).start()
        assert query.awaitTermination(SECONDS), "the query did not end"
        drained.progress = [
            json.loads(one.sources[0].latestOffset)
            for one in query.recentProgress
            if one.sources[0].latestOffset not in (None, "null")
        ]
        return drained

    def runs_again(self, checkpoint: str) -> None:
        """Let the last batch with records run again, as if the query had been killed before its
        commit. The batch without records that closes a run is undone.
        """
        commits, offsets = Path(checkpoint, "commits"), Path(checkpoint, "offsets")
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        forget(commits / str(last))
        while not json.loads((offsets / str(last)).read_text().splitlines()[-1])["r"]:
            forget(offsets / str(last))
            last -= 1
            forget(commits / str(last))

    def _loaded(self, table: str, reader: Any, options: dict[str, str]) -> DataFrame:
        self.given[table].update(options)
        rows: DataFrame = reader.format("kafka-share").options(**options).load()
        return rows


def forget(file: Path) -> None:
    """Remove a file of a checkpoint and its checksum."""
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
