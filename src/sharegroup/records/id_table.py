"""The message ids that a partition has had within a window: who came first.

A ring of ids in the order of their records, the oldest of which are forgotten when the window has
passed, and an index of them. The table is C where the walk is compiled (``message_ids.c``, 48 bytes
an id when it is full), else a dictionary and a queue.

Invariants (:meth:`IdTable.check_invariants`):

* offsets ascend in the ring, and the ring holds at most ``ids_max`` ids;
* each id in the index is the latest of its name in the ring, and was not freed.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sharegroup.model.limits import DEDUPLICATION_IDS_MAX
from sharegroup.records import walk as walking
from sharegroup.records.compiled import address, pointer
from sharegroup.records.message_ids import USES_COMPILED, FoundIds

Buffer = bytes | bytearray | memoryview

ROW_BYTES: Final = 32
"""An id on disk: its hash (16 bytes), the offset of its record, when that was appended (ms)."""
SETTLED: Final = -1
"""The owner of an id whose record is in no open transaction."""
_FREE: Final = -2
_ENTRY_BYTES: Final = 40
_SLOT_BYTES: Final = 4
_CAPACITY_MIN: Final = 1024
_EXPIRED_AT_ONCE: Final = 64
"""How many old ids a batch forgets, besides two for each of its records: so the work of a batch
stays small after a pause in which a million ids have become old."""
_ROW: Final = struct.Struct("<QQqq")


class IdTable(Protocol):
    """See the module. Times are milliseconds of one clock that never goes back; ``expired_ms``: ids
    of this time and earlier are not known any more."""

    ids_max: int
    """How many ids there is room for."""

    @property
    def early(self) -> int:
        """How many ids were forgotten within the window, because there was no room."""
        ...

    def __len__(self) -> int:
        """How many entries the ring has, old ones as well."""
        ...

    def decide(
        self, ids: FoundIds, base_offset: int, now_ms: int, expired_ms: int, owner: int
    ) -> array[int] | None:
        """For each record of a batch, which is to be appended at ``base_offset``: the offset of the
        first record of its id, or -1 if the record is to be appended. New ids are noted, and
        :meth:`undo` takes them back. None: another producer has one of the ids in its open
        transaction; nothing was noted.

        Args:
            owner: the producer of a transactional batch, else SETTLED.
        """
        ...

    def look(self, ids: FoundIds, expired_ms: int) -> array[int]:
        """The offset of the record that has each id now, or -1; notes nothing."""
        ...

    def note(
        self, ids: FoundIds, base_offset: int, time_ms: int, expired_ms: int, owner: int
    ) -> None:
        """Note the ids of a batch that is in the log."""
        ...

    def mark(self) -> int:
        """Where :meth:`undo` may go back to."""
        ...

    def undo(self, mark: int) -> None:
        """Take back what was noted since :meth:`mark`."""
        ...

    def settle(self, owner: int, first_offset: int, *, committed: bool) -> None:
        """A producer's transaction, which has no id before ``first_offset``, has ended. If it was
        aborted, its ids are free."""
        ...

    def export(self, first_offset: int, end_offset: int, shift_ms: int) -> bytes:
        """The rows of all settled ids of these offsets, their times later by ``shift_ms``."""
        ...

    def load(self, rows: Buffer, shift_ms: int, now_ms: int, expired_ms: int) -> None:
        """Note the ids of rows; a time after ``now_ms`` counts as ``now_ms``."""
        ...

    def check_invariants(self) -> None:
        """Assert what the module's docstring lists."""
        ...


def id_table(ids_max: int = DEDUPLICATION_IDS_MAX, *, compiled: bool = USES_COMPILED) -> IdTable:
    """An empty table. ``ids_max``: a power of two."""
    if walking.LIBRARY is None or not compiled:
        return PureIdTable(ids_max)
    return CompiledIdTable(walking.LIBRARY, ids_max)


class _Table(ctypes.Structure):
    """``Table`` of ``message_ids.c``."""

    _fields_ = (
        ("entries", ctypes.c_void_p),
        ("index", ctypes.c_void_p),
        ("capacity", ctypes.c_int64),
        ("tail", ctypes.c_int64),
        ("head", ctypes.c_int64),
        ("early", ctypes.c_int64),
    )


