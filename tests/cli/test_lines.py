"""Input to lines, lines to records, records to JSON."""

from __future__ import annotations

import itertools
import json
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.cli.input_records import LineSplitter, NewRecord, parser
from sharegroup.cli.outcome import UsageError
from sharegroup.client.core.json_record import record_json
from sharegroup.client.core.record import HeldDelivery, Record
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.limits import INPUT_LINE_BYTES_MAX
from sharegroup.model.offsets import OffsetRange


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_lines_do_not_depend_on_where_the_chunks_end(data: bytes, cuts: list[int]) -> None:
    splitter = LineSplitter()
    lines: list[bytes] = []
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in itertools.pairwise(bounds):
        lines += splitter.feed(data[start:end])
    lines += splitter.end()
    wanted = data.split(b"\n")
    last = wanted.pop()
    assert lines == [line.removesuffix(b"\r") for line in wanted] + ([last] if last else [])


def test_a_line_of_the_longest_length_and_one_longer() -> None:
    splitter = LineSplitter()
    assert splitter.feed(bytes(INPUT_LINE_BYTES_MAX)) == []
    with pytest.raises(UsageError, match="longer than 67108864 bytes"):
        splitter.feed(b"x")


def test_a_line_is_the_value() -> None:
    assert parser(None, None)(1, b'{"a": 1}') == NewRecord(None, b'{"a": 1}')
    assert parser(None, None)(1, b"") == NewRecord(None, b"")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('{"carrier": "UA", "flight": 1}', b"UA"),
        ('{"carrier": "Größe"}', "Größe".encode()),
        ('{"carrier": 7}', b"7"),
        ('{"carrier": [1, {"a": 2}]}', b'[1,{"a":2}]'),
        ('{"carrier": null}', None),
    ],
)
def test_key_from_a_field(line: str, key: bytes | None) -> None:
    assert parser("carrier", None)(1, line.encode()) == NewRecord(key, line.encode())


def test_blank_lines_between_json_are_no_records() -> None:
    assert parser("carrier", None)(1, b"  ") is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"[1, 2]", "line 17 has no field 'carrier'"),
        (b'{"flight": 1}', "line 17 has no field 'carrier'"),
        (b'{"carrier": ', "line 17 is not JSON: "),
        (b"\xff", "line 17 is not JSON: "),
    ],
)
def test_a_line_without_the_field_is_refused(line: bytes, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parser("carrier", None)(17, line)


def test_key_before_a_separator() -> None:
    parse = parser(None, "::")
    assert parse(1, b"k::v::w") == NewRecord(b"k", b"v::w")
    assert parse(1, b"::v") == NewRecord(b"", b"v")
    with pytest.raises(UsageError, match="line 3 has no '::' after a key"):
        parse(3, b"k:v")


def test_two_options_for_the_key_are_refused() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        parser("carrier", ":")


def test_a_record_as_json() -> None:
    record = Record((7, 1234, b"k", b"\xff\x00", [("h", None)]), delivery())
    assert json.loads(json.dumps(record_json(record))) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp": 1234,
        "delivery_count": 2,
        "key": "k",
        "value": {"base64": "/wA="},
        "headers": [["h", None]],
    }


def delivery() -> HeldDelivery:
    """What a record is part of; it does not show in the JSON."""
    where = TopicIdPartition(uuid4(), 1)
    name = TopicPartition("t", 1)
    return HeldDelivery(where, name, OffsetRange(7, 7), 2, Lease(), deadline=0)


class Lease:
    """A lock that is held."""

    lost = False
    node_id = 1
