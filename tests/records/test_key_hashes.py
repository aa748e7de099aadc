"""Key hashes, and batches cut to key ranges: the compiled code and Python's are twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import CorruptMessage, InvalidRecord
from sharegroup.records import walk
from sharegroup.records.key_hashes import (
    HASH_MAX,
    WHOLE_KEY,
    cut,
    hash_of_key,
    hash_of_offset,
    key_hashes,
    murmur2,
    tenant_hashes,
)
from sharegroup.wire.batch import HEADER_BYTES, parse_header
from tests.records.making import batch_of, record

VECTORS = {
    b"": 3949689109500549436,
    b"a": 3228768220267518289,
    b"ab": 5889538665040748054,
    b"abc": 8217503650860710053,
    b"abcd": 1155251667482726628,
    b"customer-17": 6448423005376386378,
    b"\xc3\xa9\xe2\x82\xac": 9129127604700683085,
    b"\xff" * 33: 947164684984637276,
    0: 8147104208329303767,
    1: 5225608189600411232,
    4611686018427387904: 23969857188386037,
}
"""Part of the protocol: docs/keys.md has them too."""

WAYS = [True, False] if walk.IS_COMPILED else [False]
Rows = list[tuple[bytes | None, int, int]]
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.binary(max_size=20)),
        st.integers(-(2**40), 2**40),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=30,
)
EDGES = st.lists(st.integers(0, HASH_MAX), min_size=2, max_size=6, unique=True).map(sorted)


def batch_from(rows: Rows) -> bytes:
    """A batch whose offsets have holes."""
    body, delta = b"", -1
    for key, time, step in rows:
        delta += step
        body += record(delta, key, b"value", timestamp_delta=time)
    return batch_of(body, len(rows), last_delta=delta, base_offset=100)


def read(batch: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """By aiokafka's reader, which checks the checksum as well."""
    decoder = DefaultRecordBatch(batch)
    assert decoder.validate_crc()
    return [(one.offset, one.timestamp, one.key, one.value) for one in decoder]


def expected_hash(offset: int, key: bytes | None) -> int:
    return hash_of_offset(offset) if key is None else hash_of_key(key)


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize(("key", "value"), VECTORS.items())
def test_vectors(key: bytes | int, value: int, compiled: bool) -> None:
    by_key = isinstance(key, bytes)
    assert (hash_of_key(key) if isinstance(key, bytes) else hash_of_offset(key)) == value
    body = record(0, key if isinstance(key, bytes) else None)
    batch = batch_of(body, 1, base_offset=0 if by_key else int(key))
    found = key_hashes(parse_header(batch), batch[HEADER_BYTES:], compiled=compiled)
    assert [*found.hashes] == [value]


@given(st.binary(max_size=50))
def test_the_first_half_is_the_partitioner_s(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_aiokafka(key) & 0xFFFFFFFF


@given(ROWS, EDGES)
def test_records_fall_into_ranges(rows: Rows, edges: list[int]) -> None:
    """Each range has its records, whoever computes; a cut batch ends where the whole one does."""
    batch = batch_from(rows)
    header, records = parse_header(batch), batch[HEADER_BYTES:]
    whole = read(batch)
    ranges = list(zip([0, *(edge + 1 for edge in edges[:-1])], edges, strict=True))
    results = []
    for compiled in WAYS:
        index = key_hashes(header, records, compiled=compiled)
        assert [*index.hashes] == [expected_hash(one[0], one[2]) for one in whole]
        cuts = [
            cut(header, records, index, each, compiled=compiled)
            for each in [*([one] for one in ranges), ranges]
        ]
        results.append((index, cuts))
    assert results[0] == results[-1]
    for each, found in zip([*([one] for one in ranges), ranges], results[0][1], strict=True):
        inside = [
            row
            for row in whole
            if any(first <= expected_hash(row[0], row[2]) <= last for first, last in each)
        ]
        left = parse_header(found.data)
        assert (left.base_offset, left.last_offset_delta) == (100, header.last_offset_delta)
        assert left.record_count == found.records == len(inside)
        assert read(bytes(found.data)) == inside


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("lie", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b"\xff" + b[1:]])
def test_records_that_cannot_be_read(lie: Callable[[bytes], bytes], compiled: bool) -> None:
    batch = batch_from([(b"one", 0, 1), (None, 0, 1)])
    with pytest.raises((CorruptMessage, InvalidRecord)):
        key_hashes(parse_header(batch), lie(batch[HEADER_BYTES:]), compiled=compiled)


def test_the_keys_of_one_partition_spread() -> None:
    """Kafka's partitioner put them there by the low bits of one half of the hash."""
    keys = [b"customer-%d" % n for n in range(80_000)]
    of_one = [key for key in keys if (murmur2(key) & 0x7FFFFFFF) % 8 == 3]
    counts = [0] * 16
    for key in of_one:
        counts[hash_of_key(key) >> 59] += 1
    assert max(counts) < 1.2 * len(of_one) / 16
    offsets = [0] * 16
    for offset in range(16_000):
        offsets[hash_of_offset(offset) >> 59] += 1
    assert max(offsets) < 1.2 * 1000


@pytest.mark.parametrize("compiled", WAYS)
@given(
    rows=st.lists(
        st.tuples(st.none() | st.text("ab:", max_size=9).map(str.encode), st.just(0), st.just(1)),
        min_size=1,
        max_size=20,
    ),
    separator=st.sampled_from([WHOLE_KEY, ord(":"), 0, 255]),
)
def test_a_tenant_is_named_by_the_part_before_the_separator(
    compiled: bool, rows: Rows, separator: int
) -> None:
    batch = batch_from(rows)
    header, records = parse_header(batch), batch[HEADER_BYTES:]
    found = tenant_hashes(header, records, separator, compiled=compiled)
    names = [key or b"" for key, _, _ in rows]
    if separator != WHOLE_KEY:
        names = [name.split(bytes([separator]))[0] for name in names]
    assert list(found.hashes) == [hash_of_key(name) for name in names]
    assert found.starts == key_hashes(header, records, compiled=compiled).starts


@pytest.mark.parametrize("compiled", WAYS)
def test_tenants_of_broken_records_are_an_error(compiled: bool) -> None:
    batch = batch_from([(b"a:b", 0, 1)])
    with pytest.raises((CorruptMessage, InvalidRecord)):
        tenant_hashes(parse_header(batch), batch[HEADER_BYTES:-1], ord(":"), compiled=compiled)
