"""The record codec: compiled and in Python it reads and writes the same, as aiokafka does, and on
hostile bytes it finds what the walk finds.
"""

from __future__ import annotations

import ctypes
import gc
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sharegroup.model.errors import KafkaError
from sharegroup.records import compiled, pure, record_codec
from sharegroup.records.compiled_codec import FUNCTIONS, OBJECTS, codec_with
from sharegroup.records.pure_codec import PURE, Codec, Fields
from sharegroup.records.record_codec import BatchBuilder, records_in
from sharegroup.records.walk_result import Verdict
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    check_crc,
    parse_header,
)
from tests.records.bad import ZSTD, lies, of, packed
from tests.records.guarded import guarded
from tests.records.making import TIME_MS, Record, batch_of, record, records, sized, written, zigzag
from tests.records.strategies import damaged, one_record

COMPILED = codec_with(compiled.load())
CODECS: dict[str, Codec] = {"pure": PURE} | ({"compiled": COMPILED} if COMPILED else {})
COMPRESSIONS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
INT64 = st.integers(-(2**63), 2**63 - 1)
needs_library = pytest.mark.skipif(COMPILED is None, reason="SHAREGROUP_PURE, or no compiler here")


@pytest.fixture(params=sorted(CODECS))
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Codec:
    """Each codec, which is the one in use meanwhile."""
    found = CODECS[request.param]
    monkeypatch.setattr(record_codec, "IN_USE", found)
    return found


def read(codec: Codec, body: bytes, count: int, last: int | None = None, **more: int) -> Any:
    """The records of ``body``, and the verdict's name."""
    found, verdict = codec.read_records(
        body,
        0,
        len(body),
        count,
        count - 1 if last is None else last,
        more.get("base_offset", 0),
        more.get("timestamp", TIME_MS),
        bool(more.get("append_time", False)),
    )
    return found, Verdict(verdict).name


def by_aiokafka(batch: bytes | bytearray) -> list[Fields]:
    return [
        (one.offset, one.timestamp, one.key, one.value, one.headers)
        for one in DefaultRecordBatch(bytes(batch))
    ]


def test_a_library_that_is_there_is_used() -> None:
    assert (COMPILED is None) == (compiled.load() is None)
    assert (record_codec.IN_USE is PURE) == (COMPILED is None)


def test_without_a_library_or_a_lock_of_the_interpreter_python_does_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert codec_with(None) is None
    monkeypatch.setattr(sys, "abiflags", "t", raising=False)
    assert codec_with(compiled.load()) is None


def test_the_functions_of_python_stand_in_the_order_of_the_c_code() -> None:
    """Another order ends the process."""
    source = Path(compiled.__file__).with_name("record_codec.c").read_text()
    table = source.partition("static struct {")[2].partition("} python;")[0]
    assert tuple(re.findall(r"\(\*(Py\w+)\)\(", table)) == FUNCTIONS
    assert "*none, *true_object, *false_object, *value_error;" in table
    assert (None, True, False, ValueError) == OBJECTS


# --- reading --------------------------------------------------------------------------------------


@given(st.lists(one_record, min_size=1, max_size=8), st.integers(0, 2**62), st.integers(0, 9))
def test_batches_of_producers_are_read_as_by_aiokafka(
    made: list[Record], base_offset: int, before: int
) -> None:
    batch = base_offset.to_bytes(8, "big") + written(made)[8:]
    expected = by_aiokafka(batch)
    data = bytes(before) + batch
    for codec in CODECS.values():
        found = codec.read_records(
            data, before + HEADER_BYTES, len(data), len(made), len(made) - 1, base_offset,
            made[0][2], False,
        )  # fmt: skip
        assert found == (expected, Verdict.GOOD)


def as_written(headers: list[tuple[str, bytes | None]]) -> bytes:
    return zigzag(len(headers)) + b"".join(sized(n.encode()) + sized(v) for n, v in headers)


