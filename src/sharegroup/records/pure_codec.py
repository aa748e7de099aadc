"""Records as Python objects, and Python objects as records: ``record_codec.c`` in Python,
for machines where that could not be compiled. The results are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sharegroup.records.pure import LONG, Wrong, field, number
from sharegroup.records.walk_result import Verdict
from sharegroup.wire.batch import HEADER_BYTES, zigzag

Buffer = bytes | bytearray | memoryview
Headers = list[tuple[str, bytes | None]]
Fields = tuple[int, int, bytes | None, bytes | None, Headers]
"""Offset, timestamp in milliseconds, key, value and headers of one record."""

ReadRecords = Callable[[Buffer, int, int, int, int, int, int, bool], tuple[list[Fields], int]]
Append = Callable[[int, bytes | None, bytes | None, Headers], bool]
Finish = Callable[[], tuple[bytes, int, int, int]]
NewWriter = Callable[[int], tuple[Append, Finish]]

BATCH_BYTES_MAX: Final = 2**31 - 1
_WRAP: Final = 2**64
_HALF: Final = 2**63
_NULL: Final = b"\1"


class Codec(NamedTuple):
    """How records are read and written: :func:`read_records` and :func:`new_writer`."""

    read_records: ReadRecords
    new_writer: NewWriter


def read_records(
    data: Buffer,
    start: int,
    end: int,
    count: int,
    last_delta: int,
    base_offset: int,
    timestamp: int,
    append_time: bool,
) -> tuple[list[Fields], int]:
    """Read ``count`` plain records in ``data[start:end]``: those before the first that is not good,
    and the verdict, as :func:`sharegroup.records.pure.walk` gives it without ``dense``.

    In a header's name, bytes that are not UTF-8 become replacement characters.

    Args:
        last_delta: the offset deltas ascend, and no delta is over this.
        timestamp: of the batch; with ``append_time`` it is the timestamp of every record, otherwise
            the records' timestamp deltas are added to it.

    Raises:
        ValueError: the records are not within the data.
    """
    if not 0 <= start <= end <= len(data):
        raise ValueError("the records are not within the data")
    body = bytes(memoryview(data)[start:end])
    made: list[Fields] = []
    position, before = 0, -1
    try:
        while len(made) < count:
            if position == len(body):
                raise Wrong(Verdict.FEWER, position)
            (shift, before, key, value, headers), position = _record(
                body, position, before + 1, last_delta
            )
            time = timestamp if append_time else _int64(timestamp + shift)
            made.append((_int64(base_offset + before), time, key, value, headers))
        if position != len(body):
            raise Wrong(Verdict.MORE, position)
    except Wrong as wrong:
        return made, wrong.verdict
    return made, Verdict.GOOD


def _record(body: bytes, position: int, first_delta: int, last_delta: int) -> tuple[Fields, int]:
    """The record at ``position``, with its deltas in place of timestamp and offset, and where it
    ends.

    Raises:
        Wrong: the record is malformed.
    """
    size, position = number(body, position, len(body))
    if size < 0:
        raise Wrong(Verdict.LENGTH, position)
    end = position + size
    if end > len(body) or not size:
        raise Wrong(Verdict.CUT, position)
    shift, position = number(body, position + 1, end, LONG)  # attributes: none is in use
    delta, position = number(body, position, end)
    if not first_delta <= delta <= last_delta:
        raise Wrong(Verdict.DELTA, position)
    key, position = _bytes(body, position, end)
    value, position = _bytes(body, position, end)
    headers, position = _headers(body, position, end)
    if position != end:
        raise Wrong(Verdict.END, position)
    return (shift, delta, key, value, headers), position


def _headers(body: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = number(body, position, end)
    if not 0 <= count <= (end - position) // 2:
        raise Wrong(Verdict.LENGTH, position)
    made: Headers = []
    for _ in range(count):
        length, position = field(body, position, end, 0)
        name = body[position - length : position].decode("utf-8", "replace")
        content, position = _bytes(body, position, end)
        made.append((name, content))
    return made, position


def _bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = field(body, position, end, -1)
    return (None if length < 0 else body[position - length : position]), position


def _int64(value: int) -> int:
    """The value as Java's long, which wraps."""
    return (value + _HALF) % _WRAP - _HALF


def new_writer(bytes_max: int) -> tuple[Append, Finish]:
    """Two functions that write the records of one batch.

    ``append(timestamp, key, value, headers)`` adds a record, a list of headers with it. It returns
    False, and adds nothing, if the batch would become larger than ``bytes_max``, or than a batch
    can be; a first record always fits. It raises ValueError for a record of 2 GiB, and TypeError
    for other types.

    ``finish()`` gives the records' bytes, their number, the timestamp of the first, which the
    timestamp deltas refer to, and the largest timestamp.
    """
    writer = _Writer(min(bytes_max, BATCH_BYTES_MAX))
    return writer.append, writer.finish


class _Writer:
    __slots__ = ("_base_timestamp", "_bytes_max", "_count", "_max_timestamp", "_records")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._records = bytearray()
        self._count = 0
        self._base_timestamp = 0
        self._max_timestamp = 0

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> bool:
        base = self._base_timestamp if self._count else timestamp
        parts = [b"\0", zigzag(_int64(timestamp - base)), zigzag(self._count)]  # no attributes
        parts += _sized(key)
        parts += _sized(value)
        parts.append(zigzag(len(headers)))
        for name, content in headers:
            parts += _sized(name.encode())
            parts += _sized(content)
        body = b"".join(parts)
        size = zigzag(len(body))
        total = HEADER_BYTES + len(size) + len(body)
        if total > BATCH_BYTES_MAX:
            raise ValueError("a record of 2 GiB fits into no batch")
        if self._count and len(self._records) + total > self._bytes_max:
            return False
        self._records += size
        self._records += body
        self._max_timestamp = max(self._max_timestamp, timestamp) if self._count else timestamp
        self._base_timestamp = base
        self._count += 1
        return True

    def finish(self) -> tuple[bytes, int, int, int]:
        return bytes(self._records), self._count, self._base_timestamp, self._max_timestamp


def _sized(content: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if content is None else (zigzag(len(content)), content)


PURE: Final = Codec(read_records, new_writer)
