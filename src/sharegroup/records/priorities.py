"""The priority of each record of a batch: what the last header of a name says.

The records are looked at by ``key_hashes.c`` where it is compiled, else in Python.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sharegroup.model.errors import CorruptMessage
from sharegroup.records import walk as walking
from sharegroup.records.check import Buffer, check_counts, check_room, walk_plain
from sharegroup.records.compiled import address, pointer, priorities_with
from sharegroup.records.pure import LONG, decimal, last_header, number
from sharegroup.wire.batch import BatchHeader

PRIORITY_MAX: Final = 9
"""The highest priority; the lowest one is 0. A header may say a higher one, which is no higher."""
PRIORITY_NONE: Final = 4
"""The priority of a record whose header says none, as in JMS."""


class Priorities(NamedTuple):
    """The priorities of the records of one batch, in the order of the records."""

    priorities: array[int]
    starts: array[int]
    """Where each record begins in the plain records."""
    unreadable: int
    """How many records have the header, but it says no number."""


def priorities_of(
    header: BatchHeader, records: Buffer, name: bytes, *, compiled: bool = True
) -> Priorities:
    """The priorities of a batch's plain ``records``, which are all there is in the buffer.

    Raises:
        InvalidRecord, CorruptMessage: the records cannot be read.
    """
    check_counts(header, dense=False)
    check_room(header, len(records))
    find = _COMPILED if compiled else None
    return (_pure if find is None else find)(header, records, name)


_Find = Callable[[BatchHeader, Buffer, bytes], Priorities]


def _compiled(library: ctypes.CDLL | None) -> _Find | None:
    call = priorities_with(library)
    if call is None:
        return None
    function: Any = call

    def find(header: BatchHeader, records: Buffer, name: bytes) -> Priorities:
        found, starts = (array("q", bytes(8 * header.record_count)) for _ in range(2))
        unreadable = ctypes.c_int64()
        verdict = function(
            address(records), 0, len(records), header.record_count, header.last_offset_delta,
            name, len(name), pointer(found), pointer(starts), ctypes.byref(unreadable),
        )  # fmt: skip
        if verdict:
            walk_plain(header, records, dense=False)
            raise CorruptMessage("the records of a batch have changed while they were read")
        return Priorities(found, starts, unreadable.value)

    return find


def _pure(header: BatchHeader, records: Buffer, name: bytes) -> Priorities:
    plain = bytes(records)
    walk_plain(header, plain, dense=False)
    found, starts = array("q"), array("q")
    at = unreadable = 0
    for _ in range(header.record_count):
        starts.append(at)
        size, at = number(plain, at, len(plain))
        end = at + size
        _, at = number(plain, at + 1, end, LONG)
        _, at = number(plain, at, end)
        value = last_header(plain, at, end, name)
        said = PRIORITY_NONE if value is None else decimal(value)
        unreadable += said < 0
        found.append(PRIORITY_NONE if said < 0 else min(said, PRIORITY_MAX))
        at = end
    return Priorities(found, starts, unreadable)


_COMPILED: Final = _compiled(walking.LIBRARY)