_NAMES_OF_HEADERS = st.sampled_from(["", "a", "b", "ab", "ä", "\N{SNOWMAN}"])


@given(
    st.lists(
        st.lists(st.tuples(_NAMES_OF_HEADERS, st.none() | st.binary(max_size=2)), max_size=20),
        min_size=2,
        max_size=8,
    )
)
def test_names_of_headers_that_come_again_are_read_as_they_are(
    headers: list[list[tuple[str, bytes | None]]],
) -> None:
    """The compiled codec makes a name once if the last record has it in the same place."""
    body = b"".join(record(i, headers=as_written(own)) for i, own in enumerate(headers))
    for codec in CODECS.values():
        found, verdict = read(codec, body, len(headers))
        assert ([one[4] for one in found], verdict) == (headers, "GOOD")


@needs_library
def test_the_garbage_collector_need_not_look_at_headers() -> None:
    """A letter has eleven of them: looking at each took a tenth of a redrive."""
    body = b"".join(record(i, headers=as_written([("a", b"1"), ("b", None)])) for i in range(3))
    assert COMPILED is not None
    found, _ = read(COMPILED, body, 3)
    pairs = [pair for one in found for pair in one[4]]
    assert not any(map(gc.is_tracked, pairs))
    assert len({id(name) for name, _ in pairs}) == 2


@given(
    damaged() | st.tuples(st.binary(max_size=60), st.integers(-3, 9)),
    INT64,
    INT64,
    st.integers(-1, 2**31 - 1),
)
@example((b"", 0), 0, 0, -1)
@example((records(3), 2**62), 0, 0, 2)
def test_any_bytes_are_read_as_far_as_the_walk_comes(
    body_and_count: tuple[bytes, int], base_offset: int, timestamp: int, last: int
) -> None:
    body, count = body_and_count
    walked = pure.walk(body, 0, len(body), count, last, dense=False, base_timestamp=0)
    found = [
        codec.read_records(body, 0, len(body), count, last, base_offset, timestamp, False)
        for codec in CODECS.values()
    ]
    assert all(one == found[0] for one in found)
    assert (len(found[0][0]), found[0][1]) == (walked.records, walked.verdict)


@needs_library
@given(damaged() | st.tuples(st.binary(max_size=60), st.integers(-3, 9)))
def test_nothing_is_read_past_the_end(body_and_count: tuple[bytes, int]) -> None:
    """The bytes end where a page ends that nobody may read: one byte further ends the process."""
    body, count = body_and_count
    expected = PURE.read_records(body, 0, len(body), count, 2**31 - 1, 0, 0, False)
    with guarded(body) as (address, start, end):
        data: Any = (ctypes.c_char * end).from_address(address)
        assert COMPILED is not None
        found = COMPILED.read_records(data, start, end, count, 2**31 - 1, 0, 0, False)
    assert found == expected


def test_all_fields(codec: Codec) -> None:
    parts = (b"a", None, b"", b"", "ü".encode(), b"x")
    headers = zigzag(3) + b"".join(map(sized, parts))
    body = record(0, None, b"v", timestamp_delta=-5) + record(3, b"", None, headers)
    assert read(codec, body, 2, 3, base_offset=70) == (
        [
            (70, TIME_MS - 5, None, b"v", []),
            (73, TIME_MS, b"", None, [("a", None), ("", b""), ("ü", b"x")]),
        ],
        "GOOD",
    )


def test_under_append_time_all_records_have_the_time_of_the_batch(codec: Codec) -> None:
    body = record(0, timestamp_delta=7) + record(1, timestamp_delta=-7)
    found, _ = read(codec, body, 2, timestamp=99, append_time=True)
    assert [one[1] for one in found] == [99, 99]
    batch = batch_of(body, 2, attributes=LOG_APPEND_TIME, max_timestamp=77)
    assert [one[1] for one in records_in(parse_header(batch), batch)] == [77, 77]


