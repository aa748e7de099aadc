"""Which records of a batch are not to be delivered yet: their header ``sharegroup.deliver.at`` says
a later time.

The records are looked at by ``expiry.c`` where it is compiled, else in Python.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sharegroup.model.errors import CorruptMessage
from sharegroup.model.limits import SCHEDULE_MS_MAX
from sharegroup.model.record_headers import DELIVER_AT
from sharegroup.records import walk as walking
from sharegroup.records.check import Buffer, check_counts, check_room, walk_plain
from sharegroup.records.compiled import address, not_due_with, pointer
from sharegroup.records.expiry import header_time
from sharegroup.records.pure import LONG, number
from sharegroup.wire.batch import BatchHeader

_NAME: Final = DELIVER_AT.encode()
STEP_MS: Final = 16
"""A record is due at a multiple of this, at its time or a little later: so records of about the
same time are one range, and what waits for them is one thing."""


class NotDue(NamedTuple):
    """The records of one batch that are not to be delivered yet."""

    ranges: list[tuple[int, int, int]]
    """Their offsets, ascending, and when they are due, in milliseconds since 1970. Records of two
    ranges that adjoin are due at two times."""
    unreadable: int
    """How many records have the header, but it says no time within SCHEDULE_MS_MAX. They are due at
    once."""


def not_due(header: BatchHeader, records: Buffer, now_ms: int, *, compiled: bool = True) -> NotDue:
    """What is not due at ``now_ms`` among a batch's plain ``records``, which are all there is in
    the buffer.

    Raises:
        InvalidRecord, CorruptMessage: the records cannot be read.
    """
    check_counts(header, dense=False)
    check_room(header, len(records))
    find = _COMPILED if compiled else None
    runs, unreadable = (_pure if find is None else find)(header, records, now_ms)
    base = header.base_offset
    return NotDue([(base + first, base + last, due) for first, last, due in runs], unreadable)


_Found = tuple[list[tuple[int, int, int]], int]
"""First and last offset deltas of runs and their times, and the number of headers that say no
time."""


def _compiled(library: ctypes.CDLL | None) -> Callable[[BatchHeader, Buffer, int], _Found] | None:
    call = not_due_with(library)
    if call is None:
        return None
    function: Any = call

    def find(header: BatchHeader, records: Buffer, now_ms: int) -> _Found:
        runs = array("q", bytes(24 * header.record_count))
        unreadable = ctypes.c_int64()
        found = function(
            address(records), 0, len(records), header.record_count, header.last_offset_delta,
            _NAME, len(_NAME), now_ms, now_ms + SCHEDULE_MS_MAX, STEP_MS, pointer(runs),
            ctypes.byref(unreadable),
        )  # fmt: skip
        if found < 0:
            walk_plain(header, records, dense=False)
            raise CorruptMessage("the records of a batch have changed while they were read")
        columns = runs[: 3 * found]
        rows = zip(columns[::3], columns[1::3], columns[2::3], strict=True)
        return list(rows), unreadable.value

    return find


def _pure(header: BatchHeader, records: Buffer, now_ms: int) -> _Found:
    plain = bytes(records)
    walk_plain(header, plain, dense=False)
    runs: list[tuple[int, int, int]] = []
    at = unreadable = 0
    for _ in range(header.record_count):
        size, at = number(plain, at, len(plain))
        end = at + size
        _, at = number(plain, at + 1, end, LONG)
        delta, at = number(plain, at, end)
        time = header_time(plain, at, end, _NAME)
        at = end
        if time is None or 0 <= time <= now_ms:
            continue
        if not 0 <= time <= now_ms + SCHEDULE_MS_MAX:
            unreadable += 1
            continue
        due_ms = -(-time // STEP_MS) * STEP_MS
        if runs and runs[-1][1] + 1 == delta and runs[-1][2] == due_ms:
            runs[-1] = (runs[-1][0], delta, due_ms)
        else:
            runs.append((delta, delta, due_ms))
    return runs, unreadable


_COMPILED: Final = _compiled(walking.LIBRARY)
IS_COMPILED: Final = _COMPILED is not None
"""Whether ``expiry.c`` is in use."""
