"""Verifies the entries of a segment's indexes by its batches, in the same pass as the walk."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.storage.damage import Damage
from sharegroup.storage.indexes.sparse_index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from sharegroup.wire.batch import BatchHeader

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_NONE: Final = OFFSET_MAX, 0


class IndexCheck:
    """Receives the batches of one segment in order. Entries inside a damage are skipped, as reads
    skip the damage.

    Args:
        base_offset: the segment's base offset.
        offsets, times: the content of the two files; None if a file is missing.
    """

    def __init__(self, base_offset: int, offsets: bytes | None, times: bytes | None) -> None:
        self._base = base_offset
        self._missing = [
            name for name, data in ((".index", offsets), (".timeindex", times)) if data is None
        ]
        self._cut_off = [
            name
            for name, data, size in (
                (".index", offsets, OFFSET_ENTRY_BYTES),
                (".timeindex", times, TIME_ENTRY_BYTES),
            )
            if data is not None and len(data) % size
        ]
        self._places = _places(offsets or b"")
        self._timestamps = _timestamps(times or b"")
        self.wrong = {".index": 0, ".timeindex": 0}
        """The number of entries that do not match the log, by file suffix."""
        self._max_timestamp = -1
        self._last_timestamp = -1
        self._next_place()
        self._next_time()

    def batch(self, position: int, header: BatchHeader) -> None:
        """Verify the entries for the valid batch at ``position``."""
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
        relative = header.last_offset - self._base
        if position >= self._position:
            self._at(position, relative)
        if relative >= self._time_relative:
            self._at_time(relative, header.max_timestamp)

    def damaged(self, damage: Damage) -> None:
        """Skip the entries inside ``damage``."""
        while self._position < damage.end_position:
            if self._position < damage.position:
                self.wrong[".index"] += 1
            self._next_place()
        while self._time_relative <= damage.last_offset - self._base:
            if self._time_relative < damage.first_offset - self._base:
                self.wrong[".timeindex"] += 1
            self._last_timestamp = max(self._last_timestamp, self._timestamp)
            self._next_time()

    def problems(self, *, complete: bool) -> list[tuple[str, str]]:
        """(file suffix, what is wrong) of each bad file, after the last batch. ``complete``: the
        segment has no damage, so its last entry must be its largest timestamp.
        """
        found = [(name, "is missing") for name in self._missing]
        found += [(name, "is cut off in the middle of an entry") for name in self._cut_off]
        while self._position != OFFSET_MAX:
            self.wrong[".index"] += 1
            self._next_place()
        while self._time_relative != OFFSET_MAX:
            self.wrong[".timeindex"] += 1
            self._next_time()
        found += [
            (name, f"has {count} entries that do not match the log")
            for name, count in self.wrong.items()
            if count and (name, "is cut off in the middle of an entry") not in found
        ]
        if complete and self._last_timestamp != self._max_timestamp:
            found.append((".timeindex", "lacks the largest timestamp of its segment"))
        bad: dict[str, str] = {}
        for name, problem in found:
            bad.setdefault(name, problem)
        return list(bad.items())

    def _at(self, position: int, relative: int) -> None:
        while self._position < position:
            self.wrong[".index"] += 1
            self._next_place()
        if self._position == position:
            self.wrong[".index"] += self._relative != relative
            self._next_place()

    def _at_time(self, relative: int, timestamp: int) -> None:
        while self._time_relative < relative:
            self.wrong[".timeindex"] += 1
            self._next_time()
        if self._time_relative == relative:
            fits = self._timestamp == timestamp == self._max_timestamp
            self.wrong[".timeindex"] += not fits
            self._last_timestamp = max(self._last_timestamp, self._timestamp)
            self._next_time()

    def _next_place(self) -> None:
        self._position, self._relative = next(self._places, _NONE)

    def _next_time(self) -> None:
        self._time_relative, self._timestamp = next(self._timestamps, _NONE)


def _places(data: bytes) -> Iterator[tuple[int, int]]:
    whole = len(data) - len(data) % OFFSET_ENTRY_BYTES
    for relative, position in _OFFSET_ENTRY.iter_unpack(memoryview(data)[:whole]):
        yield position, relative


def _timestamps(data: bytes) -> Iterator[tuple[int, int]]:
    whole = len(data) - len(data) % TIME_ENTRY_BYTES
    for timestamp, relative in _TIME_ENTRY.iter_unpack(memoryview(data)[:whole]):
        yield relative, timestamp
