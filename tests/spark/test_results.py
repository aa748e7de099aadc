"""Result records from a sink's task: where they go, and that the task ends after they are there.

On our broker; ``test_sink`` writes results to Apache Kafka as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.model.errors import ConfigError, MessageTooLarge
from sharegroup.spark.ack_files import Inbox
from sharegroup.spark.sink.decisions import Decisions
from sharegroup.spark.sink.raw_text import NotText
from sharegroup.spark.sink.results import ResultError
from sharegroup.spark.sink.writer import ShareBatchWriter, TaskDone
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.topic_records import Record, records_of

pytestmark = pytest.mark.process

TYPES = {
    "topic": ("string", pa.string()),
    "partition": ("int", pa.int32()),
    "offset": ("bigint", pa.int64()),
    "ack": ("string", pa.string()),
    "key": ("string", pa.string()),
    "value": ("binary", pa.binary()),
    "result_topic": ("string", pa.string()),
}
PLAIN = ("topic", "partition", "key", "value")
ANSWERED = ("topic", "partition", "offset", "ack", "value", "result_topic")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


def writer(server: RunningServer, columns: Sequence[str], **more: str) -> ShareBatchWriter:
    fields = [(name, TYPES[name][0]) for name in columns]
    return ShareBatchWriter({"kafka.bootstrap.servers": server.bootstrap, **more}, fields)


def batch(columns: Sequence[str], *rows: Sequence[Any]) -> pa.RecordBatch:
    schema = pa.schema({name: TYPES[name][1] for name in columns})
    return pa.RecordBatch.from_pylist(
        [dict(zip(columns, row, strict=True)) for row in rows], schema=schema
    )


def unchecked(*values: bytes | None) -> pa.Array:
    """A column of strings as Spark makes it with ``CAST(value AS STRING)``."""
    return pa.array(values, pa.binary()).view(pa.string())


def decided(done: object) -> Decisions:
    assert isinstance(done, TaskDone)
    assert done.decisions is not None
    return done.decisions


def test_rows_go_where_their_columns_say(server: RunningServer, topic: str) -> None:
    rows = batch(PLAIN, (topic, 2, "k", b"v"), (topic, 0, None, None))
    writer(server, PLAIN).write(iter([rows]))
    found = sorted(records_of(server, topic, 2), key=lambda record: record.partition)
    assert found == [Record(None, None, (), 0), Record(b"k", b"v", (), 2)]


def test_a_row_may_be_answered_without_a_result(
    server: RunningServer, topic: str, tmp_path: Path
) -> None:
    location = str(tmp_path)
    asyncio.run(Inbox(location, "group", AckType.RELEASE).open(["orders"]))
    sink = writer(server, ANSWERED, ackLocation=location)
    rows = batch(
        ANSWERED,
        ("orders", 0, 5, "accept", b"done", topic),
        ("orders", 0, 6, "reject", b"bad", None),
    )
    message = sink.write(iter([rows]))
    assert [record.value for record in records_of(server, topic, 1)] == [b"done"]
    assert decided(message).records == 2
    sink.commit([message])
    assert len(list(tmp_path.glob("decisions-*"))) == 1


def test_a_record_that_the_broker_refuses_fails_the_task_before_it_answers(
    server: RunningServer, topic: str, tmp_path: Path
) -> None:
    rows = batch(ANSWERED, ("orders", 0, 5, "accept", bytes(2_000_000), topic))
    sink = writer(server, ANSWERED, ackLocation=str(tmp_path))
    with pytest.raises(MessageTooLarge):
        sink.write(iter([rows]))


def test_text_that_is_no_utf8_is_written_as_it_is(server: RunningServer, topic: str) -> None:
    values = unchecked(b"\xff\x00", "größer".encode(), None)
    sink = ShareBatchWriter(
        {"kafka.bootstrap.servers": server.bootstrap, "topic": topic},
        [("key", "string"), ("value", "string")],
    )
    sink.write(iter([pa.record_batch({"key": values, "value": values})]))
    found = {(record.key, record.value) for record in records_of(server, topic, 3)}
    assert found == {(one, one) for one in (b"\xff\x00", "größer".encode(), None)}


def test_a_name_that_is_no_utf8_fails_with_a_sentence_about_its_column(
    server: RunningServer, topic: str
) -> None:
    fields = [("value", "string"), ("headers", "array<struct<key:string,value:binary>>")]
    options = {"kafka.bootstrap.servers": server.bootstrap, "includeHeaders": "true"}
    pairs = pa.StructArray.from_arrays([unchecked(b"\xff"), unchecked(b"v")], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pairs)
    rows = pa.record_batch({"value": unchecked(b"v"), "headers": headers})
    sink = ShareBatchWriter({**options, "topic": topic}, fields)
    with pytest.raises(NotText, match=r"the column headers has b'\\xff', which is no UTF-8 text"):
        sink.write(iter([rows]))
    rows = pa.record_batch({"value": unchecked(b"v"), "topic": unchecked(b"\xff")})
    sink = ShareBatchWriter(options, [("value", "string"), ("topic", "string")])
    with pytest.raises(NotText, match=r"the column topic has b'\\xff', which is no UTF-8 text"):
        sink.write(iter([rows]))


def test_a_row_that_names_no_topic(server: RunningServer, topic: str) -> None:
    rows = batch(PLAIN, (topic, 2, "k", b"v"), (None, 0, None, None))
    with pytest.raises(ResultError, match="topic is null in some rows"):
        writer(server, PLAIN).write(iter([rows]))


def test_a_missing_topic_is_created_only_on_request(server: RunningServer, name: str) -> None:
    rows = batch(PLAIN, (name, 0, None, b"v"))
    with pytest.raises(ResultError, match=f"there is no topic '{name}'.*createTopics"):
        writer(server, PLAIN).write(iter([rows]))
    writer(server, PLAIN, createTopics="true").write(iter([rows]))
    assert [record.value for record in records_of(server, name, 1)] == [b"v"]


def test_answers_without_a_source_are_refused(server: RunningServer, tmp_path: Path) -> None:
    columns = ("topic", "partition", "offset", "ack")
    sink = writer(server, columns, ackLocation=str(tmp_path))
    message = sink.write(iter([batch(columns, ("orders", 0, 5, "accept"))]))
    with pytest.raises(ConfigError, match="no kafka-share source reads ackLocation"):
        sink.commit([message])
