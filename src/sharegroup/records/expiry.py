"""Which records of a batch are worthless by now: by their age, or by a header that says a time.

The records are looked at by ``expiry.c`` where it is compiled, else in Python. If even the youngest
record of a batch is too old, no record is looked at.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sharegroup.model.errors import CorruptMessage
from sharegroup.model.record_headers import EXPIRES_AT
from sharegroup.records import walk as walking
from sharegroup.records.check import Buffer, check_counts, check_room, walk_plain
from sharegroup.records.compiled import address, expired_with
from sharegroup.records.pure import LONG, decimal, last_header, number
from sharegroup.wire.batch import LOG_APPEND_TIME, BatchHeader

_NAME: Final = EXPIRES_AT.encode()
NOBODY_IS_OLD: Final = -1
"""As ``born_until_ms``: no record is too old."""


class Rules(NamedTuple):
    """When records have expired, in milliseconds since 1970."""

    now_ms: int
    born_until_ms: int
    """Records with a timestamp up to this one are too old; NOBODY_IS_OLD: none is."""
    by_header: bool
    """Records have expired at the time in their header ``sharegroup.expires.at``."""


class Expired(NamedTuple):
    """The records of one batch that have expired."""

    ranges: list[tuple[int, int]]
    """Their offsets, ascending; ranges without gaps that do not adjoin."""
    unreadable: int
    """How many records have the header, but it says no time. They have not expired by it."""


NOTHING: Final = Expired([], 0)


def is_worth_a_look(header: BatchHeader, rules: Rules) -> bool:
    """Whether the records of a batch must be looked at, which :func:`too_old` does not settle."""
    by_age = rules.born_until_ms >= 0 and not header.attributes & LOG_APPEND_TIME
    return bool(header.record_count) and (rules.by_header or by_age)


def too_old(header: BatchHeader, rules: Rules) -> bool:
    """Whether all records of a batch are too old, and no record was compacted away from it."""
    whole = header.record_count == header.last_offset_delta + 1
    return whole and 0 <= header.max_timestamp <= rules.born_until_ms


def expired(
    header: BatchHeader, records: Buffer, rules: Rules, *, compiled: bool = True
) -> Expired:
    """The expired ones among a batch's plain ``records``, which are all there is in the buffer.

    Raises:
        InvalidRecord, CorruptMessage: the records cannot be read.
    """
    check_counts(header, dense=False)
    check_room(header, len(records))
    born_until = rules.born_until_ms
    if header.attributes & LOG_APPEND_TIME:  # all records have the batch's largest timestamp
        born_until = NOBODY_IS_OLD
        if 0 <= header.max_timestamp <= rules.born_until_ms:
            born_until = 2**63 - 1
    rules = rules._replace(born_until_ms=born_until)
    find = _COMPILED if compiled else None
    runs, unreadable = (_pure if find is None else find)(header, records, rules)
    base = header.base_offset
    return Expired([(base + first, base + last) for first, last in runs], unreadable)


_Found = tuple[list[tuple[int, int]], int]
"""First and last offset deltas of runs, and the number of headers that say no time."""


def _compiled(library: ctypes.CDLL | None) -> Callable[[BatchHeader, Buffer, Rules], _Found] | None:
    call = expired_with(library)
    if call is None:
        return None
    function: Any = call

    def find(header: BatchHeader, records: Buffer, rules: Rules) -> _Found:
        runs = array("q", bytes(16 * header.record_count))
        unreadable = ctypes.c_int64()
        found = function(
            address(records), 0, len(records), header.record_count, header.last_offset_delta,
            header.base_timestamp, rules.born_until_ms, _NAME, len(_NAME) * rules.by_header,
            rules.now_ms, ctypes.c_void_p(runs.buffer_info()[0]), ctypes.byref(unreadable),
        )  # fmt: skip
        if found < 0:
            walk_plain(header, records, dense=False)
            raise CorruptMessage("the records of a batch have changed while they were read")
        pairs = runs[: 2 * found]
        return list(zip(pairs[::2], pairs[1::2], strict=True)), unreadable.value

    return find


def _pure(header: BatchHeader, records: Buffer, rules: Rules) -> _Found:
    plain = bytes(records)
    walk_plain(header, plain, dense=False)
    runs: list[tuple[int, int]] = []
    at = unreadable = 0
    for _ in range(header.record_count):
        size, at = number(plain, at, len(plain))
        end = at + size
        time_delta, at = number(plain, at + 1, end, LONG)
        delta, at = number(plain, at, end)
        timestamp = (header.base_timestamp + time_delta + 2**63) % 2**64 - 2**63
        gone = 0 <= timestamp <= rules.born_until_ms
        if not gone and rules.by_header:
            time = header_time(plain, at, end, _NAME)
            unreadable += time == -1
            gone = time is not None and 0 <= time <= rules.now_ms
        at = end
        if gone and runs and runs[-1][1] + 1 == delta:
            runs[-1] = (runs[-1][0], delta)
        elif gone:
            runs.append((delta, delta))
    return runs, unreadable


def header_time(plain: bytes, at: int, end: int, name: bytes) -> int | None:
    """The time in the last header of this name, of the record whose key begins at ``at``; -1: it
    says none; None: there is no such header."""
    found = last_header(plain, at, end, name)
    return None if found is None else decimal(found)


_COMPILED: Final = _compiled(walking.LIBRARY)
IS_COMPILED: Final = _COMPILED is not None
"""Whether ``expiry.c`` is in use."""
