"""Strings with one byte per offset, beside loops over them."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.share.offset_codes import combined, distinct, marked_runs, run_count, runs

CODES = st.lists(st.sampled_from([0, 1, 2, 255]), min_size=1, max_size=60).map(bytes)
LONG_RUNS = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 255]), st.integers(1, 40)), min_size=1, max_size=8
).map(lambda parts: b"".join(bytes([code]) * size for code, size in parts))


@given(CODES)
def test_distinct_codes_come_in_the_order_of_their_first_places(codes: bytes) -> None:
    assert distinct(codes) == list(dict.fromkeys(codes))


@given(CODES | LONG_RUNS, st.integers(0, 2**40))
def test_runs_are_maximal(codes: bytes, first: int) -> None:
    last = first + len(codes) - 1
    expected = []
    at = first
    for code, group in groupby(codes):
        size = len(list(group))
        expected.append((at, at + size - 1, code))
        at += size
    assert list(zip(*runs(first, last, codes), strict=True)) == expected
    if any(codes):
        marked = [one for one in expected if one[2]]
        assert list(zip(*marked_runs(first, last, codes), strict=True)) == marked
    if len(codes) > 1:
        assert run_count(codes) == len(expected)


def test_one_code_for_all() -> None:
    assert runs(5, 9, b"\3") == ([5], [9], b"\3")


@given(st.data(), CODES)
def test_combined_is_or_of_each_pair(data: st.DataObject, codes: bytes) -> None:
    others = data.draw(st.binary(min_size=len(codes), max_size=len(codes)))
    assert combined(codes, others) == bytes(a | b for a, b in zip(codes, others, strict=True))
