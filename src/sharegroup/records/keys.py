"""The last offset of each key, and which records of a batch stay because of it: the inner loops of
the log cleaner (Kafka classes SkimpyOffsetMap and MemoryRecords, filterTo).

A key is known by a keyed hash of 128 bits: without the secret nobody can make two keys with the
same hash. The table is C where the walk is compiled (``walk.c``, 24 bytes a slot), else a
dictionary.
"""

from __future__ import annotations

import ctypes
import mmap
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

from sharegroup.model.errors import CorruptMessage
from sharegroup.records import walk as walking
from sharegroup.records.check import walk_plain
from sharegroup.records.compiled import address
from sharegroup.records.pure import LONG, number
from sharegroup.wire.batch import BatchHeader, zigzag

Buffer = bytes | bytearray | memoryview

SECRET_BYTES: Final = 16
SLOT_BYTES: Final = 24
ENTRY_BYTES: Final = 200
"""What one key costs in a dictionary: the slot, the hash and the offset as Python objects."""
_LOAD: Final = 0.75
_SLOTS_MIN: Final = 1024
_SHIFT_ROOM: Final = 16
"""A changed timestamp makes a record at most nine bytes longer, and its length four."""


class KeptRecords(NamedTuple):
    """The records of a batch that stay."""

    records: int
    data: bytes
    tombstones: int
    """How many of the records have no value."""
    latest_ms: int
    """The largest timestamp of the records; -1 if no record has one."""


class Rules(NamedTuple):
    """How :meth:`KeyTable.kept` decides."""

    end_offset: int
    """A record from this offset on stays: the table does not know the log from here on."""
    drop_tombstones: bool
    base_timestamp: int
    """The timestamp that the deltas in the result count from, in milliseconds."""


class KeyTable(Protocol):
    """The last offset of each key that was noted."""

    def has_room(self, keys: int) -> bool:
        """Whether ``keys`` new keys fit. An empty table has room for any number of keys."""
        ...

    def note(self, header: BatchHeader, data: Buffer, start: int) -> None:
        """Note the keys of one batch, whose plain records stand in ``data`` from ``start`` on.

        Raises:
            InvalidRecord, CorruptMessage: the records cannot be read; nothing was noted.
        """
        ...

    def kept(self, header: BatchHeader, data: Buffer, start: int, rules: Rules) -> KeptRecords:
        """The records of a batch that stay; raises as :meth:`note`."""
        ...


def key_table(secret: bytes, bytes_max: int) -> KeyTable:
    """An empty table that takes about ``bytes_max`` bytes when it is full."""
    if walking.LIBRARY is None:
        return PureKeyTable(secret, bytes_max)
    return CompiledKeyTable(walking.LIBRARY, secret, bytes_max)


