"""The walk of ``walk.c`` in Python, for machines where ``walk.c`` could not be compiled: the same
verdict on any bytes, a hundred times slower.
"""

from __future__ import annotations

from typing import Final

from sharegroup.records.walk_result import TIMELESS, Verdict, Walked

VERSION: Final = 10
"""Version of the walk; ``walk.c`` has the same."""

INT: Final = 5
"""Bytes of a number of 32 bits at most."""
LONG: Final = 10
"""Bytes of a number of 64 bits at most."""
_LAST_BYTE: Final = {INT: 0x0F, LONG: 0x01}
_DIGITS_MAX: Final = 18
_WRAP: Final = 2**64
_HALF: Final = 2**63


Range = tuple[int, int]
Seen = tuple[int, int, bool, int]
"""Timestamp delta, offset delta, has a key, where it ends."""


class Wrong(Exception):
    """Ends the walk: ``verdict`` at ``position``."""

    def __init__(self, verdict: Verdict, position: int) -> None:
        super().__init__(verdict.words)
        self.verdict = verdict
        self.position = position


def walk(
    data: bytes,
    start: int,
    end: int,
    count: int,
    last_delta: int,
    *,
    dense: bool,
    base_timestamp: int,
) -> Walked:
    """Walk ``count`` records in ``data[start:end]``.

    Args:
        dense: the offset delta of each record is its index; otherwise the deltas ascend and no
            delta is over ``last_delta``.
    """
    position, index, before = start, 0, -1
    keyless, times = 0, TIMELESS
    verdict = Verdict.GOOD
    try:
        while index < count:
            if position == end:
                raise Wrong(Verdict.FEWER, position)
            timestamp_delta, delta, has_key, position = _record(
                data, position, end, (index, index) if dense else (before + 1, last_delta)
            )
            before = delta
            keyless += not has_key
            times = _times(times, base_timestamp + timestamp_delta)
            index += 1
        if position != end:
            raise Wrong(Verdict.MORE, position)
    except Wrong as wrong:
        verdict, position = wrong.verdict, wrong.position
    return Walked(verdict, index, position, *times, keyless)


def _times(times: tuple[int, int], timestamp: int) -> tuple[int, int]:
    """``times`` with one more timestamp; as in Java, 64-bit sums wrap."""
    timestamp = (timestamp + _HALF) % _WRAP - _HALF
    return times if timestamp == -1 else (min(times[0], timestamp), max(times[1], timestamp))


def _record(data: bytes, position: int, body_end: int, deltas: Range) -> Seen:
    """The record at ``position``. :func:`_usual` is fast and reads nearly all records;
    :func:`_careful` reads any other and gives the verdict.

    Raises:
        Wrong: the record is malformed.
    """
    try:
        seen = _usual(data, position)
    except (IndexError, Wrong):
        seen = None
    if seen is not None and seen[3] <= body_end and deltas[0] <= seen[1] <= deltas[1]:
        return seen
    return _careful(data, position, body_end, deltas)


def _usual(data: bytes, at: int) -> Seen | None:
    """A record without headers, as nearly all are; None for any other record, also a malformed one.

    This runs for each record, so numbers of one byte, the usual case, are read without a call.
    """
    byte, room = data[at], len(data)
    size, at = ((byte >> 1) ^ -(byte & 1), at + 1) if byte < 0x80 else number(data, at, room)
    end = at + size
    at += 1  # attributes: none is in use
    byte = data[at]
    time, at = ((byte >> 1) ^ -(byte & 1), at + 1) if byte < 0x80 else number(data, at, room, LONG)
    byte = data[at]
    delta, at = ((byte >> 1) ^ -(byte & 1), at + 1) if byte < 0x80 else number(data, at, room)
    byte = data[at]
    key, at = ((byte >> 1) ^ -(byte & 1), at + 1) if byte < 0x80 else number(data, at, room)
    if key > 0:
        at += key
    byte = data[at]
    value, at = ((byte >> 1) ^ -(byte & 1), at + 1) if byte < 0x80 else number(data, at, room)
    if value > 0:
        at += value
    if data[at] or at + 1 != end or size < 0 or key < -1 or value < -1:
        return None
    return time, delta, key >= 0, end


def _careful(
    data: bytes, position: int, body_end: int, deltas: tuple[int, int]
) -> tuple[int, int, bool, int]:
    """(timestamp delta, offset delta, has a key, where it ends) of the record at ``position``."""
    size, position = number(data, position, body_end)
    if size < 0:
        raise Wrong(Verdict.LENGTH, position)
    end = position + size
    if end > body_end or not size:
        raise Wrong(Verdict.CUT, position)
    position += 1  # attributes: none is in use
    timestamp_delta, position = number(data, position, end, LONG)
    delta, position = number(data, position, end)
    if not deltas[0] <= delta <= deltas[1]:
        raise Wrong(Verdict.DELTA, position)
    key, position = field(data, position, end, -1)
    _, position = field(data, position, end, -1)
    position = _headers(data, position, end)
    if position != end:
        raise Wrong(Verdict.END, position)
    return timestamp_delta, delta, key >= 0, position


def _headers(data: bytes, position: int, end: int) -> int:
    count, position = number(data, position, end)
    if not 0 <= count <= (end - position) // 2:
        raise Wrong(Verdict.LENGTH, position)
    for _ in range(count):
        _, position = field(data, position, end, 0)
        _, position = field(data, position, end, -1)
    return position


def field(data: bytes, position: int, end: int, shortest: int) -> tuple[int, int]:
    """Step over a field. Returns its length (-1: null) and the position after it.

    Raises:
        Wrong: its length is below ``shortest``, or it goes over ``end``.
    """
    length, position = number(data, position, end)
    if length < shortest:
        raise Wrong(Verdict.LENGTH, position)
    if length > end - position:
        raise Wrong(Verdict.CUT, position)
    return length, position + max(length, 0)


def number(data: bytes, position: int, end: int, width: int = INT) -> tuple[int, int]:
    """The zig-zag number at ``position``, of at most ``width`` bytes, and the position after it.

    Raises:
        Wrong: the number goes over ``end``, or over its width: 5 bytes are 32 bits, 10 are 64.
    """
    value = shift = 0
    last = position + width - 1
    while True:
        if position >= end:
            raise Wrong(Verdict.CUT, position)
        byte = data[position]
        position += 1
        if position > last and byte > _LAST_BYTE[width]:
            raise Wrong(Verdict.NUMBER, position)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


def last_header(plain: bytes, at: int, end: int, name: bytes) -> bytes | None:
    """The value of the last header of this name, of a walked record whose key begins at ``at``;
    empty for null. None: there is no such header."""
    for _ in ("key", "value"):
        length, at = number(plain, at, end)
        at += max(length, 0)
    count, at = number(plain, at, end)
    found: bytes | None = None
    for _ in range(count):
        length, at = number(plain, at, end)
        is_it = plain[at : at + length] == name
        length, at = number(plain, at + length, end)
        if is_it:
            found = plain[at : at + max(length, 0)]
        at += max(length, 0)
    return found


def decimal(value: bytes) -> int:
    """The number that ``value`` says in decimal digits; -1: it says none, or one with more than 63
    bits."""
    return int(value) if value.isdigit() and len(value) <= _DIGITS_MAX else -1