class CompiledIdTable:
    """:class:`IdTable` by ``message_ids.c``."""

    def __init__(self, library: ctypes.CDLL, ids_max: int) -> None:
        self._library: Any = library
        self.ids_max = ids_max
        self._table, self._memory = _empty(min(_CAPACITY_MIN, ids_max))
        self._moved = 0
        """By how much the numbers of entries have grown with the table: marks do not count it."""

    @property
    def early(self) -> int:
        """See :class:`IdTable`."""
        return int(self._table.early)

    def __len__(self) -> int:
        return int(self._table.head - self._table.tail)

    def decide(
        self, ids: FoundIds, base_offset: int, now_ms: int, expired_ms: int, owner: int
    ) -> array[int] | None:
        """See :class:`IdTable`."""
        count = len(ids.has)
        self._expire(expired_ms, ids.found)
        self._make_room(ids.found, expired_ms)
        firsts = array("q", bytes(8 * count))
        repeated = self._library.sharegroup_ids_decide(
            ctypes.byref(self._table), pointer(ids.hashes), address(ids.has), pointer(ids.deltas),
            count, base_offset, now_ms, expired_ms, owner, pointer(firsts),
        )  # fmt: skip
        return None if repeated < 0 else firsts

    def look(self, ids: FoundIds, expired_ms: int) -> array[int]:
        """See :class:`IdTable`."""
        firsts = array("q", bytes(8 * len(ids.has)))
        self._library.sharegroup_ids_look(
            ctypes.byref(self._table), pointer(ids.hashes), address(ids.has), len(ids.has),
            expired_ms, pointer(firsts),
        )  # fmt: skip
        return firsts

    def note(
        self, ids: FoundIds, base_offset: int, time_ms: int, expired_ms: int, owner: int
    ) -> None:
        """See :class:`IdTable`."""
        self._make_room(ids.found, expired_ms)
        self._library.sharegroup_ids_note(
            ctypes.byref(self._table), pointer(ids.hashes), address(ids.has), pointer(ids.deltas),
            len(ids.has), base_offset, time_ms, expired_ms, owner,
        )  # fmt: skip

    def mark(self) -> int:
        """See :class:`IdTable`."""
        return int(self._table.head) - self._moved

    def undo(self, mark: int) -> None:
        """See :class:`IdTable`."""
        self._library.sharegroup_ids_undo(ctypes.byref(self._table), mark + self._moved)

    def settle(self, owner: int, first_offset: int, *, committed: bool) -> None:
        """See :class:`IdTable`."""
        self._library.sharegroup_ids_settle(
            ctypes.byref(self._table), owner, first_offset, committed
        )

    def export(self, first_offset: int, end_offset: int, shift_ms: int) -> bytes:
        """See :class:`IdTable`."""
        what = ctypes.byref(self._table), first_offset, end_offset, shift_ms
        rows = bytearray(ROW_BYTES * self._library.sharegroup_ids_export(*what, None))
        if rows:
            self._library.sharegroup_ids_export(*what, address(rows))
        return bytes(rows)

    def load(self, rows: Buffer, shift_ms: int, now_ms: int, expired_ms: int) -> None:
        """See :class:`IdTable`."""
        count = len(rows) // ROW_BYTES
        self._make_room(count, expired_ms)
        self._library.sharegroup_ids_import(
            ctypes.byref(self._table), address(bytes(rows)), count, shift_ms, now_ms, expired_ms
        )

    def check_invariants(self) -> None:
        """See :class:`IdTable`."""
        rows = self.export(0, 2**63 - 1, 0)
        offsets = [row[2] for row in _ROW.iter_unpack(rows)]
        assert offsets == sorted(set(offsets))
        assert 0 <= len(self) <= self.ids_max

    def _expire(self, expired_ms: int, added: int) -> None:
        most = 2 * added + _EXPIRED_AT_ONCE
        self._library.sharegroup_ids_expire(ctypes.byref(self._table), expired_ms, most)

    def _make_room(self, added: int, expired_ms: int) -> None:
        capacity = self._table.capacity
        while len(self) + added > capacity < self.ids_max:
            capacity *= 2
        if capacity == self._table.capacity:
            return
        table, memory = _empty(capacity)
        table.early = self._table.early
        self._library.sharegroup_ids_move(
            ctypes.byref(self._table), ctypes.byref(table), expired_ms
        )
        self._moved += table.head - self._table.head
        self._table, self._memory = table, memory


def _empty(capacity: int) -> tuple[_Table, mmap.mmap]:
    """A table without ids, and its memory; pages that are never touched take none."""
    memory = mmap.mmap(-1, capacity * (_ENTRY_BYTES + 2 * _SLOT_BYTES))
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return _Table(start, start + capacity * _ENTRY_BYTES, capacity, 0, 0, 0), memory


@dataclass(slots=True, eq=False)
class _Entry:
    name: tuple[int, int]
    offset: int
    time_ms: int
    owner: int