class CompiledKeyTable:
    """:class:`KeyTable` by ``walk.c``."""

    def __init__(self, library: ctypes.CDLL, secret: bytes, bytes_max: int) -> None:
        self._library: Any = library
        self._secret = secret
        self._keys_max = int(bytes_max // SLOT_BYTES * _LOAD)
        self._keys = 0
        self._size = _SLOTS_MIN
        self._slots = _zeros(_SLOTS_MIN)

    def has_room(self, keys: int) -> bool:
        """See :class:`KeyTable`."""
        return not self._keys or self._keys + keys <= self._keys_max

    def note(self, header: BatchHeader, data: Buffer, start: int) -> None:
        """See :class:`KeyTable`."""
        self._grow(self._keys + header.record_count)
        added = self._library.sharegroup_keys_note(
            address(self._slots), self._size, self._secret, address(data), start, len(data),
            header.record_count, header.last_offset_delta, header.base_offset,
        )  # fmt: skip
        if added < 0:
            _refuse(header, data, start)
        self._keys += added

    def kept(self, header: BatchHeader, data: Buffer, start: int, rules: Rules) -> KeptRecords:
        """See :class:`KeyTable`."""
        out = bytearray(len(data) - start + _SHIFT_ROOM * header.record_count)
        facts = (ctypes.c_int64 * 4)()
        verdict = self._library.sharegroup_keys_filter(
            address(self._slots), self._size, self._secret, address(data), start, len(data),
            header.record_count, header.last_offset_delta, header.base_offset, rules.end_offset,
            rules.drop_tombstones, header.base_timestamp,
            header.base_timestamp - rules.base_timestamp, address(out), facts,
        )  # fmt: skip
        if verdict:
            _refuse(header, data, start)
        records, size, tombstones, latest_ms = facts
        return KeptRecords(records, bytes(memoryview(out)[:size]), tombstones, latest_ms)

    def _grow(self, keys: int) -> None:
        size = self._size
        while size * _LOAD < keys:
            size *= 2
        if size > self._size:
            slots = _zeros(size)
            self._library.sharegroup_keys_move(
                address(self._slots), self._size, address(slots), size
            )
            self._size, self._slots = size, slots


def _zeros(slots: int) -> mmap.mmap:
    """Empty slots; pages that are never touched take no memory."""
    return mmap.mmap(-1, slots * SLOT_BYTES)


def _refuse(header: BatchHeader, data: Buffer, start: int) -> None:
    """Raise what the walk says of a batch that is not good."""
    walk_plain(header, memoryview(data)[start:], dense=False)
    raise CorruptMessage("the records of a batch have changed while they were read")


class PureKeyTable:
    """:class:`KeyTable` in Python."""

    def __init__(self, secret: bytes, bytes_max: int) -> None:
        self._secret = secret
        self._keys_max = bytes_max // ENTRY_BYTES
        self._offsets: dict[bytes, int] = {}

    def has_room(self, keys: int) -> bool:
        """See :class:`KeyTable`."""
        return not self._offsets or len(self._offsets) + keys <= self._keys_max

    def note(self, header: BatchHeader, data: Buffer, start: int) -> None:
        """See :class:`KeyTable`."""
        for record in _records(header, data, start):
            if record.key is not None:
                self._offsets[self._hash(record.key)] = header.base_offset + record.delta

    def kept(self, header: BatchHeader, data: Buffer, start: int, rules: Rules) -> KeptRecords:
        """See :class:`KeyTable`."""
        shift = header.base_timestamp - rules.base_timestamp
        parts: list[bytes] = []
        tombstones, latest_ms = 0, -1
        for record in _records(header, data, start):
            if not self._stays(record, header.base_offset + record.delta, rules):
                continue
            tombstones += not record.has_value
            latest_ms = max(latest_ms, header.base_timestamp + record.time)
            parts.append(_shifted(record, shift) if shift else record.whole)
        return KeptRecords(len(parts), b"".join(parts), tombstones, latest_ms)

    def _stays(self, record: _Record, offset: int, rules: Rules) -> bool:
        if offset >= rules.end_offset:
            return True
        if record.key is None or (rules.drop_tombstones and not record.has_value):
            return False
        return offset >= self._offsets.get(self._hash(record.key), -1)

    def _hash(self, key: bytes) -> bytes:
        return blake2b(key, digest_size=16, key=self._secret).digest()


class _Record(NamedTuple):
    """One record, and the parts that a new timestamp leaves as they are."""

    whole: bytes
    after_time: bytes
    time: int
    delta: int
    key: bytes | None
    has_value: bool


def _records(header: BatchHeader, data: Buffer, start: int) -> list[_Record]:
    plain = bytes(memoryview(data)[start:])
    walk_plain(header, plain, dense=False)
    found, at = [], 0
    for _ in range(header.record_count):
        begin = at
        size, at = number(plain, at, len(plain))
        end = at + size
        time, at = number(plain, at + 1, end, LONG)
        after_time = plain[at:end]
        delta, at = number(plain, at, end)
        length, at = number(plain, at, end)
        key = plain[at : at + length] if length >= 0 else None
        value, _ = number(plain, at + max(length, 0), end)
        at = end
        found.append(_Record(plain[begin:end], after_time, time, delta, key, value >= 0))
    return found


def _shifted(record: _Record, shift: int) -> bytes:
    body = b"".join((b"\0", zigzag(record.time + shift), record.after_time))
    return zigzag(len(body)) + body
