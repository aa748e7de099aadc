"""Record batches to rows: compared, record by record, with aiokafka's reader on the same bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from sharegroup.arrow.records import LOCKSTEP_BATCHES_MIN
from sharegroup.arrow.rows import RowBuilder
from sharegroup.arrow.schema import COLUMNS, arrow_schema, check_columns, column_names
from sharegroup.model.dates import DATE_MAX_MS
from sharegroup.model.errors import CorruptMessage
from sharegroup.records import walk
from sharegroup.records.batches import end_offset
from sharegroup.spark.slices import Acquired
from sharegroup.wire.batch import CONTROL, LOG_APPEND_TIME
from tests.records.bad import lies


@pytest.fixture(params=["compiled", "numpy"], autouse=True, scope="module")
def in_use(request: pytest.FixtureRequest) -> Iterator[None]:
    """The walk that is installed, and NumPy's."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(walk, "LIBRARY", None)
        yield


Record = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALL = [Acquired(0, 2**40, 1)]
ATTRIBUTES_AT, LAST_DELTA_AT, MAX_TIMESTAMP_AT = 22, 23, 35


def encoded(records: list[Record], *, base_offset: int = 0, codec: int = 0) -> bytearray:
    """One batch by aiokafka's writer."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for at, (key, value, timestamp, headers) in enumerate(records):
        assert builder.append(at, timestamp, key, value, headers) is not None
    batch = builder.build()
    batch[:8] = base_offset.to_bytes(8, "big")
    return batch


def signed(batch: bytearray) -> bytes:
    """The batch with its checksum made anew, after something in it was changed."""
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def decoded(data: bytes, ranges: list[Acquired] = ALL) -> list[dict[str, Any]]:
    builder = RowBuilder(column_names(include_headers=True), "orders", 3, ranges)
    batches = list(builder.rows(memoryview(data)))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == arrow_schema(column_names(include_headers=True))
    return [row for batch in batches for row in batch.to_pylist()]


def by_aiokafka(data: bytes) -> list[tuple[Any, ...]]:
    reader, rows = MemoryRecords(data), []
    while (batch := reader.next_batch()) is not None:
        rows += [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    return rows


def as_aiokafka(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            row["offset"],
            int(row["timestamp"].timestamp() * 1000 + 0.5),
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"] or ()],
        )
        for row in rows
    ]


field = st.none() | st.binary(max_size=12) | st.integers(60, 9000).map(lambda n: b"x" * n)
header = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5))
record = st.tuples(field, field, st.integers(0, 2**41), st.lists(header, max_size=3))
batches = st.lists(
    st.tuples(st.lists(record, min_size=1, max_size=6), st.integers(0, 4), st.integers(0, 9)),
    min_size=1,
    max_size=5,
)


@given(batches)
def test_records_in_any_codec_decode_as_in_aiokafka(layout: list[tuple]) -> None:
    data, offset = b"", 0
    for records, codec, gap in layout:
        data += encoded(records, base_offset=offset + gap, codec=codec)
        offset += gap + len(records)
    rows = decoded(data)
    assert as_aiokafka(rows) == by_aiokafka(data)
    assert {(row["topic"], row["partition"], row["delivery_count"]) for row in rows} == {
        ("orders", 3, 1)
    }
    assert end_offset(memoryview(data)) == offset


@pytest.mark.parametrize("size", [1, 30, 100, 20_000], ids=lambda size: f"{size}-bytes")
def test_many_batches_are_walked_in_lockstep(size: int) -> None:
    lengths = [(at * 7) % 5 + 1 for at in range(2 * LOCKSTEP_BATCHES_MIN)]
    data, offset = b"", 0
    for length in lengths:
        records: list[Record] = [(None, b"v" * (size + n), 5, []) for n in range(length)]
        data += encoded(records, base_offset=offset)
        offset += length
    assert as_aiokafka(decoded(data)) == by_aiokafka(data)


def test_only_acquired_ranges_are_returned_with_their_delivery_counts() -> None:
    data = b"".join(
        bytes(encoded([(None, b"%d" % n, 0, []) for n in range(at, at + 10)], base_offset=at))
        for at in range(0, 100, 10)
    )
    ranges = [Acquired(3, 4, 2), Acquired(9, 11, 1), Acquired(55, 55, 5), Acquired(98, 120, 3)]
    rows = [(row["offset"], row["value"], row["delivery_count"]) for row in decoded(data, ranges)]
    wanted = [(n, b"%d" % n, c) for f, last, c in ranges for n in range(f, min(last, 99) + 1)]
    assert rows == wanted


def test_header_keys_that_are_no_text_do_not_stop_the_stream() -> None:
    batch = encoded([(None, b"a", 0, [("ab", b"x")])])
    at = batch.index(b"ab")
    batch[at : at + 2] = b"\xff\xfe"
    (row,) = decoded(signed(batch))
    assert row["headers"] == [{"key": "\ufffd\ufffd", "value": b"x"}]


def test_control_batches_are_left_out() -> None:
    control = encoded([(b"\0\0\0\1", b"marker", 0, [])], base_offset=1)
    control[ATTRIBUTES_AT] |= CONTROL
    data = bytes(encoded([(None, b"a", 0, [])])) + signed(control)
    assert [row["value"] for row in decoded(data)] == [b"a"]
    assert end_offset(memoryview(data)) == 2


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = encoded([(None, b"a", 1_000, []), (None, b"b", 5_000, [])])
    batch[ATTRIBUTES_AT] |= LOG_APPEND_TIME
    batch[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = (77_000).to_bytes(8, "big")
    assert [row[1] for row in as_aiokafka(decoded(signed(batch)))] == [77_000, 77_000]


def test_a_batch_truncated_by_the_byte_limit_is_left_for_the_next_fetch() -> None:
    data = bytes(encoded([(None, b"a", 0, [])])) + bytes(encoded([(None, b"b", 0, [])]))[:-1]
    assert len(decoded(data)) == 1
    assert end_offset(memoryview(data)) == 1
    assert end_offset(memoryview(data[:60])) is None


@given(st.integers(0), st.integers(1, 255), st.integers(0, 4))
def test_damage_never_gives_wrong_rows(at: int, flip: int, codec: int) -> None:
    batch = encoded([(b"key", b"value" * n, n, [("h", b"x")]) for n in range(9)], codec=codec)
    batch[61 + at % (len(batch) - 61)] ^= flip
    with pytest.raises(CorruptMessage):
        decoded(bytes(batch))  # the checksum tells
    with contextlib.suppress(CorruptMessage):
        decoded(signed(batch))  # a producer that signs nonsense: it gives valid rows, or this error


def test_the_timestamp_type_of_a_record() -> None:
    appended = encoded([(None, b"b", 5, []), (None, b"c", 6, [])], base_offset=1)
    appended[ATTRIBUTES_AT] |= LOG_APPEND_TIME
    by_producer = bytes(encoded([(None, b"a", 5, [])]))
    builder = RowBuilder(("offset", "timestampType"), "t", 0, ALL)
    for data, expected in ((by_producer, [0]), (by_producer + signed(appended), [0, 1, 1])):
        (batch,) = builder.rows(memoryview(data))
        assert batch.column("timestampType").to_pylist() == expected


def test_no_time_and_one_that_no_date_can_hold_are_null() -> None:
    wrapped = 18_448_444_073_709_552  # times 1,000 it is a day in 2023
    times = [-1, 0, DATE_MAX_MS, DATE_MAX_MS + 1, 1_700_000_000_000_000, wrapped, 2**63 - 1]
    for only in (times, times[:3], times[3:]):
        data = b"".join(
            encoded([(None, b"v", time, [])], base_offset=at) for at, time in enumerate(only)
        )
        found = []
        for batch in RowBuilder(("timestamp",), "t", 0, ALL).rows(memoryview(data)):
            batch.validate(full=True)
            found += [row["timestamp"] for row in batch.to_pylist()]
        right = [
            EPOCH + timedelta(milliseconds=time) if 0 <= time <= DATE_MAX_MS else None
            for time in only
        ]
        assert found == right


def test_an_offset_outside_of_its_batch_is_damage() -> None:
    batch = encoded([(None, b"a", 0, []), (None, b"b", 0, [])], base_offset=5)
    batch[LAST_DELTA_AT : LAST_DELTA_AT + 4] = (0).to_bytes(4, "big")
    with pytest.raises(CorruptMessage, match="cannot have 2 records"):
        decoded(signed(batch))


def test_columns_may_be_left_out_and_reordered() -> None:
    columns = check_columns([("offset", "bigint"), ("value", "binary")])
    (batch,) = RowBuilder(columns, "t", 0, ALL).rows(memoryview(encoded([(b"k", b"v", 0, [])])))
    assert batch.to_pylist() == [{"offset": 0, "value": b"v"}]
    assert batch.schema.names == ["offset", "value"]


def test_the_arrow_schema_is_the_one_that_spark_derives() -> None:
    headers = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
    schema = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
        .add("headers", headers)
        .add("delivery_count", ShortType())
    )
    assert arrow_schema(list(COLUMNS)) == to_arrow_schema(schema, timezone="UTC")
    assert {field.name: field.dataType.simpleString() for field in schema} == COLUMNS


@pytest.mark.parametrize(("bad", "error"), lies().values(), ids=lies())
def test_inconsistent_batches_give_no_rows(bad: bytes, error: type[Exception]) -> None:
    for columns in (["offset"], column_names(include_headers=True)):
        builder = RowBuilder(columns, "orders", 3, ALL)
        with pytest.raises(CorruptMessage):
            list(builder.rows(memoryview(bad)))


def test_batches_out_of_order_are_damage() -> None:
    first, second = (bytes(encoded([(None, b"a", 0, [])], base_offset=at)) for at in (5, 6))
    assert [row["offset"] for row in decoded(first + second)] == [5, 6]
    for data in (second + first, first + first):
        with pytest.raises(CorruptMessage, match="order"):
            decoded(data)


@given(
    st.lists(st.lists(header, max_size=4), min_size=1, max_size=90),
    st.integers(1, 9),
)
def test_headers_of_many_records(layout: list[list], wide: int) -> None:
    layout = [*layout, [("a", b"b")] * wide * 40]
    data = bytes(encoded([(None, b"v", 0, headers) for headers in layout]))
    rows = decoded(data)
    assert [[(one["key"], one["value"]) for one in row["headers"] or ()] for row in rows] == layout
    assert [row["headers"] is None for row in rows] == [not headers for headers in layout]
