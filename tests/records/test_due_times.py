"""Which records of a batch are not due yet: the compiled code and Python's are twins."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import CorruptMessage, InvalidRecord
from sharegroup.model.limits import SCHEDULE_MS_MAX
from sharegroup.model.record_headers import DELIVER_AT, EXPIRES_AT
from sharegroup.records.due_times import IS_COMPILED, STEP_MS, NotDue, not_due
from sharegroup.wire.batch import HEADER_BYTES, parse_header
from tests.records.making import batch_of, record, sized, zigzag

WAYS = [True, False] if IS_COMPILED else [False]
NOW = 1_700_000_000_000
NAME = DELIVER_AT.encode()
Headers = list[tuple[bytes, bytes | None]]
Row = tuple[Headers, int]
"""Headers, and how far its offset is from that of the record before."""

VALUES = st.one_of(
    st.integers(NOW - 3, NOW + 40).map(lambda ms: str(ms).encode()),
    st.sampled_from([NOW + SCHEDULE_MS_MAX, NOW + SCHEDULE_MS_MAX + 1]).map(
        lambda ms: str(ms).encode()
    ),
    st.sampled_from([None, b"", b"-5", b"1 ", b"1_0", b"\xb2", b"9" * 18, b"9" * 19, b"0"]),
)
NAMES = st.sampled_from([NAME, NAME, b"", b"a", NAME + b"x", EXPIRES_AT.encode()])
ROWS = st.lists(
    st.tuples(
        st.lists(st.tuples(NAMES, VALUES), max_size=3),
        st.sampled_from([1, 1, 1, 2]),
    ),
    min_size=1,
    max_size=20,
)


def batch_from(rows: list[Row]) -> bytes:
    body, delta = b"", -1
    for headers, step in rows:
        delta += step
        fields = b"".join(sized(name) + sized(value) for name, value in headers)
        body += record(delta, b"k", b"v", headers=zigzag(len(headers)) + fields)
    return batch_of(body, len(rows), last_delta=delta, base_offset=100, timestamp=NOW)


def found(batch: bytes, *, compiled: bool) -> NotDue:
    return not_due(parse_header(batch), batch[HEADER_BYTES:], NOW, compiled=compiled)


def naive(rows: list[Row]) -> tuple[dict[int, int], int]:
    due, unreadable, offset = {}, 0, 99
    for headers, step in rows:
        offset += step
        said = [value for name, value in headers if name == NAME]
        if not said:
            continue
        value = said[-1] or b""
        is_time = set(value) <= set(b"0123456789") and 0 < len(value) <= 18
        if not is_time or int(value) > NOW + SCHEDULE_MS_MAX:
            unreadable += 1
        elif int(value) > NOW:
            due[offset] = (int(value) + STEP_MS - 1) // STEP_MS * STEP_MS
    return due, unreadable


@pytest.mark.parametrize("compiled", WAYS)
@given(rows=ROWS)
def test_the_naive_model_agrees(compiled: bool, rows: list[Row]) -> None:
    ranges, unreadable = found(batch_from(rows), compiled=compiled)
    due = {at: due_ms for first, last, due_ms in ranges for at in range(first, last + 1)}
    assert (due, unreadable) == naive(rows)
    for one, other in pairwise(ranges):
        assert one[1] < other[0]
        assert one[1] + 1 < other[0] or one[2] != other[2], "joined"


@pytest.mark.parametrize("compiled", WAYS)
def test_records_of_about_one_time_are_one_range(compiled: bool) -> None:
    at = (NOW // STEP_MS + 100) * STEP_MS
    rows: list[Row] = [([(NAME, str(at - ms).encode())], 1) for ms in range(STEP_MS)]
    assert found(batch_from(rows), compiled=compiled) == ([(100, 99 + STEP_MS, at)], 0)


@pytest.mark.parametrize("compiled", WAYS)
def test_many_records_far_apart(compiled: bool) -> None:
    """As many ranges as there are records."""
    later = str(NOW + 10 * STEP_MS).encode()
    ranges, _ = found(batch_from([([(NAME, later)], 2)] * 500), compiled=compiled)
    assert [one[:2] for one in ranges] == [(at, at) for at in range(101, 1_101, 2)]


@pytest.mark.parametrize("compiled", WAYS)
@given(data=st.binary(max_size=80), count=st.integers(-1, 30))
def test_any_bytes_are_read_or_refused(compiled: bool, data: bytes, count: int) -> None:
    batch = batch_of(data, count, last_delta=max(count - 1, 0))
    try:
        found(batch, compiled=compiled)
    except (CorruptMessage, InvalidRecord):
        return
    assert count >= 0


@given(rows=ROWS, cut=st.integers(0, 60))
def test_the_twins_agree_about_what_is_cut_off(rows: list[Row], cut: int) -> None:
    whole = batch_from(rows)
    batch = whole[: max(HEADER_BYTES, len(whole) - cut)]
    seen: list[object] = []
    for compiled in WAYS:
        try:
            seen.append(found(batch, compiled=compiled))
        except (CorruptMessage, InvalidRecord) as error:
            seen.append(str(error))
    assert seen == seen[:1] * len(WAYS)
