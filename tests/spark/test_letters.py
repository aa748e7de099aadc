"""Dead letters as rows, and rows of them redriven."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sharegroup import sync
from sharegroup.client import Producer
from sharegroup.client.core.dead_letter import LettersHandled
from sharegroup.cooperative.intervals import normal, size
from sharegroup.model.errors import ConfigError
from sharegroup.spark import redrive
from sharegroup.spark.data_source import KafkaShareDataSource
from sharegroup.spark.letters.reader import LettersReader, parts
from sharegroup.spark.letters.redriving import redrive_rows
from sharegroup.spark.letters.rows import LETTER_COLUMNS
from sharegroup.spark.options.letters import parse_letter_options
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.dead_letters import jobs_and_letters, read_all, said, values, write_letters

FIELDS = list(LETTER_COLUMNS.items())
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:9092", "deadLettersOf": "workers"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalBroker]:
    with broker(configs={"auto.create.topics.enable": False}) as running:
        yield running


def options(kafka: LocalBroker, group: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap, "deadLettersOf": group, **more}


def table(given: dict[str, str], fields: list[tuple[str, str]] = FIELDS) -> pa.Table:
    """What Spark would read, task by task, each as it arrives on an executor."""
    reader = LettersReader(given, fields)
    tasks = [pickle.loads(pickle.dumps(task)) for task in reader.partitions()]
    batches = [batch for task in tasks for batch in reader.read(task)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def rows(given: dict[str, str]) -> list[dict[str, Any]]:
    return sorted(table(given).to_pylist(), key=lambda row: row["letter_offset"])


def letters(kafka: LocalBroker, count: int, **more: object) -> tuple[str, str, str]:
    topic, dead, group = jobs_and_letters(kafka)
    asyncio.run(write_letters(kafka, dead, group, topic, range(count), **more))
    return topic, dead, group


def test_each_letter_is_a_row_with_its_cause_and_its_origin(kafka: LocalBroker) -> None:
    topic, dead, group = letters(
        kafka, 1, message="no image", cause="rejected", member="m-1", failed_ms=1_700_000_000_123
    )
    [row] = rows(options(kafka, group))
    assert row.pop("failed_at").timestamp() == 1_700_000_000.123
    assert row == {
        "key": b"k0",
        "value": b"0",
        "headers": [{"key": "own", "value": b"0"}],
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "cause": "rejected",
        "reason": "no image",
        "member_id": "m-1",
        "delivery_count": 5,
        "group_id": group,
        "has_record": True,
        "letter_topic": dead,
        "letter_partition": 0,
        "letter_offset": 0,
    }


def test_the_schema_is_what_the_rows_have(kafka: LocalBroker) -> None:
    _, _, group = letters(kafka, 3)
    given = options(kafka, group)
    ddl = KafkaShareDataSource(given).schema()
    assert isinstance(ddl, str)
    assert [part.split(" ", 1)[0] for part in ddl.split(", ")] == list(LETTER_COLUMNS)
    some = table(given, [("reason", "string"), ("offset", "bigint")])
    assert some.schema == pa.schema([("reason", pa.string()), ("offset", pa.int64())])
    assert sorted(some["offset"].to_pylist()) == [0, 1, 2]
    with pytest.raises(ConfigError, match="dead letters have no column reason int"):
        table(given, [("reason", "int")])


def test_where_chooses_and_what_is_done_is_left_out(kafka: LocalBroker) -> None:
    _, _, group = letters(kafka, 30)
    one = options(kafka, group, where='key == "k1"')
    assert [row["key"] for row in rows(one)] == [b"k1"] * 10
    with sync.Admin(kafka.bootstrap) as admin:
        assert admin.purge_dead_letters(group, where='key == "k1"').done == 10
    assert rows(one) == []
    assert len(rows(options(kafka, group))) == 20


def test_one_partition_for_several_tasks(kafka: LocalBroker) -> None:
    _, _, group = letters(kafka, 30)
    with sync.Admin(kafka.bootstrap) as admin:
        admin.purge_dead_letters(group, where='key == "k1"')
    given = options(kafka, group, maxRecordsPerPartition="4")
    reader = LettersReader(given, FIELDS)
    tasks = reader.partitions()
    counts = [sum(batch.num_rows for batch in reader.read(task)) for task in tasks]
    assert (sum(counts), max(counts)) == (20, 4)
    assert sorted(row["offset"] for row in rows(given)) == [n for n in range(30) if n % 3 != 1]


def test_a_letter_without_a_copy_shows_the_record_of_its_topic(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def fill() -> None:
        async with Producer(kafka.bootstrap) as producer:
            await producer.send(topic, "there", key="k", headers=[("a", b"b")], partition=0)
            for offset in (0, 7):
                await producer.send(dead, None, headers=said(group, topic, 0, offset), partition=0)

    asyncio.run(fill())
    there, gone = rows(options(kafka, group))
    assert (there["key"], there["value"], there["has_record"]) == (b"k", b"there", True)
    assert there["headers"] == [{"key": "a", "value": b"b"}]
    assert (gone["key"], gone["value"], gone["headers"]) == (None, None, None)
    assert (gone["offset"], gone["has_record"]) == (7, False)


def test_what_a_column_cannot_show_is_null(kafka: LocalBroker) -> None:
    """Headers are what their writer likes."""
    most = 10**18 - 1
    topic, dead, group = jobs_and_letters(kafka)

    async def fill() -> None:
        async with Producer(kafka.bootstrap) as producer:
            odd = said(group, topic, most, most, delivery_count=most, failed_ms=most)
            await producer.send(dead, "v", headers=odd, partition=0)

    asyncio.run(fill())
    [row] = rows(options(kafka, group))
    assert (row["partition"], row["delivery_count"], row["failed_at"]) == (None, None, None)
    assert row["offset"] == most


@given(st.sets(st.integers(0, 60)), st.integers(1, 9))
def test_parts_have_all_offsets_and_are_full(some: set[int], most: int) -> None:
    offsets = normal((n, n) for n in some)
    found = list(parts(offsets, most))
    assert [n for part in found for a, b in part for n in range(a, b + 1)] == sorted(some)
    assert [size(part) for part in found[:-1]] == [most] * len(found[:-1])
    assert all(0 < size(part) <= most for part in found)
    assert list(parts(offsets, None)) == ([offsets] if some else [])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"deadLettersOf": ""}, "deadLettersOf is empty"),
        ({"where": "key =="}, "where: "),
        ({"states": "all"}, "leave one of the two options out"),
        ({"subscribe": "jobs"}, "errors.deadletterqueue.topic.name"),
        ({"kafka.group.id": "workers"}, "the group is named by deadLettersOf"),
        ({"startingOffsets": "earliest"}, "this reads dead letters"),
        ({"deadLetterTopc": "dlq"}, "did you mean deadLetterTopic"),
    ],
)
def test_invalid_options_of_letters(more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_letter_options({**OPTIONS, **more})


def test_a_group_without_a_dead_letter_topic(kafka: LocalBroker) -> None:
    _, dead, group = letters(kafka, 2)
    with pytest.raises(ConfigError, match="group 'nobody' names no dead-letter topic"):
        table(options(kafka, "nobody"))
    assert rows(options(kafka, "nobody", deadLetterTopic=dead)) == []
    assert len(rows(options(kafka, group, deadLetterTopic=dead))) == 2


# --- redrive --------------------------------------------------------------------------------------


def redriven(given: dict[str, str], some: pa.Table, **more: Any) -> LettersHandled:
    return asyncio.run(redrive_rows(parse_letter_options(given), some, **more))


def test_exactly_the_letters_of_the_rows_are_redriven_and_once(kafka: LocalBroker) -> None:
    topic, _, group = letters(kafka, 30)
    given = options(kafka, group)
    some = table({**given, "where": 'key == "k1"'})
    assert redriven(given, some).done == 10
    assert redriven(given, some).done == 0
    assert asyncio.run(values(kafka, topic)) == list(range(1, 30, 3))
    assert sorted(row["offset"] for row in rows(given)) == [n for n in range(30) if n % 3 != 1]
    assert redriven(given, some.slice(0, 0)) == LettersHandled()


def test_rows_redriven_to_another_topic(kafka: LocalBroker) -> None:
    topic, _, group = letters(kafka, 6)
    given = options(kafka, group)
    kafka.create_topic(f"{topic}-again", 2)
    assert redriven(given, table(given), to=f"{topic}-again", rate=1_000_000).done == 6
    assert asyncio.run(read_all(kafka, topic)) == []
    assert asyncio.run(values(kafka, f"{topic}-again")) == list(range(6))


def test_rows_of_other_letters_are_refused(kafka: LocalBroker) -> None:
    _, _, group = letters(kafka, 3)
    given = options(kafka, group)
    some = table(given)
    with pytest.raises(ConfigError, match=r"there are rows with group_id .* only those with 'x'"):
        redriven(
            {**given, "deadLettersOf": "x", "deadLetterTopic": some["letter_topic"][0].as_py()},
            some,
        )
    column = some.schema.get_field_index("letter_topic")
    moved = some.set_column(column, "letter_topic", pa.array(["elsewhere"] * 3))
    with pytest.raises(ConfigError, match="there are rows with letter_topic 'elsewhere'"):
        redriven(given, moved)
    column = some.schema.get_field_index("offset")
    with pytest.raises(ConfigError, match="is null in a row"):
        redriven(given, some.set_column(column, "offset", pa.array([1, None, 2], pa.int64())))
    # As after the topic was made anew: other letters stand at the rows' places.
    other = some.set_column(column, "offset", pa.array([90, 91, 92], pa.int64()))
    assert redriven(given, other).done == 0


@pytest.mark.spark
def test_letters_in_real_spark(spark: SparkSession, kafka: LocalBroker) -> None:
    topic, _, group = letters(kafka, 30, message="the disk is busy", cause="rejected")
    given = options(kafka, group)
    found = spark.read.format("kafka-share").options(**given).load()
    counts = found.groupBy("cause", "reason").count().collect()
    assert [tuple(row) for row in counts] == [("rejected", "the disk is busy", 30)]
    assert [
        row.own for row in found.where("offset = 4").selectExpr("headers[0].key AS own").collect()
    ] == ["own"]
    assert redrive(found.where("offset < 4"), given).done == 4

    async def in_a_notebook() -> LettersHandled:  # its cells run in the thread of a running loop
        return redrive(found.where("offset < 10"), given)

    assert asyncio.run(in_a_notebook()).done == 6
    assert asyncio.run(values(kafka, topic)) == list(range(10))
    assert found.count() == 30, "Spark plans a DataFrame's read once"
    assert spark.read.format("kafka-share").options(**given).load().count() == 20
    with pytest.raises(ConfigError, match="the column letter_offset is missing"):
        redrive(found.drop("letter_offset"), given)
