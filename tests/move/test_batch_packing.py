"""What is packed for a copy has the same records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.move.batch_packing import AS_IT_IS_BYTES, BatchPacking
from sharegroup.move.committed_log import CommittedBatch
from sharegroup.move.offset_map import OffsetMap
from sharegroup.records.record_codec import BatchBuilder, records_in
from sharegroup.wire.batch import (
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    check_crc,
    parse_header,
    with_records,
)
from sharegroup.wire.compression import GZIP, LZ4

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**40),
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    min_size=1,
    max_size=5,
)
BATCHES = st.lists(
    st.tuples(RECORDS, st.sampled_from([0, GZIP, LZ4]), st.integers(0, 3), st.booleans()),
    max_size=6,
)


def batch_of(records: Any, codec: int, base: int, first: int, **changes: Any) -> CommittedBatch:
    builder = BatchBuilder(codec, 2**30)
    for record in records:
        builder.append(*record)
    built = bytes(builder.build())
    header: BatchHeader = parse_header(built)._replace(base_offset=base, **changes)
    whole = with_records(header, built[61:])
    return CommittedBatch(parse_header(whole), memoryview(whole), first)


def unpacked(batches: list[bytes]) -> list[Any]:
    found: list[Any] = []
    for one in batches:
        check_crc(one)
        header = parse_header(one)
        assert (header.base_offset, header.producer_id, header.base_sequence) == (0, -1, -1)
        assert not header.attributes & (TRANSACTIONAL | LOG_APPEND_TIME)
        assert header.record_count == header.last_offset_delta + 1
        found += [record[1:] for record in records_in(header, one)]
    return found


@given(BATCHES, st.integers(100, 2_000))
def test_the_same_records_in_the_same_order(batches: list[Any], bytes_max: int) -> None:
    places = OffsetMap()
    packing = BatchPacking(places, bytes_max)
    made: list[bytes] = []
    expected: list[Any] = []
    offsets: list[int] = []
    base = 0
    for records, codec, skipped, transactional in batches:
        attributes = codec | TRANSACTIONAL * transactional
        one = batch_of(records, codec, base, base + skipped, producer_id=7, base_sequence=3)
        if not one.header.attributes & codec:  # what was too small to compress
            attributes &= ~codec
        one = CommittedBatch(one.header._replace(attributes=attributes), one.data, one.first)
        made += packing.take(one)
        expected += records[skipped:]
        offsets += range(base + skipped, base + len(records))
        base += len(records) + 2
    made += packing.rest()
    assert unpacked(made) == expected
    assert [places.place(offset) for offset in offsets] == list(range(len(expected)))
    assert places.end == len(expected)


def test_a_large_batch_is_copied_as_it_is() -> None:
    value = b"x" * AS_IT_IS_BYTES
    places = OffsetMap()
    packing = BatchPacking(places, 2**20)
    large = batch_of([(5, None, value, [])], 0, 4, 4, producer_id=7, leader_epoch=3)
    small = batch_of([(6, b"k", b"small", [])], 0, 3, 3)
    made = [*packing.take(small), *packing.take(large)]
    assert [len(unpacked([one])) for one in made] == [1, 1]
    assert made[1][61:] == large.data[61:]
    assert parse_header(made[1]).leader_epoch == -1
    assert list(packing.rest()) == []


def test_a_batch_that_the_target_does_not_take_is_cut() -> None:
    half = AS_IT_IS_BYTES // 2
    places = OffsetMap()
    packing = BatchPacking(places, half + 1_000)
    large = batch_of([(5, None, b"x" * half, []), (6, None, b"y" * half, [])], 0, 0, 0)
    made = [*packing.take(large), *packing.rest()]
    assert [len(unpacked([one])) for one in made] == [1, 1]
    assert places.end == 2


@pytest.mark.parametrize("codec", [0, LZ4])
def test_append_times_become_the_records_own(codec: int) -> None:
    records: list[Any] = [(5, None, b"x" * AS_IT_IS_BYTES, []), (7, None, b"y", [])]
    batch = batch_of(records, codec, 0, 0, attributes=codec | LOG_APPEND_TIME, max_timestamp=99)
    packing = BatchPacking(OffsetMap(), 2**20)
    made = [*packing.take(batch), *packing.rest()]
    assert [record[0] for record in unpacked(made)] == [99, 99]
