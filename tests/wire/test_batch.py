"""Batch headers and small batches, with aiokafka's record module as the foreign judge."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import CorruptMessage, UnsupportedCompressionType
from sharegroup.model.limits import SNAPPY_RATIO_MAX
from sharegroup.wire.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    append_time_header,
    batch_bounds,
    check_crc,
    crc_of,
    decode_batch,
    encode_batch,
    end_offset_of,
    parse_header,
    parse_headers,
    stamp,
    stamped_prefix,
)
from sharegroup.wire.batch import (
    walk as walk_batches,
)
from sharegroup.wire.compression import SNAPPY, decompress

FIELD = st.one_of(st.none(), st.binary(max_size=200))
RECORDS = st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=100)


@given(records=RECORDS, timestamp=st.integers(0, 2**41), base=st.integers(0, 2**40))
def test_a_foreign_decoder_reads_our_batches(
    records: list[tuple[bytes | None, bytes | None]], timestamp: int, base: int
) -> None:
    data = encode_batch(records, timestamp_ms=timestamp, base_offset=base, leader_epoch=3)
    foreign = DefaultRecordBatch(data)
    assert foreign.validate_crc()
    read = [(record.offset, record.timestamp, record.key, record.value) for record in foreign]
    assert read == [(base + delta, timestamp, *record) for delta, record in enumerate(records)]
    assert list(decode_batch(data)) == read
    check_crc(data)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_our_decoder_reads_foreign_batches(codec: int) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for number in range(50):
        assert builder.append(
            number,
            timestamp=1000 - number,
            key=b"k" * number,
            value=b"v" * number * 9,
            headers=[("header", b"x")],
        )
    data = bytes(builder.build())
    check_crc(data)
    assert list(decode_batch(data)) == [
        (number, 1000 - number, b"k" * number, b"v" * number * 9) for number in range(50)
    ]
    assert parse_header(data).max_timestamp == 1000


def test_headers_of_several_batches() -> None:
    first = encode_batch([(None, b"a"), (None, b"b")], timestamp_ms=5, base_offset=10)
    second = encode_batch(
        [(b"k", None)],
        timestamp_ms=6,
        base_offset=12,
        producer_id=8,
        producer_epoch=1,
        base_sequence=44,
    )
    headers = parse_headers(first + second)
    assert [header.length for header in headers] == [len(first), len(second)]
    assert [header.record_count for header in headers] == [2, 1]
    assert headers[1].producer_id == 8
    assert headers[1].base_sequence == 44
    assert batch_bounds(first + second) == [(10, 11), (12, 12)]
    assert batch_bounds(memoryview(first)) == [(10, 11)]
    assert batch_bounds(b"") == []
    assert parse_headers(b"") == []


@pytest.mark.parametrize("walk", [parse_headers, batch_bounds])
def test_a_walk_refuses_what_is_not_whole_batches(walk: Callable[[bytes], object]) -> None:
    data = encode_batch([(None, b"abc")], timestamp_ms=5)
    for end in range(1, len(data)):
        with pytest.raises(CorruptMessage):
            walk(data[:end])
        with pytest.raises(CorruptMessage):
            walk(data + data[:end])
    for position, value in ((16, 1), (8, 0xFF), (11, 3)):
        bad = bytearray(data)
        bad[position] = value
        with pytest.raises(CorruptMessage):
            walk(bytes(bad))


@given(junk=st.binary(max_size=300))
def test_junk_is_refused_and_nothing_worse(junk: bytes) -> None:
    for walk in (parse_headers, batch_bounds, lambda data: list(decode_batch(data))):
        if junk:
            with pytest.raises(CorruptMessage):
                walk(junk)


@given(junk=st.binary(max_size=100), count=st.integers(0, 50))
def test_junk_records_under_a_good_header_are_refused_or_read(junk: bytes, count: int) -> None:
    data = bytearray(encode_batch([(None, None)], timestamp_ms=1)[:HEADER_BYTES] + junk)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[57:61] = count.to_bytes(4, "big")
    try:
        assert len(list(decode_batch(bytes(data)))) == count
    except CorruptMessage:
        assert count


def test_a_flipped_bit_is_seen() -> None:
    data = encode_batch([(b"key", b"value")], timestamp_ms=5)
    for position in range(17, len(data)):
        bad = bytearray(data)
        bad[position] ^= 1
        with pytest.raises(CorruptMessage):
            check_crc(bad)


def test_stamps() -> None:
    data = encode_batch([(b"key", b"value")] * 3, timestamp_ms=5)
    stamped = bytearray(data)
    stamp(stamped, 1000, 7)
    check_crc(stamped)
    header = parse_header(stamped)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (1000, 7, 1002)
    assert stamped_prefix(parse_header(data), 1000, 7) + data[16:] == stamped

    stamp(stamped, 2000, 8, 99)
    check_crc(stamped)
    header = parse_header(stamped)
    assert header.attributes == LOG_APPEND_TIME
    assert (header.base_timestamp, header.max_timestamp) == (5, 99)
    assert {timestamp for _, timestamp, _, _ in decode_batch(stamped)} == {99}
    made = append_time_header(data, parse_header(data), 2000, 8, 99)
    assert made + data[HEADER_BYTES:] == stamped


def compressed(codec: int, records: bytes) -> bytes:
    data = bytearray(encode_batch([(None, b"a")], timestamp_ms=1)[:HEADER_BYTES] + records)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[21:23] = codec.to_bytes(2, "big")
    data[17:21] = crc_of(data).to_bytes(4, "big")
    return bytes(data)


def test_codecs_that_fail() -> None:
    for codec in (1, 2, 3, 4):
        with pytest.raises(CorruptMessage):
            list(decode_batch(compressed(codec, b"this is not compressed")))
    with pytest.raises(UnsupportedCompressionType):
        list(decode_batch(compressed(5, b"")))


def test_a_bare_snappy_block_is_read() -> None:
    records = encode_batch([(b"k", b"v" * 100)], timestamp_ms=1)[HEADER_BYTES:]
    data = compressed(2, bytes(cramjam.snappy.compress_raw(records)))
    assert list(decode_batch(data)) == [(0, 1, b"k", b"v" * 100)]


@pytest.mark.parametrize(("more", "says"), [(0, "decompress"), (1, "claims to hold 2201")])
def test_what_a_snappy_block_may_claim_to_hold(more: int, says: str) -> None:
    claim = SNAPPY_RATIO_MAX * 100 + more
    block = bytes((claim & 0x7F | 0x80, claim >> 7)) + bytes(98)
    with pytest.raises(CorruptMessage, match=says):
        decompress(SNAPPY, block)


def test_no_records_make_no_batch() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch([], timestamp_ms=1)


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    gaps=st.lists(st.integers(0, 2), min_size=8, max_size=8),
    wanted=st.sets(st.integers(0, 40), min_size=1),
)
def test_only_the_batches_that_hold_wanted_records(
    sizes: list[int], gaps: list[int], wanted: set[int]
) -> None:
    batches: list[tuple[set[int], bytes]] = []
    offset = 0
    for size, gap in zip(sizes, gaps, strict=False):
        records = [(None, b"v")] * size
        batches.append(
            (
                set(range(offset, offset + size)),
                encode_batch(records, timestamp_ms=0, base_offset=offset),
            )
        )
        offset += size + gap
    held = sorted(wanted & set().union(*(offsets for offsets, _ in batches)))
    if held:
        data = b"".join(batch for _, batch in batches)
        expected = b"".join(batch for offsets, batch in batches if offsets.intersection(held))
        assert bytes(walk_batches(data).holding(data, [(at, at) for at in held])) == expected


def test_a_large_record_is_copied_once() -> None:
    value = bytes(4 << 20)
    tracemalloc.start()
    try:
        batch = encode_batch([(b"group", value), (None, value)], timestamp_ms=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(batch) + (1 << 20)
    check_crc(batch)
    assert [record[2:] for record in decode_batch(batch)] == [(b"group", value), (None, value)]


@pytest.mark.parametrize("length", [-13, -12, -1, 0, 48, 1 << 30])
def test_the_end_is_told_of_what_lies_before_a_damaged_length(length: int) -> None:
    first, second = [
        encode_batch([(None, b"v")] * 3, timestamp_ms=0, base_offset=at) for at in (5, 8)
    ]
    broken = second[:8] + length.to_bytes(4, "big", signed=True) + second[12:]
    assert end_offset_of(first + second) == 11
    assert end_offset_of(first + broken) == (11 if length > len(second) else 8)
    with pytest.raises(CorruptMessage):
        end_offset_of(second[: HEADER_BYTES - 1])
    if length < len(second):
        with pytest.raises(CorruptMessage):
            end_offset_of(broken)
