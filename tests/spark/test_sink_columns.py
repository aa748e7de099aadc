"""What a DataFrame's columns mean to the sink; what they cannot mean is said before it runs."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from sharegroup.arrow.schema import COLUMNS
from sharegroup.model.errors import ConfigError
from sharegroup.spark.data_source import KafkaShareDataSource
from sharegroup.spark.options.sink import parse_sink_options
from sharegroup.spark.sink.columns import SinkColumns, check_sink

ACK = {"topic": "string", "partition": "int", "offset": "bigint", "ack": "string"}
ACKS = {"ackLocation": "/mnt/acks"}
SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def check(options: dict[str, str], types: dict[str, str], *, complete: bool = False) -> SinkColumns:
    return check_sink(parse_sink_options(options), list(types.items()), complete=complete)


def test_only_acknowledging_needs_no_broker() -> None:
    found = check(ACKS, {**ACK, "delay_ms": "int", "timestamp": "timestamp"})
    assert found == SinkColumns(True, False, None, None, None, None)


def test_results_beside_decisions() -> None:
    one_topic = check({**ACKS, **SERVERS, "topic": "out"}, {**ACK, "value": "binary"})
    assert one_topic == SinkColumns(True, True, None, None, None, None)
    types = {**ACK, "value": "string", "key": "binary", "result_topic": "string"}
    by_row = check({**ACKS, **SERVERS}, types)
    assert by_row == SinkColumns(True, True, "result_topic", None, "key", None)


def test_without_ack_it_writes_like_sparks_own_sink() -> None:
    headers = "array<struct<key:string,value:binary>>"
    types = {"topic": "string", "partition": "int", "value": "string", "headers": headers}
    found = check(SERVERS, types)
    assert found == SinkColumns(False, True, "topic", "partition", None, "headers")
    found = check({**SERVERS, "topic": "out", "includeHeaders": "false"}, types)
    assert found == SinkColumns(False, True, None, "partition", None, None)


def test_the_options_that_spark_adds_and_the_case_of_names() -> None:
    given = {"checkpointlocation": "/mnt/c", "queryname": "q", "acklocation": "/mnt/acks"}
    assert check(given, ACK).acknowledges


def test_the_columns_of_the_source_may_stay() -> None:
    found = check(SERVERS, dict(COLUMNS))
    assert found == SinkColumns(False, True, "topic", "partition", "key", "headers")


def without(name: str) -> dict[str, str]:
    return {column: kind for column, kind in ACK.items() if column != name}


@pytest.mark.parametrize(
    ("options", "types", "sentence"),
    [
        (ACKS, without("topic"), "the column topic is missing beside ack"),
        (ACKS, without("partition"), "the column partition is missing beside ack"),
        (ACKS, without("offset"), "the column offset is missing beside ack"),
        (ACKS, {**ACK, "offset": "string"}, "the column offset is string: cast it to"),
        (ACKS, {**ACK, "ack": "boolean"}, "the column ack is boolean"),
        (ACKS, {**ACK, "delay_ms": "double"}, "the column delay_ms is double"),
        ({}, ACK, "ackLocation is missing"),
        (ACKS, {**ACK, "value": "binary"}, "no topic to write it to"),
        ({**ACKS, "topic": "out"}, ACK, "the column value is missing"),
        ({**ACKS, "topic": "out"}, {**ACK, "value": "binary"}, "kafka.bootstrap.servers is miss"),
        (
            {**ACKS, **SERVERS, "topic": "out"},
            {**ACK, "value": "binary", "result_topic": "string"},
            "exclude each other",
        ),
        ({**SERVERS, "topic": "out"}, {"value": "binary", "hedaers": "string"}, "mean headers"),
        ({**SERVERS, "topic": "out"}, {"value": "binary", "Key": "string"}, "did you mean key"),
        ({**SERVERS, "topic": "out"}, {"value": "binary", "colour": "int"}, r'drop\("colour"\)'),
        (SERVERS, {"value": "binary", "result_topic": "string"}, "goes with the column ack"),
        (ACKS, {**ACK, "delay": "int"}, "did you mean delay_ms"),
        (SERVERS, {"offset": "bigint"}, "neither a column ack nor a column value"),
        (SERVERS, {"value": "binary"}, "no topic is named"),
        ({**SERVERS, "topic": "out"}, {"value": "int"}, "the column value is int"),
        ({**SERVERS, **ACKS, "topic": "out"}, {"value": "binary"}, "needs the column ack"),
    ],
)
def test_incompatible_options_and_columns(
    options: dict[str, str], types: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check(options, types)


def test_complete_mode_cannot_acknowledge() -> None:
    with pytest.raises(ConfigError, match="append mode"):
        check(ACKS, ACK, complete=True)


def test_a_topic_cannot_be_overwritten() -> None:
    source = KafkaShareDataSource({**SERVERS, "topic": "out"})
    rows = StructType().add("value", "string")
    source.writer(rows, overwrite=False)
    with pytest.raises(ConfigError, match=r'cannot be overwritten: write .mode\("append"\)'):
        source.writer(rows, overwrite=True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"asyncProgressTrackingEnabled": "true"}, "asyncprogresstrackingenabled is not available"),
        ({"ackMode": "explicit"}, "an option of the source"),
        ({"kafka.transactional.id": "t"}, "without transactions"),
        ({"acklocatoin": "/mnt/acks"}, "did you mean ackLocation"),
        ({"ackLocation": "s3://bucket/acks"}, "object stores are not supported"),
    ],
)
def test_options_refused_by_a_sink(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_sink_options(options)