class PureIdTable:
    """:class:`IdTable` in Python."""

    def __init__(self, ids_max: int) -> None:
        self.ids_max = ids_max
        self._ring: deque[_Entry] = deque()
        self._index: dict[tuple[int, int], _Entry] = {}
        self._added = 0
        self.early = 0

    def __len__(self) -> int:
        return len(self._ring)

    def decide(
        self, ids: FoundIds, base_offset: int, now_ms: int, expired_ms: int, owner: int
    ) -> array[int] | None:
        """See :class:`IdTable`."""
        for _, name in _names(ids):
            entry = self._living(name, expired_ms)
            if entry is not None and entry.owner >= 0 and entry.owner != owner:
                return None
        self._expire(expired_ms, 2 * ids.found + _EXPIRED_AT_ONCE)
        firsts = array("q", [-1]) * len(ids.has)
        for index, name in _names(ids):
            entry = self._living(name, expired_ms)
            if entry is not None:
                firsts[index] = entry.offset
            else:
                offset = base_offset + ids.deltas[index]
                self._insert(_Entry(name, offset, now_ms, owner), expired_ms)
        return firsts

    def look(self, ids: FoundIds, expired_ms: int) -> array[int]:
        """See :class:`IdTable`."""
        firsts = array("q", [-1]) * len(ids.has)
        for index, name in _names(ids):
            entry = self._living(name, expired_ms)
            firsts[index] = -1 if entry is None else entry.offset
        return firsts

    def note(
        self, ids: FoundIds, base_offset: int, time_ms: int, expired_ms: int, owner: int
    ) -> None:
        """See :class:`IdTable`."""
        for index, name in _names(ids):
            offset = base_offset + ids.deltas[index]
            self._insert(_Entry(name, offset, time_ms, owner), expired_ms)

    def mark(self) -> int:
        """See :class:`IdTable`."""
        return self._added

    def undo(self, mark: int) -> None:
        """See :class:`IdTable`."""
        while self._added > mark and self._ring:
            self._added -= 1
            self._unlink(self._ring.pop())

    def settle(self, owner: int, first_offset: int, *, committed: bool) -> None:
        """See :class:`IdTable`."""
        for entry in reversed(self._ring):
            if entry.offset < first_offset:
                break
            if entry.owner == owner:
                if not committed:
                    self._unlink(entry)
                entry.owner = SETTLED if committed else _FREE

    def export(self, first_offset: int, end_offset: int, shift_ms: int) -> bytes:
        """See :class:`IdTable`."""
        return b"".join(
            _ROW.pack(*entry.name, entry.offset, entry.time_ms + shift_ms)
            for entry in self._ring
            if entry.owner == SETTLED and first_offset <= entry.offset < end_offset
        )

    def load(self, rows: Buffer, shift_ms: int, now_ms: int, expired_ms: int) -> None:
        """See :class:`IdTable`."""
        for low, high, offset, row_ms in _ROW.iter_unpack(rows):
            time_ms = min(row_ms + shift_ms, now_ms)
            if time_ms > expired_ms:
                self._insert(_Entry((low, high), offset, time_ms, SETTLED), expired_ms)

    def check_invariants(self) -> None:
        """See :class:`IdTable`."""
        offsets = [entry.offset for entry in self._ring]
        assert offsets == sorted(set(offsets))
        assert len(self._ring) <= self.ids_max
        latest = {entry.name: entry for entry in self._ring}
        for name, entry in self._index.items():
            assert latest[name] is entry or latest[name].owner == _FREE
            assert entry.owner != _FREE

    def _living(self, name: tuple[int, int], expired_ms: int) -> _Entry | None:
        entry = self._index.get(name)
        return None if entry is None or entry.time_ms <= expired_ms else entry

    def _insert(self, entry: _Entry, expired_ms: int) -> None:
        if len(self._ring) == self.ids_max:
            oldest = self._ring.popleft()
            self.early += self._unlink(oldest) and oldest.time_ms > expired_ms
        self._ring.append(entry)
        self._index[entry.name] = entry
        self._added += 1

    def _unlink(self, entry: _Entry) -> bool:
        if self._index.get(entry.name) is not entry:
            return False
        del self._index[entry.name]
        return True

    def _expire(self, expired_ms: int, most: int) -> None:
        while most > 0 and self._ring and self._ring[0].time_ms <= expired_ms:
            self._unlink(self._ring.popleft())
            most -= 1


def _names(ids: FoundIds) -> Iterator[tuple[int, tuple[int, int]]]:
    """(index, hash) of each record that has an id."""
    for index, has in enumerate(ids.has):
        if has:
            yield index, (ids.hashes[2 * index], ids.hashes[2 * index + 1])
