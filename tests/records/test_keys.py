"""The key table of the log cleaner: the compiled one and Python's are twins."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import CorruptMessage, InvalidRecord
from sharegroup.records.compiled import PURE_VARIABLE
from sharegroup.records.keys import SLOT_BYTES, CompiledKeyTable, KeyTable, PureKeyTable, Rules
from sharegroup.records.walk import LIBRARY
from sharegroup.wire.batch import HEADER_BYTES, decode_batch, parse_header, with_records
from tests.records.making import TIME_MS, batch_of, record

SECRET = bytes(range(16))
TABLES: list[Callable[[int], KeyTable]] = [lambda most: PureKeyTable(SECRET, most)]
if LIBRARY is not None:
    TABLES.append(lambda most: CompiledKeyTable(LIBRARY, SECRET, most))

RECORDS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.binary(max_size=40)),
        st.one_of(st.none(), st.binary(max_size=200)),
        st.integers(-(2**40), 2**40),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=30,
)


def batch_from(rows: list[tuple[bytes | None, bytes | None, int, int]]) -> bytes:
    """A batch whose offsets have holes."""
    body, delta = b"", -1
    for key, value, time, step in rows:
        delta += step
        body += record(delta, key, value, timestamp_delta=time)
    return batch_of(body, len(rows), last_delta=delta, base_offset=100)


@given(RECORDS, st.integers(100, 140), st.booleans(), st.integers(-(2**41), 2**41))
def test_both_keep_the_same(
    rows: list[tuple[bytes | None, bytes | None, int, int]], end: int, drop: bool, base_ms: int
) -> None:
    batch = batch_from(rows)
    header = parse_header(batch)
    rules = Rules(end, drop, base_ms)
    results = []
    for table in [make(1 << 20) for make in TABLES]:
        table.note(header, batch, HEADER_BYTES)
        results.append(table.kept(header, batch, HEADER_BYTES, rules))
    assert all(result == results[0] for result in results)
    kept = results[0]
    read = list(decode_batch(batch))
    last = {key: offset for offset, _, key, _ in read}
    expected = [
        each
        for each in read
        if each[0] >= end
        or (each[2] is not None and last[each[2]] == each[0] and not (drop and each[3] is None))
    ]
    left = header._replace(base_timestamp=base_ms, record_count=kept.records)
    assert list(decode_batch(with_records(left, kept.data))) == expected
    assert kept.records == len(expected)
    assert kept.tombstones == sum(value is None for *_, value in expected)
    assert kept.latest_ms == max([-1, *(time for _, time, _, _ in expected)])


@pytest.mark.parametrize("make", TABLES)
def test_keys_of_other_batches_are_known(make: Callable[[int], KeyTable]) -> None:
    """Also after the table has grown many times."""
    table = make(1 << 22)
    batches = []
    for first in range(0, 20_000, 2000):
        body = b"".join(record(n, b"%d" % ((first + n) % 9000)) for n in range(2000))
        batches.append(batch_of(body, 2000, last_delta=1999, base_offset=first))
    for batch in batches:
        table.note(parse_header(batch), batch, HEADER_BYTES)
    rules = Rules(20_000, False, TIME_MS)
    kept = [table.kept(parse_header(each), each, HEADER_BYTES, rules).records for each in batches]
    assert sum(kept) == 9000
    assert kept[-1] == 2000
    assert kept[0] == 0


@pytest.mark.parametrize("make", TABLES)
def test_bad_records_are_refused_and_not_noted(make: Callable[[int], KeyTable]) -> None:
    good = batch_of(record(0, b"k") + record(1, b"k"), 2)
    for bad, error in (
        (good[:-1], CorruptMessage),
        (batch_of(record(0) + record(0), 2), InvalidRecord),
    ):
        table, header = make(1 << 20), parse_header(bad)
        with pytest.raises(error):
            table.note(header, bad, HEADER_BYTES)
        with pytest.raises(error):
            table.kept(header, bad, HEADER_BYTES, Rules(9, False, TIME_MS))
        assert table.kept(parse_header(good), good, HEADER_BYTES, Rules(9, False, TIME_MS)).records


def test_the_bound_of_the_table() -> None:
    for make, bytes_of_key in zip(TABLES, (200, SLOT_BYTES / 0.75), strict=False):
        table = make(int(30 * bytes_of_key))
        assert table.has_room(10**9)  # an empty one takes any batch
        batch = batch_of(b"".join(record(n, b"%d" % n) for n in range(20)), 20)
        table.note(parse_header(batch), batch, HEADER_BYTES)
        assert table.has_room(10)
        assert not table.has_room(11)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "a3817f04ba25a8e66df67214c7550293"), (1, "da87c1d86b99af44347659119b22fc45")],
)
def test_the_hash_is_siphash_2_4_128(size: int, expected: str) -> None:
    """Of the compiled table, which every setup but a pure one has; Python's own is blake2b."""
    out = (ctypes.c_uint64 * 2)()
    if LIBRARY is None:
        assert os.environ.get(PURE_VARIABLE) == "1", "this setup lacks the compiled walk"
        return
    LIBRARY.sharegroup_hash(SECRET, bytes(range(size)), size, out)
    assert bytes(out).hex() == expected
