"""Batches of which only some records go out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.records import selected_records
from sharegroup.records.selected_records import ENTRY_BYTES, PICK_BYTES_MIN, Picker
from sharegroup.wire.batch import HEADER_BYTES, encode_batch, parse_header, walk, with_records
from sharegroup.wire.compression import compress

COUNT = 400
VALUE = 100


def log(batches: int = 1, count: int = COUNT, value: int = VALUE) -> bytes:
    return b"".join(
        encode_batch(
            [(b"key-%d" % n, b"%d" % (base + n) + bytes(value)) for n in range(count)],
            timestamp_ms=1_000 + base,
            base_offset=base,
        )
        for base in range(0, batches * count, count)
    )


def offsets(data: bytes | memoryview) -> list[int]:
    """By aiokafka's reader, as a stock client would read the answer."""
    found: list[int] = []
    batches = MemoryRecords(bytes(data))
    while (batch := batches.next_batch()) is not None:
        assert isinstance(batch, DefaultRecordBatch)
        assert batch.validate_crc()
        for record in batch:
            assert record.value is not None
            assert record.value.rstrip(b"\0") == b"%d" % record.offset
            found.append(record.offset)
    return found


def pick(data: bytes, ranges: Sequence[tuple[int, int]]) -> bytes:
    return bytes(Picker().picked(data, walk(data), ranges))


def test_a_large_batch_has_only_the_records_that_are_wanted() -> None:
    data = log(3)
    found = pick(data, [(5, 5), (7, 9), (390, 410), (799, 799)])
    assert offsets(found) == [5, 7, 8, 9, *range(390, 411), 799]
    cut, stored = parse_header(found), parse_header(data)
    assert cut.record_count == 14
    assert (cut.last_offset, cut.max_timestamp) == (stored.last_offset, stored.max_timestamp)


@given(st.sets(st.integers(0, 3 * COUNT - 1), min_size=1), st.sampled_from([1, 3]))
def test_any_ranges(wanted: set[int], joined: int) -> None:
    data = log(3)
    some = sorted(wanted)
    ranges: list[tuple[int, int]] = []
    for offset in some:
        if ranges and offset - ranges[-1][1] <= joined:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
    every = {at for first, last in ranges for at in range(first, last + 1)}
    found = set(offsets(pick(data, ranges)))
    for base in range(0, 3 * COUNT, COUNT):
        batch = set(range(base, base + COUNT))
        mine = every & batch
        assert found & batch == (mine if len(mine) * 2 < COUNT else batch)


def test_what_goes_out_whole() -> None:
    small = log(value=1)
    assert len(small) < PICK_BYTES_MIN
    assert pick(small, [(1, 1)]) == small
    large = log()
    assert pick(large, [(0, COUNT // 2)]) == large, "at least half is wanted"
    header = parse_header(large)
    packed = with_records(header._replace(attributes=1), compress(1, large[HEADER_BYTES:]))
    assert pick(packed, [(1, 1)]) == packed, "compressed"
    gaps = with_records(header._replace(last_offset_delta=COUNT + 5), large[HEADER_BYTES:])
    assert pick(gaps, [(1, 1)]) == gaps, "compacted"


def test_a_damaged_batch_goes_out_as_it_is() -> None:
    damaged = bytearray(log())
    damaged[HEADER_BYTES + 50] ^= 1
    assert pick(bytes(damaged), [(1, 1)]) == damaged


def test_without_the_compiled_walk_batches_go_out_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected_records.walking, "IS_COMPILED", False)
    data = log(2)
    assert pick(data, [(1, 1)]) == data[: walk(data).positions[1]]


def test_a_batch_that_is_cut_again() -> None:
    """Its records are found by what is kept; a batch that was damaged since goes out whole."""
    picker, data = Picker(bytes_max=8 * (COUNT + 1) + ENTRY_BYTES), log(2)
    batches = walk(data)
    for wanted in ([(5, 5), (COUNT - 1, COUNT)], [(6, 7)], [(COUNT + 6, COUNT + 7)], [(0, 0)]):
        found = picker.picked(data, batches, wanted)
        assert offsets(found) == [at for a, b in wanted for at in range(a, b + 1)]
        assert len(picker._places) == 1, "there is room for one"
    damaged = bytearray(data)
    damaged[HEADER_BYTES + 50] ^= 1
    assert picker.picked(bytes(damaged), batches, [(0, 0)]) == damaged[: batches.positions[1]]
