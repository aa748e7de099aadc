"""What somebody who comes from Spark's own Kafka source does, each with its right answer:
docs/spark-from-kafka.md.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from sharegroup.model.errors import ConfigError
from sharegroup.spark.data_source import ShareStreamReader
from sharegroup.spark.source.offsets import from_json
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags, source_options
from tests.spark.crash.round import BROKER_OPTIONS
from tests.spark.readers import Stream, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

VALUES = [b"%d" % n for n in range(200)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    """A broker on which sessions and locks end after seconds: runs with an end wait for both."""
    with SharegroupServer(tmp_path_factory.mktemp("broker"), *BROKER_OPTIONS) as running:
        yield running


@pytest.fixture
def topic(server: SharegroupServer, name: str) -> str:
    return filled(server, name)


def filled(server: SharegroupServer, name: str) -> str:
    admin.Admin(server.bootstrap).create_topic(name, partitions=2)
    admin.produce(server.bootstrap, name, VALUES)
    return name


class Query:
    """Runs of one query with availableNow, and what its batches held."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = folder / "checkpoint"
        self.batches: dict[int, list[bytes]] = {}

    def run(self, rows: DataFrame) -> None:
        def keep(batch: DataFrame, number: int) -> None:
            self.batches[number] = [bytes(row.value) for row in batch.select("value").collect()]

        writer = rows.writeStream.foreachBatch(keep).trigger(availableNow=True)
        writer.option("checkpointLocation", str(self.checkpoint)).start().awaitTermination()

    def values(self) -> Counter[bytes]:
        return Counter(value for values in self.batches.values() for value in values)


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path)


def stream(spark: SparkSession, server: SharegroupServer, topic: str, **more: str) -> DataFrame:
    options = source_options(server, topic, **more)
    return spark.readStream.format("kafka-share").options(**options).load()


@pytest.mark.spark
def test_one_dataframe_twice_in_a_query_is_one_source(
    spark: SparkSession, server: SharegroupServer, topic: str, query: Query
) -> None:
    """Spark itself makes one source of it: both sides have all records, as with its own."""
    rows = stream(spark, server, topic)
    query.run(rows.union(rows))
    assert query.values() == Counter(VALUES + VALUES)
    until(lambda: lags(server, topic) == [0, 0])


@pytest.mark.spark
def test_two_loads_of_one_group_share_its_records_out(
    spark: SparkSession, server: SharegroupServer, topic: str, query: Query
) -> None:
    query.run(stream(spark, server, topic).union(stream(spark, server, topic)))
    assert query.values() == Counter(VALUES)
    until(lambda: lags(server, topic) == [0, 0])


@pytest.mark.spark
def test_two_groups_give_all_records_to_both_sides_of_a_union(
    spark: SparkSession, server: SharegroupServer, topic: str, query: Query
) -> None:
    groups = (f"{topic}-{side}" for side in ("left", "right"))
    one, other = (stream(spark, server, topic, **{"kafka.group.id": group}) for group in groups)
    query.run(one.union(other))
    assert query.values() == Counter(VALUES + VALUES)


@pytest.mark.spark
def test_two_sources_of_one_group_with_a_topic_each(
    spark: SparkSession, server: SharegroupServer, topic: str, query: Query
) -> None:
    second = filled(server, f"{topic}-2")
    same = {"kafka.group.id": topic}
    query.run(stream(spark, server, topic).union(stream(spark, server, second, **same)))
    assert query.values() == Counter(VALUES + VALUES)
    until(lambda: set(lags(server, topic)) == {0})


@pytest.mark.spark
def test_a_hole_in_the_offset_log(
    spark: SparkSession, server: SharegroupServer, topic: str, query: Query
) -> None:
    """Of an old batch: it is not needed. Of the one before the last: Spark says which is missing,
    and goes on when it is back."""
    rows = stream(spark, server, topic, maxOffsetsPerTrigger="50")
    query.run(rows)
    log = query.checkpoint / "offsets"
    last = max(int(file.name) for file in log.iterdir() if file.name.isdigit())
    assert last >= 3
    (log / "0").unlink()
    (log / ".0.crc").unlink(missing_ok=True)
    query.run(rows)
    before = log / str(last - 1)
    before.rename(query.checkpoint / "aside")
    with pytest.raises(StreamingQueryException, match=f"batch {last - 1} doesn't exist"):
        query.run(rows)
    (query.checkpoint / "aside").rename(before)
    admin.produce(server.bootstrap, topic, [b"more"])
    query.run(rows)
    assert query.values() == Counter([*VALUES, b"more"])


@pytest.mark.spark
def test_a_checkpoint_of_another_source_is_refused(
    spark: SparkSession, server: SharegroupServer, topic: str, query: Query
) -> None:
    rates = spark.readStream.format("rate").load().writeStream.format("noop").trigger(once=True)
    rates.option("checkpointLocation", str(query.checkpoint)).start().awaitTermination()
    with pytest.raises(StreamingQueryException, match="holds no offset of kafka-share"):
        query.run(stream(spark, server, topic))


@pytest.mark.parametrize("offset", [7, None, "latest", [1], {"t": {"0": 23}}, {"logOffset": 0}])
def test_offsets_of_other_sources(offset: object) -> None:
    with pytest.raises(ConfigError, match="holds no offset of kafka-share"):
        from_json(offset)


def test_a_topic_made_anew_with_more_partitions_while_the_query_was_down(
    server: SharegroupServer, topic: str
) -> None:
    before = Stream(server, topic)
    seen = before.values(len(VALUES))
    before.stop()
    admins = admin.Admin(server.bootstrap)
    admins.delete_topic(topic)
    admins.create_topic(topic, partitions=4)
    anew = [b"anew %d" % n for n in range(400)]
    for number in range(4):
        admin.produce(server.bootstrap, topic, anew[number::4])
    after = Stream(server, topic)
    after.offset = before.offset
    assert after.values(len(anew)) == Counter(anew)
    assert seen == Counter(VALUES)
    after.stop()


def test_a_task_that_runs_twice_at_once_reads_the_same_rows(
    server: SharegroupServer, topic: str
) -> None:
    """As with spark.speculation: a task takes nothing from the queue, it reads."""
    queue = Stream(server, topic)
    ends = []
    until(lambda: ends.append(queue.next()) or ends[-1] is not None)  # type: ignore[func-returns-value]
    end = ends[-1]
    assert end is not None
    tasks = queue.reader.partitions(queue.offset, end)
    copies = [pickle.loads(pickle.dumps(queue.reader)) for _ in range(2)]

    def read(copy: ShareStreamReader) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        for task in tasks:
            for batch in copy.read(task):
                found.update(batch.column("value").to_pylist())
        return found

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(read, copies)
    assert first == second
    assert first.total() > 0
    queue.offset = end
    until(lambda: queue.next() is None and lags(server, topic) == [0, 0])
    assert queue.report()["redelivered"] == 0
    queue.stop()
