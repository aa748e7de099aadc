"""The key hashes of a whole fetch, compared with those of each record by itself."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from sharegroup.arrow.hashes import KEYS_IN_STEP_MIN, hashes_of
from sharegroup.arrow.records import fields_of, plain_records, whole_batches
from sharegroup.arrow.rows import RowBuilder
from sharegroup.records.key_hashes import HASH_MAX, hash_of_key, hash_of_offset
from sharegroup.spark.source.planning import key_parts
from tests.arrow.test_rows import Record, encoded

CODECS = st.integers(0, 4)
KEYS = st.none() | st.binary(max_size=9) | st.binary(min_size=20, max_size=40)
MANY = st.lists(KEYS, min_size=1, max_size=3 * KEYS_IN_STEP_MIN)
CUTS = st.lists(st.integers(1, HASH_MAX), unique=True, max_size=5).map(sorted)
BASE = 2**40


def batch(keys: list[bytes | None], base_offset: int, codec: int) -> bytes:
    records: list[Record] = [(key, b"v" * (n % 7), n, []) for n, key in enumerate(keys)]
    return bytes(encoded(records, base_offset=base_offset, codec=codec))


def hash_of(key: bytes | None, offset: int) -> int:
    return hash_of_offset(offset) if key is None else hash_of_key(key)


@given(MANY)
@example([b"abcd" * 5_000, *[b"%d" % n for n in range(2 * KEYS_IN_STEP_MIN)], b""])
@example([b"%09d" % n for n in range(KEYS_IN_STEP_MIN)])
@example([None])
def test_hashes_are_those_of_the_protocol(keys: list[bytes | None]) -> None:
    data = memoryview(batch(keys, BASE, 0))
    for plain, batches in plain_records(data, whole_batches(data)):
        found = hashes_of(fields_of(plain, batches)).tolist()
        assert found == [hash_of(key, BASE + at) for at, key in enumerate(keys)]


@given(st.lists(st.tuples(MANY, CODECS), min_size=1, max_size=4), CUTS, st.booleans())
def test_each_record_is_in_exactly_one_part(
    batches: list[tuple[list[bytes | None], int]], cuts: list[int], whole: bool
) -> None:
    data, keys = b"", []
    for each, codec in batches:
        data += batch(each, BASE + len(keys), codec)
        keys += each
    end = BASE + len(keys) - 1
    ranges = [(BASE, end, 3)] if whole else [(BASE + 1, BASE + 5, 3), (BASE + 9, end, 4)]
    ours = [
        at for at in range(BASE, end + 1) if any(first <= at <= last for first, last, _ in ranges)
    ]
    seen: list[int] = []
    for first, end_of_part in pairwise([0, *cuts, HASH_MAX + 1]):
        part = (first, end_of_part - 1)
        builder = RowBuilder(("offset", "key", "delivery_count"), "t", 0, ranges, keys=part)
        rows = [row for one in builder.rows(memoryview(data)) for row in one.to_pylist()]
        offsets = [row["offset"] for row in rows]
        assert offsets == sorted(offsets)
        for row in rows:
            assert row["key"] == keys[row["offset"] - BASE]
            assert part[0] <= hash_of(row["key"], row["offset"]) <= part[1]
            assert row["delivery_count"] == (3 if whole or row["offset"] <= BASE + 5 else 4)
        seen += offsets
    assert sorted(seen) == ours


def test_records_without_a_key_spread() -> None:
    data = batch([None] * 1_000, BASE, 0)
    for part in key_parts(4):
        builder = RowBuilder(("offset",), "t", 0, [(BASE, BASE + 999, 1)], keys=part)
        assert 200 <= sum(one.num_rows for one in builder.rows(memoryview(data))) <= 300
