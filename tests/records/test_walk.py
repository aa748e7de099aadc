"""The walk over records: both ways of it find the same, whatever the bytes are."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharegroup.records import compiled, pure
from sharegroup.records.walk_result import TIMELESS, Verdict, Walked
from tests.records.guarded import guarded
from tests.records.making import (
    TIME_MS,
    Record,
    record,
    records,
    sized,
    written,
    zigzag,
)
from tests.records.strategies import damaged, one_record

LIBRARY = compiled.load()
Walk = Callable[..., Walked]
WALKS: dict[str, Walk] = {"pure": pure.walk}
if LIBRARY is not None:
    WALKS["compiled"] = compiled.walk_with(LIBRARY)
needs_library = pytest.mark.skipif(LIBRARY is None, reason="SHAREGROUP_PURE, or no compiler here")


@pytest.fixture(params=sorted(WALKS))
def walk(request: pytest.FixtureRequest) -> Walk:
    return WALKS[request.param]


def walked(walk: Walk, body: bytes, count: int, last: int | None = None, dense: bool = True) -> str:
    found = walk(
        body, 0, len(body), count, count - 1 if last is None else last, dense=dense,
        base_timestamp=TIME_MS,
    )  # fmt: skip
    return found.verdict.name


def test_the_library_is_compiled_unless_disabled() -> None:
    """A machine that has a compiler has the compiled walk; CI would else test half of it."""
    from scripts.setup_compiler import machine_compiler

    if machine_compiler() is None or os.environ.get(compiled.PURE_VARIABLE) == "1":
        pytest.skip("there is no compiler, or no library is wanted")
    assert LIBRARY is not None


@given(st.lists(one_record, min_size=1, max_size=8))
def test_batches_of_producers_are_valid(made: list[Record]) -> None:
    body = written(made)[61:]
    for walk in WALKS.values():
        found = walk(body, 0, len(body), len(made), 0, dense=True, base_timestamp=made[0][2])
        assert found == Walked(
            Verdict.GOOD,
            len(made),
            len(body),
            min(one[2] for one in made),
            max(one[2] for one in made),
            sum(one[0] is None for one in made),
        )


BROKEN = {
    "no records": (b"", 1, "FEWER"),
    "count 11 of 10": (records(10), 11, "FEWER"),
    "count 9 of 10": (records(10), 9, "MORE"),
    "a byte behind": (records(2) + b"\0", 2, "MORE"),
    "count of 31 bits": (records(10), 2**31 - 1, "FEWER"),
    "a wrong offset": (record(0) + record(2), 2, "DELTA"),
    "an offset twice": (record(0) + record(0), 2, "DELTA"),
    "a negative offset": (record(-1), 1, "DELTA"),
    "cut in the length": (records(1) + b"\xff", 2, "CUT"),
    "cut in a value": (records(1)[:-2], 1, "CUT"),
    "an empty record": (b"\0", 1, "CUT"),
    "a negative length": (zigzag(-5) + records(1), 1, "LENGTH"),
    "a length of 31 bits": (zigzag(2**31 - 1) + records(1), 1, "CUT"),
    "a length of 6 bytes": (b"\x80\x80\x80\x80\x80\x01" + records(1), 1, "NUMBER"),
    "a length of 36 bits": (b"\xff\xff\xff\xff\x1f" + records(1), 1, "NUMBER"),
    "a time of 11 bytes": (
        zigzag(17) + b"\0" + b"\x80" * 10 + b"\1" + b"\0\2k\2v\0",
        1,
        "NUMBER",
    ),
    "a key of -2": (zigzag(5) + b"\0\0\0" + zigzag(-2) + b"\0", 1, "LENGTH"),
    "a key over the record": (zigzag(7) + b"\0\0\0" + zigzag(60) + b"k\1\0" + b"x" * 99, 1, "CUT"),
    "a value of -2": (zigzag(6) + b"\0\0\0\1" + zigzag(-2) + b"\0", 1, "LENGTH"),
    "minus one header": (record(0, headers=zigzag(-1)), 1, "LENGTH"),
    "more headers than bytes": (record(0, headers=zigzag(2**30)), 1, "LENGTH"),
    "a header without a key": (record(0, headers=b"\2\1\1"), 1, "LENGTH"),
    "a header's value of -2": (record(0, headers=b"\2\0\3"), 1, "LENGTH"),
    "a header over the record": (record(0, headers=b"\2" + zigzag(9) + b"abc"), 1, "CUT"),
    "a byte behind the headers": (record(0, behind=b"\0"), 1, "END"),
}


@pytest.mark.parametrize(("body", "count", "verdict"), BROKEN.values(), ids=BROKEN)
def test_each_fault_has_its_own_verdict(walk: Walk, body: bytes, count: int, verdict: str) -> None:
    assert walked(walk, body, count) == verdict
    assert walked(walk, body, count, 2**31 - 1, dense=False) in (verdict, "GOOD")


def test_numbers_may_be_padded_as_in_kafka(walk: Walk) -> None:
    body = b"\0" + zigzag(7, 10) + zigzag(0, 5) + b"\1\1\0"
    assert walked(walk, zigzag(len(body), 5) + body, 1) == "GOOD"


def test_headers_are_stepped_over(walk: Walk) -> None:
    headers = zigzag(3) + b"".join(sized(one) for one in (b"a", None, b"", b"", b"b", b"x" * 200))
    assert walked(walk, record(0, headers=headers), 1) == "GOOD"


def test_offsets_of_a_compacted_batch_ascend_within_it(walk: Walk) -> None:
    def verdict(*deltas: int, last: int = 9) -> str:
        body = b"".join(record(delta) for delta in deltas)
        return walked(walk, body, len(deltas), last, dense=False)

    assert verdict(0, 3, 9) == "GOOD"
    assert verdict() == "GOOD"
    assert verdict(2, 2) == "DELTA"
    assert verdict(3, 2) == "DELTA"
    assert verdict(3, 10) == "DELTA"
    assert verdict(-1, 3) == "DELTA"


def test_times(walk: Walk) -> None:
    body = record(0, timestamp_delta=5) + record(1, timestamp_delta=-3) + record(2)
    found = walk(body, 0, len(body), 3, 2, dense=True, base_timestamp=-1)
    assert (found.earliest_ms, found.latest_ms) == (-4, 4)  # the third has none
    found = walk(record(0), 0, len(record(0)), 1, 0, dense=True, base_timestamp=-1)
    assert (found.earliest_ms, found.latest_ms) == TIMELESS
    body = record(0, timestamp_delta=2**63 - 1)
    found = walk(body, 0, len(body), 1, 0, dense=True, base_timestamp=3)
    assert found.earliest_ms == -(2**63) + 2  # as a long of Java


@needs_library
@given(
    damaged() | st.tuples(st.binary(max_size=60), st.integers(-3, 9)),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 12),
    st.integers(-1, 2**31 - 1),
)
@example((b"", 0), True, 0, 0, -1)
def test_both_walks_find_the_same(
    body_and_count: tuple[bytes, int], dense: bool, base: int, start: int, last: int
) -> None:
    body, count = body_and_count
    start = min(start, len(body))
    found = [
        walk(body, start, len(body), count, last, dense=dense, base_timestamp=base)
        for walk in WALKS.values()
    ]
    assert found[0] == found[1]


@needs_library
@given(damaged() | st.tuples(st.binary(max_size=60), st.integers(-3, 9)), st.booleans())
def test_nothing_is_read_past_the_end(body_and_count: tuple[bytes, int], dense: bool) -> None:
    """The bytes end where a page ends that nobody may read: one byte further ends the process."""
    body, count = body_and_count
    with guarded(body) as (address, start, end):
        facts = (ctypes.c_int64 * 5)()
        assert LIBRARY is not None
        LIBRARY.sharegroup_walk(
            address, start, end, count, 2**31 - 1, dense, 0, facts, None, None, None
        )
        assert start <= facts[1] <= end


@needs_library
@given(st.lists(one_record, min_size=1, max_size=5), st.integers(0, 20))
def test_arrays_are_filled(made: list[Record], before: int) -> None:
    data = bytes(before) + written(made)[61:]
    count = len(made)
    starts, keys, lengths = ((ctypes.c_int64 * count)() for _ in range(3))
    facts = (ctypes.c_int64 * 5)()
    assert LIBRARY is not None
    verdict = LIBRARY.sharegroup_walk(
        data, before, len(data), count, 0, True, 0, facts, starts, keys, lengths
    )
    assert verdict == Verdict.GOOD
    assert starts[0] == before
    for at, (key, *_) in enumerate(made):
        size, position = pure.number(data, starts[at], len(data))
        assert position + size == (starts[at + 1] if at + 1 < count else len(data))
        assert lengths[at] == (-1 if key is None else len(key))
        if key is not None:
            assert data[keys[at] : keys[at] + lengths[at]] == key


@needs_library
def test_a_range_outside_of_the_bytes_is_refused() -> None:
    walk = WALKS["compiled"]
    for start, end in ((-1, 3), (0, 6), (4, 3)):
        with pytest.raises(ValueError, match="of 5"):
            walk(bytes(5), start, end, 1, 0, dense=True, base_timestamp=0)


@needs_library
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda d: memoryview(bytearray(d))])
def test_any_buffer_is_walked(kind: Callable[[bytes], bytes]) -> None:
    body = records(3)
    found = WALKS["compiled"](kind(body), 0, len(body), 3, 2, dense=True, base_timestamp=0)
    assert (found.verdict, found.records) == (Verdict.GOOD, 3)
    assert WALKS["compiled"](kind(b""), 0, 0, 0, 0, dense=False, base_timestamp=0).records == 0
