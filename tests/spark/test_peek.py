"""Looking at a queue: `spark.read.format("kafka-share")`."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from sharegroup import sync
from sharegroup.client import AckType
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicPartition
from sharegroup.spark.data_source import KafkaShareDataSource
from sharegroup.spark.options.snapshot import parse_peek_options
from sharegroup.spark.snapshot.reader import PeekReader, PeekTask
from tests.apache_kafka.broker import KafkaBroker
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.spark.conftest import lags
from tests.spark.readers import until

OPTIONS = {
    "kafka.bootstrap.servers": "127.0.0.1:9092",
    "kafka.group.id": "g",
    "subscribe": "jobs",
    "states": "all",
}


def options(server: RunningServer, topic: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": server.bootstrap,
        "kafka.group.id": topic,
        "subscribe": topic,
        "states": "all",
        **more,
    }


def without(given: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in given.items() if key != name}


def rows(given: dict[str, str], columns: list[str] | None = None) -> list[dict[str, Any]]:
    """What Spark would read, task by task, each as it arrives on an executor."""
    source = KafkaShareDataSource(given)
    kinds = {field[0]: field[1].lower() for field in fields_of(source.schema())}
    fields = [(name, kinds[name]) for name in columns or kinds]
    reader = PeekReader(given, fields)
    tasks = [pickle.loads(pickle.dumps(task)) for task in reader.partitions()]
    batches = [batch for task in tasks for batch in reader.read(task)]
    return [row for batch in batches for row in batch.to_pylist()]


def fields_of(ddl: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in (part.split(" ", 1) for part in ddl.split(", "))]


@pytest.fixture
def queue(server: RunningServer, name: str) -> str:
    """Ten records in partition 0 of two: 0 accepted, 1 rejected, 2 released, the others held when
    :func:`held` is entered."""
    admin.Admin(server.bootstrap).create_topic(name, partitions=2)
    with sync.Admin(server.bootstrap) as control:
        control.begin_group_at(name, "earliest")
    with sync.Producer(server.bootstrap) as producer:
        for number in range(10):
            producer.enqueue(name, b"%d" % number, partition=0, headers=[("n", b"%d" % number)])
    return name


@contextmanager
def held(server: RunningServer, topic: str) -> Iterator[str]:
    """A member that has answered for the first three records and holds the others; its id."""
    with sync.ShareConsumer(
        topic,
        group_id=topic,
        bootstrap_servers=server.bootstrap,
        acknowledgement_mode="explicit",
        max_poll_records=10,
    ) as consumer:
        records: list[Any] = []
        while len(records) < 10:
            records += consumer.poll(timeout_ms=1_000)
        kinds = (AckType.ACCEPT, AckType.REJECT, AckType.RELEASE)
        for record, kind in zip(records, kinds, strict=False):
            consumer.acknowledge(record, kind)
        assert set(consumer.commit().values()) == {None}
        yield consumer.member_id


def known_elsewhere(server: RunningServer, queue: str) -> None:
    """Let the group exist, without having begun with its topic."""
    other = f"{queue}-other"
    admin.Admin(server.bootstrap).create_topic(other, partitions=1)
    start = {TopicPartition(other, 0): 0}
    with sync.Admin(server.bootstrap) as control:
        until(lambda: set(control.alter_share_group_offsets(queue, start).values()) == {None})


def test_each_record_has_its_state(server: RunningServer, queue: str) -> None:
    with held(server, queue) as member:
        before = lags(server, queue)
        found = {row["offset"]: row for row in rows(options(server, queue, includeHeaders="true"))}
        assert lags(server, queue) == before
    assert [found[at]["value"] for at in sorted(found)] == [b"%d" % at for at in sorted(found)]
    assert found[9]["headers"] == [{"key": "n", "value": b"9"}]
    assert (found[2]["state"], found[2]["delivery_count"]) == ("available", 1)
    if isinstance(server, KafkaBroker):  # it does not tell who holds what, and is a write late
        assert {found[at]["state"] for at in range(3, 10)} == {"available"}
    else:
        assert min(found) == 2
        assert {found[at]["state"] for at in range(3, 10)} == {"acquired"}
        assert {found[at]["member_id"] for at in range(3, 10)} == {member}
        assert all(0 < found[at]["lock_ms"] <= 30_000 for at in range(3, 10))
    assert (found[2]["member_id"], found[2]["lock_ms"]) == (None, None)


def test_bounds_states_and_limits(server: RunningServer, queue: str) -> None:
    with held(server, queue):
        everything = options(server, queue, startingOffsets="earliest")
        found = {row["offset"]: row["state"] for row in rows(everything, ["offset", "state"])}
        assert list(found) == list(range(10))
        assert found[0] == "acknowledged"
        assert found[1] in ("acknowledged", "archived")  # before the start offset: not known
        assert found[2] == "available"

        part = json.dumps({queue: {"0": 2}})
        end = json.dumps({queue: {"0": 5, "1": -1}})
        some = options(server, queue, startingOffsets=part, endingOffsets=end)
        assert [row["offset"] for row in rows(some)] == [2, 3, 4]
        first = options(server, queue, startingOffsets=part, maxRecordsPerTopicPartition="1")
        assert [row["offset"] for row in rows(first)] == [2]
        done = options(server, queue, startingOffsets="earliest", states="acknowledged, archived")
        assert [row["offset"] for row in rows(done)] == [0, 1]


def test_a_group_that_has_not_begun_sees_what_it_would_begin_with(
    server: RunningServer, queue: str
) -> None:
    known_elsewhere(server, queue)
    found = rows(options(server, queue), ["state", "delivery_count", "value"])
    assert found == [
        {"state": "available", "delivery_count": 0, "value": b"%d" % number} for number in range(10)
    ]
    with sync.Admin(server.bootstrap) as control:
        control.alter_configs("group", queue, {"share.auto.offset.reset": "latest"})
    assert rows(options(server, queue)) == []
    with sync.Admin(server.bootstrap) as control:
        control.alter_configs("group", queue, {"share.auto.offset.reset": "by_duration:PT1H"})
    assert len(rows(options(server, queue))) == 10


def test_one_kafka_partition_for_several_tasks(server: RunningServer, queue: str) -> None:
    known_elsewhere(server, queue)
    given = options(server, queue, maxRecordsPerPartition="4")
    reader = PeekReader(given, [("state", "string"), ("offset", "bigint")])
    tasks = reader.partitions()
    assert len(tasks) == 3
    assert all(isinstance(task, PeekTask) for task in tasks)
    batches = [batch for task in tasks for batch in reader.read(task)]
    table = pa.Table.from_batches(batches)
    assert table.schema == pa.schema([("state", pa.string()), ("offset", pa.int64())])
    assert table["offset"].to_pylist() == list(range(10))


def test_unknown_groups_and_topics_of_a_snapshot(server: RunningServer, queue: str) -> None:
    with pytest.raises(ConfigError, match="there is no share group 'nobody'"):
        rows(options(server, queue) | {"kafka.group.id": "nobody"})
    with held(server, queue), pytest.raises(ConfigError, match="does not have all topics"):
        rows(options(server, queue) | {"subscribe": "nothing"})
    with pytest.raises(ConfigError, match="no topic matches"):
        rows(without(options(server, queue), "subscribe") | {"subscribePattern": "nothing.*"})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"states": "lost"}, "states is 'lost': write all, or some of available, acquired"),
        ({"subscribePattern": "j.*"}, "either .* or a pattern in subscribePattern"),
        ({"startingOffsets": "latest"}, "startingOffsets is 'latest': write earliest, or offsets"),
        ({"startingOffsets": '{"jobs":{"0":-1}}'}, "such as .*-2"),
        ({"startingOffsets": '{"jobs":3}'}, "write earliest, or offsets"),
        ({"endingOffsets": "[1]"}, "write latest, or offsets"),
        ({"endingOffsets": '{"other":{"0":3}}'}, "endingOffsets names other, which is not in"),
        ({"maxOffsetsPerTrigger": "1"}, "spark.read looks at a queue and holds nothing"),
        ({"endingTimestamp": "1"}, "use startingOffsets and endingOffsets"),
    ],
)
def test_invalid_options(more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_peek_options(OPTIONS | more)


def test_a_stream_takes_no_states() -> None:
    source = KafkaShareDataSource(without(OPTIONS, "states"))
    assert "state" not in [name for name, _ in fields_of(source.schema())]


def test_a_task_without_a_partition_has_no_rows() -> None:
    """Spark makes one when there is nothing to see."""
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.group.id": "g", "states": "all"}
    reader = PeekReader({**given, "subscribe": "t"}, [("state", "string"), ("offset", "bigint")])
    assert list(reader.read(None)) == []  # type: ignore[arg-type]