def test_sums_wrap_as_in_java(codec: Codec) -> None:
    body = record(1, timestamp_delta=2**63 - 1)
    [one], _ = read(codec, body, 1, 1, base_offset=2**63 - 1, timestamp=3)
    assert one[:2] == (-(2**63), -(2**63) + 2)


def test_a_header_name_that_is_not_utf_8_gets_replacement_characters(codec: Codec) -> None:
    for name in (b"\xff\xfe", b"a\xe2\x82", b"\xed\xa0\x80", b"ok\x80\x80"):
        body = record(0, headers=zigzag(1) + sized(name) + sized(b"h"))
        [one], _ = read(codec, body, 1)
        assert one[4] == [(name.decode("utf-8", "replace"), b"h")]


def test_each_record_has_its_own_list_of_headers(codec: Codec) -> None:
    first, second = read(codec, records(2), 2)[0]
    first[4].append(("mine", None))
    assert second[4] == []


def test_the_good_records_before_a_bad_one_are_returned(codec: Codec) -> None:
    found, verdict = read(codec, records(2) + record(2)[:-1] + b"\x09", 3)
    assert (len(found), verdict) == (2, "LENGTH")
    assert read(codec, records(2) + b"\0", 2)[1] == "MORE"
    assert [one[0] for one in read(codec, records(2) + b"\0", 2)[0]] == [0, 1]
    assert read(codec, records(2), 2**40) == (read(codec, records(2), 2)[0], "FEWER")
    assert read(codec, b"", -1) == ([], "GOOD")


def test_a_range_outside_of_the_data_is_refused(codec: Codec) -> None:
    for start, end in ((-1, 3), (0, 6), (4, 3)):
        with pytest.raises(ValueError, match="not within the data"):
            codec.read_records(bytes(5), start, end, 1, 0, 0, 0, False)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda d: memoryview(bytearray(d))])
def test_any_buffer_is_read(kind: Callable[[bytes], bytes], codec: Codec) -> None:
    body = records(3)
    assert read(codec, kind(body), 3) == read(codec, body, 3)
    assert read(codec, kind(b""), 0) == ([], "GOOD")
    batch = kind(batch_of(body, 3, base_offset=5))
    assert [one[0] for one in records_in(parse_header(batch), batch)] == [5, 6, 7]


@needs_library
def test_wrong_arguments_are_errors() -> None:
    assert COMPILED is not None
    untyped: Any = COMPILED.read_records
    for arguments in ((), (b"",), (b"", 0, 0, 0, 0, 0, 0, False, 1)):
        with pytest.raises(ValueError, match="seven numbers"):
            untyped(*arguments)
    with pytest.raises(TypeError):
        untyped("text", 0, 0, 0, 0, 0, 0, False)
    with pytest.raises(TypeError):
        untyped(b"", 0, 0, None, 0, 0, 0, False)
    with pytest.raises(OverflowError):
        untyped(b"", 0, 0, 2**63, 0, 0, 0, False)
    append: Any = COMPILED.new_writer(100)[0]
    with pytest.raises(ValueError, match="timestamp, key, value and headers"):
        append(1)
    for headers in (None, [None], [("a",)], [(b"a", b"b")], [("a", "b")]):
        with pytest.raises((TypeError, SystemError, IndexError)):
            append(0, None, None, headers)


@pytest.mark.parametrize(("bad", "kind"), lies().values(), ids=lies())
def test_a_batch_that_lies_is_refused(bad: bytes, kind: type[KafkaError], codec: Codec) -> None:
    with pytest.raises(kind):
        records_in(parse_header(bad), bad)


# --- writing --------------------------------------------------------------------------------------


