"""Which records of a batch have expired: the compiled code and Python's are twins."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import CorruptMessage, InvalidRecord
from sharegroup.model.record_headers import EXPIRES_AT
from sharegroup.records.expiry import (
    IS_COMPILED,
    NOBODY_IS_OLD,
    Expired,
    Rules,
    expired,
    is_worth_a_look,
    too_old,
)
from sharegroup.wire.batch import HEADER_BYTES, LOG_APPEND_TIME, parse_header
from tests.records.making import batch_of, record, sized, zigzag

WAYS = [True, False] if IS_COMPILED else [False]
NOW = 1_700_000_000_000
NAME = EXPIRES_AT.encode()
Headers = list[tuple[bytes, bytes | None]]
Row = tuple[int, Headers, int]
"""Timestamp delta, headers, and how far its offset is from that of the record before."""

VALUES = st.one_of(
    st.integers(NOW - 3, NOW + 3).map(lambda ms: str(ms).encode()),
    st.sampled_from([None, b"", b"-5", b"+5", b"1 ", b"1_0", b"\xb2", b"9" * 18, b"9" * 19, b"0"]),
)
NAMES = st.sampled_from([NAME, NAME, b"", b"a", NAME + b"x", NAME.upper()])
ROWS = st.lists(
    st.tuples(
        st.integers(-3, 3),
        st.lists(st.tuples(NAMES, VALUES), max_size=3),
        st.sampled_from([1, 1, 1, 2]),
    ),
    min_size=1,
    max_size=20,
)


def packed(headers: Headers) -> bytes:
    fields = (sized(name) + sized(value) for name, value in headers)
    return zigzag(len(headers)) + b"".join(fields)


def batch_from(rows: list[Row], *, timestamp: int = NOW, attributes: int = 0) -> bytes:
    body, delta, times = b"", -1, []
    for time, headers, step in rows:
        delta += step
        times.append(timestamp + time)
        body += record(delta, b"k", b"v", headers=packed(headers), timestamp_delta=time)
    return batch_of(
        body,
        len(rows),
        last_delta=delta,
        base_offset=100,
        timestamp=timestamp,
        max_timestamp=max(times),
        attributes=attributes,
    )


def found(batch: bytes, rules: Rules, *, compiled: bool) -> Expired:
    return expired(parse_header(batch), batch[HEADER_BYTES:], rules, compiled=compiled)


def naive(rows: list[Row], rules: Rules) -> tuple[list[int], int]:
    gone, unreadable, offset = [], 0, 99
    for time, headers, step in rows:
        offset += step
        if 0 <= NOW + time <= rules.born_until_ms:
            gone.append(offset)
            continue
        said = [value for name, value in headers if name == NAME] if rules.by_header else []
        if not said:
            continue
        value = said[-1] or b""
        if not (set(value) <= set(b"0123456789") and 0 < len(value) <= 18):
            unreadable += 1
        elif int(value) <= rules.now_ms:
            gone.append(offset)
    return gone, unreadable


@pytest.mark.parametrize("compiled", WAYS)
@given(
    rows=ROWS,
    born_until=st.sampled_from([NOBODY_IS_OLD, NOW - 1, NOW, NOW + 9]),
    by_header=st.booleans(),
)
def test_the_naive_model_agrees(
    compiled: bool, rows: list[Row], born_until: int, by_header: bool
) -> None:
    rules = Rules(NOW, born_until, by_header)
    batch = batch_from(rows)
    ranges, unreadable = found(batch, rules, compiled=compiled)
    offsets = [at for first, last in ranges for at in range(first, last + 1)]
    assert (offsets, unreadable) == naive(rows, rules)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(ranges))
    header = parse_header(batch)
    if too_old(header, rules):
        assert offsets == [*range(header.base_offset, header.last_offset + 1)]
    if not is_worth_a_look(header, rules):
        assert not offsets


@pytest.mark.parametrize("compiled", WAYS)
def test_many_records_far_apart(compiled: bool) -> None:
    """As many runs as there are records."""
    rows: list[Row] = [(0, [], 2)] * 500
    ranges, _ = found(batch_from(rows), Rules(NOW, NOW, False), compiled=compiled)
    assert ranges == [(at, at) for at in range(101, 1_101, 2)]


@pytest.mark.parametrize("compiled", WAYS)
def test_the_time_of_the_append_is_that_of_all_records(compiled: bool) -> None:
    batch = batch_from([(-3, [], 1), (0, [], 1)], attributes=LOG_APPEND_TIME)
    header = parse_header(batch)
    assert found(batch, Rules(NOW, NOW - 1, False), compiled=compiled).ranges == []
    assert not is_worth_a_look(header, Rules(NOW, NOW - 1, False))
    assert found(batch, Rules(NOW, NOW, False), compiled=compiled).ranges == [(100, 101)]
    assert too_old(header, Rules(NOW, NOW, False))


@pytest.mark.parametrize("compiled", WAYS)
def test_a_record_without_a_timestamp_has_no_age(compiled: bool) -> None:
    batch = batch_from([(0, [], 1), (1, [], 1)], timestamp=-1)
    assert found(batch, Rules(NOW, NOW, False), compiled=compiled).ranges == [(101, 101)]
    alone = batch_from([(0, [], 1)], timestamp=-1)
    assert not too_old(parse_header(alone), Rules(NOW, NOW, False))


def test_a_batch_with_gaps_is_never_too_old_as_a_whole() -> None:
    batch = batch_from([(0, [], 1), (0, [], 2)])
    assert not too_old(parse_header(batch), Rules(NOW, NOW, False))


@pytest.mark.parametrize("compiled", WAYS)
@given(data=st.binary(max_size=80), count=st.integers(-1, 30))
def test_any_bytes_are_read_or_refused(compiled: bool, data: bytes, count: int) -> None:
    batch = batch_of(data, count, last_delta=max(count - 1, 0))
    try:
        found(batch, Rules(NOW, NOW, True), compiled=compiled)
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
            seen.append(found(batch, Rules(NOW, NOW, True), compiled=compiled))
        except (CorruptMessage, InvalidRecord) as error:
            seen.append(str(error))
    assert seen == seen[:1] * len(WAYS)
