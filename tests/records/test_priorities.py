"""What a header says of each record, its priority or its tenant: the compiled code and Python's are
twins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import CorruptMessage, InvalidRecord
from sharegroup.records import walk
from sharegroup.records.key_hashes import (
    WHOLE_KEY,
    hash_of_key,
    header_tenant_hashes,
    key_hashes,
)
from sharegroup.records.priorities import PRIORITY_MAX, PRIORITY_NONE, priorities_of
from sharegroup.wire.batch import HEADER_BYTES, parse_header
from tests.records.making import batch_of, record, sized, zigzag

WAYS = [True, False] if walk.IS_COMPILED else [False]
NAME = b"x-priority"
Headers = list[tuple[bytes, bytes | None]]
Row = tuple[Headers, int]
"""Headers, and how far its offset is from that of the record before."""

VALUES = st.one_of(
    st.integers(0, 12).map(lambda each: str(each).encode()),
    st.sampled_from([None, b"", b"-5", b"1 ", b"high", b"\xb2", b"9" * 18, b"9" * 19, b"09"]),
    st.binary(max_size=9),
)
NAMES = st.sampled_from([NAME, NAME, b"", b"a", NAME + b"x", NAME[:-1]])
ROWS = st.lists(
    st.tuples(st.lists(st.tuples(NAMES, VALUES), max_size=3), st.sampled_from([1, 1, 1, 2])),
    min_size=1,
    max_size=20,
)


def batch_from(rows: list[Row]) -> bytes:
    body, delta = b"", -1
    for headers, step in rows:
        delta += step
        fields = b"".join(sized(name) + sized(value) for name, value in headers)
        body += record(delta, b"k", b"v", headers=zigzag(len(headers)) + fields)
    return batch_of(body, len(rows), last_delta=delta, base_offset=100, timestamp=0)


def last_values(rows: list[Row], name: bytes) -> list[bytes | None]:
    """What each record's last header of this name says; None: it has none."""
    found: list[bytes | None] = []
    for headers, _ in rows:
        said = [value or b"" for each, value in headers if each == name]
        found.append(said[-1] if said else None)
    return found


@pytest.mark.parametrize("compiled", WAYS)
@given(rows=ROWS, name=st.sampled_from([NAME, b"a"]))
def test_priorities_as_the_naive_model(compiled: bool, rows: list[Row], name: bytes) -> None:
    batch = batch_from(rows)
    header, records = parse_header(batch), batch[HEADER_BYTES:]
    found = priorities_of(header, records, name, compiled=compiled)
    expected, unreadable = [], 0
    for value in last_values(rows, name):
        fine = value is not None and set(value) <= set(b"0123456789") and 0 < len(value) <= 18
        unreadable += value is not None and not fine
        expected.append(min(int(value or b""), PRIORITY_MAX) if fine else PRIORITY_NONE)
    assert (list(found.priorities), found.unreadable) == (expected, unreadable)
    assert found.starts == key_hashes(header, records, compiled=compiled).starts


@pytest.mark.parametrize("compiled", WAYS)
@given(rows=ROWS, separator=st.sampled_from([WHOLE_KEY, ord("1"), 0, 255]))
def test_tenants_as_the_naive_model(compiled: bool, rows: list[Row], separator: int) -> None:
    batch = batch_from(rows)
    header, records = parse_header(batch), batch[HEADER_BYTES:]
    found = header_tenant_hashes(header, records, NAME, separator, compiled=compiled)
    names = [value or b"" for value in last_values(rows, NAME)]
    if separator != WHOLE_KEY:
        names = [name.split(bytes([separator]))[0] for name in names]
    assert list(found.hashes) == [hash_of_key(name) for name in names]
    assert found.starts == key_hashes(header, records, compiled=compiled).starts


@pytest.mark.parametrize("compiled", WAYS)
@given(rows=ROWS, at=st.integers(0, 400), value=st.integers(0, 255))
def test_hostile_bytes_are_read_within_their_bounds(
    compiled: bool, rows: list[Row], at: int, value: int
) -> None:
    """Found or refused, by both in the same way."""
    batch = bytearray(batch_from(rows))
    batch[HEADER_BYTES + at % (len(batch) - HEADER_BYTES)] = value
    header, records = parse_header(bytes(batch)), bytes(batch[HEADER_BYTES:])
    for find in (priorities_of, header_tenant_hashes):
        try:
            found = find(header, records, NAME, compiled=compiled)
        except (CorruptMessage, InvalidRecord):
            with pytest.raises((CorruptMessage, InvalidRecord)):
                find(header, records, NAME, compiled=False)
        else:
            assert found == find(header, records, NAME, compiled=False)


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("find", [priorities_of, header_tenant_hashes])
def test_records_that_cannot_be_there(find: object, compiled: bool) -> None:
    """A header that claims more records than the bytes can hold costs no memory for them."""
    assert callable(find)
    batch = batch_from([([(NAME, b"1")], 1)])
    header = parse_header(batch)._replace(record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    with pytest.raises(InvalidRecord, match="claimed"):
        find(header, batch[HEADER_BYTES:], NAME, compiled=compiled)