@given(st.lists(one_record, min_size=1, max_size=8), st.integers(0, 20_000))
def test_records_are_written_and_refused_as_by_aiokafka(made: list[Record], bytes_max: int) -> None:
    theirs = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, bytes_max)
    taken: list[bool] = []
    for key, value, timestamp, headers in made:
        one = (sum(taken), timestamp, key, value, headers)
        # at the last byte its compiled writer and its writer in Python need not agree
        assume(theirs.size() + theirs.size_in_bytes(*one) != bytes_max)
        taken.append(theirs.append(*one) is not None)
    batch = bytes(theirs.build())
    header = parse_header(batch)
    for codec in CODECS.values():
        append, finish = codec.new_writer(bytes_max)
        assert [append(time, key, value, headers) for key, value, time, headers in made] == taken
        assert finish() == (
            batch[HEADER_BYTES:],
            header.record_count,
            header.base_timestamp,
            header.max_timestamp,
        )


@given(st.lists(st.tuples(one_record, INT64), max_size=8))
def test_what_is_written_is_read_again(made: list[tuple[Record, int]]) -> None:
    expected = [(n, time, r[0], r[1], r[3]) for n, (r, time) in enumerate(made)]
    for codec in CODECS.values():
        append, finish = codec.new_writer(2**40)
        assert all(append(time, one[0], one[1], one[3]) for one, time in made)
        body, count, base, latest = finish()
        found = codec.read_records(body, 0, len(body), count, count - 1, 0, base, False)
        assert found == (expected, Verdict.GOOD)
        times = [time for _, time in made] or [0]
        assert (base, latest) == (times[0], max(times))


def test_a_whole_batch_is_as_aiokafka_builds_it(codec: Codec) -> None:
    for transactional in (False, True):
        theirs = DefaultRecordBatchBuilder(2, 0, int(transactional), -1, -1, -1, 1 << 20)
        ours = BatchBuilder(0, 1 << 20, transactional=transactional)
        for n in range(200):
            fields = (TIME_MS - n % 7, b"k%d" % n, None if n % 5 else b"v" * n, [("h", b"%d" % n)])
            assert theirs.append(n, *fields) is not None
            assert ours.append(*fields)
        batch = ours.build()
        assert batch == bytes(theirs.build())
        check_crc(batch)
        assert bool(parse_header(batch).attributes & TRANSACTIONAL) == transactional


@pytest.mark.parametrize("compression", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_batches_of_every_compression(compression: int, codec: Codec) -> None:
    builder = BatchBuilder(compression, 1 << 20)
    for n in range(300):
        assert builder.append(TIME_MS + n, b"key", b"value %d" % n, [("h", None)])
    batch = builder.build()
    header = parse_header(batch)
    assert header.attributes == compression
    check_crc(batch)
    expected = [(n, TIME_MS + n, b"key", b"value %d" % n, [("h", None)]) for n in range(300)]
    assert records_in(header, batch) == expected == by_aiokafka(batch)


@pytest.mark.parametrize("compression", range(1, 5))
def test_what_compression_would_not_make_smaller_stays_plain(compression: int) -> None:
    value = random.Random(1).randbytes(2_000)
    builder = BatchBuilder(compression, 1 << 20, transactional=True)
    builder.append(TIME_MS, None, value, [])
    batch = builder.build()
    header = parse_header(batch)
    assert header.attributes & COMPRESSION_MASK == 0
    assert header.attributes & TRANSACTIONAL
    assert records_in(header, batch) == [(0, TIME_MS, None, value, [])]


def test_a_compressed_batch_of_another_writer_is_read(codec: Codec) -> None:
    batch = of(ZSTD, packed(ZSTD, records(10)))
    plain = batch_of(records(10), 10)
    assert records_in(parse_header(batch), batch) == records_in(parse_header(plain), plain)


def test_the_first_record_fits_and_the_others_to_the_byte(codec: Codec) -> None:
    def fill(bytes_max: int) -> tuple[list[bool], int]:
        append, finish = codec.new_writer(bytes_max)
        fits = [append(5, b"k" * n, b"v" * 70, [("h", b"x")] * n) for n in range(3)]
        return fits, len(finish()[0])

    everything = HEADER_BYTES + fill(1 << 20)[1]
    assert fill(everything)[0] == [True, True, True]
    assert fill(everything - 1)[0] == [True, True, False]
    for little in (0, -1, 1, -(2**62)):
        assert fill(little)[0] == [True, False, False]


def test_lengths_and_deltas_where_their_numbers_grow(codec: Codec) -> None:
    """One byte up to 63, two up to 8191, and so on."""
    append, finish = codec.new_writer(1 << 30)
    sizes = [at + more for at in (0, 64, 8192, 1 << 20) for more in (-1, 0, 1) if at + more >= 0]
    expected = []
    for n, size in enumerate(sizes):
        fields = (2**40 + (size << 20), b"k" * size, b"v" * size, [("n" * size, b"h" * size)])
        assert append(*fields)
        expected.append((n, *fields))
    body, count, base, _ = finish()
    assert codec.read_records(body, 0, len(body), count, count - 1, 0, base, False)[0] == expected


def test_many_records_and_many_headers(codec: Codec) -> None:
    append, finish = codec.new_writer(1 << 30)
    headers = [(f"h{n}", None) for n in range(9_000)]
    assert append(0, None, None, headers)
    assert all(append(0, None, None, []) for _ in range(9_000))
    body, count, base, _ = finish()
    found, verdict = codec.read_records(body, 0, len(body), count, count - 1, 0, base, False)
    assert (verdict, found[0][4], len(found), found[-1]) == (
        0, headers, 9_001, (9_000, 0, None, None, []),
    )  # fmt: skip


def test_a_record_that_cannot_be_written_leaves_the_batch_as_it_was(codec: Codec) -> None:
    append, finish = codec.new_writer(1 << 20)
    untyped: Any = append
    bad: list[tuple[tuple[Any, ...], type[Exception]]] = [
        (("now", None, None, []), TypeError),
        ((0, "text", None, []), TypeError),
        ((0, None, 7, []), TypeError),
        ((0, None, None, [("a", b"good"), ("b", "text")]), TypeError),
        ((0, None, None, [("\ud800", None)]), UnicodeEncodeError),
    ]
    for arguments, kind in bad:
        with pytest.raises(kind):
            untyped(*arguments)
    assert finish() == (b"", 0, 0, 0)
    assert append(3, b"k", b"v", [])
    for arguments, kind in bad:
        with pytest.raises(kind):
            untyped(*arguments)
    assert finish()[1:] == (1, 3, 3)
    with pytest.raises(ValueError, match="at least one record"):
        BatchBuilder(0, 100).build()


def test_writers_do_not_share_anything(codec: Codec) -> None:
    (first, finish_first), (second, finish_second) = codec.new_writer(99), codec.new_writer(99)
    assert first(1, b"a", None, [])
    assert second(2, b"b", None, [])
    del first, second
    gc.collect()
    assert finish_first()[1:] == (1, 1, 1)
    assert finish_second()[1:] == (1, 2, 2)
    assert finish_first()[0] != finish_second()[0]


def test_no_object_is_left_behind(codec: Codec) -> None:
    """A count of references that is wrong by one shows as memory that grows, or as a crash."""
    headers = zigzag(2) + b"".join(map(sized, (b"name", b"content", b"other", None)))
    good = b"".join(record(n, b"key%d" % n, b"v" * 40, headers, 1 << 40) for n in range(5))
    bad = [good[:-1], good + b"x", good[:-6] + b"\xff" * 6, good[:50], good.replace(b"na", b"n")]

    def work() -> None:
        for body in (good, *bad):
            codec.read_records(body, 0, len(body), 5, 4, 1 << 40, 1 << 40, False)
            codec.read_records(body, 0, len(body), 4, 4, 1 << 40, 1 << 40, True)
        append, finish = codec.new_writer(300)
        untyped: Any = append
        for n in range(9):
            append(1 << 40, b"key%d" % n, b"v" * 40, [("name", b"content")])
        with pytest.raises(TypeError):
            untyped(0, b"key", b"value", [("name", 5)])
        finish()

    for _ in range(20):
        work()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(200):
        work()
    gc.collect()
    assert sys.getallocatedblocks() - before < 150
