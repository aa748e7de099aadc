"""The message ids of a partition on disk: ``.ids`` files, each with the ids of a range of offsets.

A file is named by the end of its range: ``00000000000000004711.ids`` has ids of records below 4711,
from the end of the file before it on. The ids since the last file come from the log itself. Kafka
ignores these files.

Layout: version i16, crc32c u32 of all that follows, then secret (16 bytes), first offset i64, end
offset i64, and a row for each id: hash (two u64, little-endian as the whole row), offset i64, wall
clock in ms i64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.records.id_table import ROW_BYTES
from sharegroup.records.message_ids import SECRET_BYTES
from sharegroup.storage.failures import remove_half_made
from sharegroup.storage.files import write_unsynced

SUFFIX: Final = ".ids"
VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_BODY: Final = struct.Struct(f">{SECRET_BYTES}sqq")
_ROW_MS: Final = struct.Struct("<q")


class Chunk(NamedTuple):
    """The content of one file."""

    secret: bytes
    first_offset: int
    end_offset: int
    rows: bytes

    @property
    def newest_ms(self) -> int:
        """When its last id came, wall clock; 0 without ids."""
        return int(_ROW_MS.unpack(self.rows[-_ROW_MS.size :])[0]) if self.rows else 0


def encode(chunk: Chunk) -> bytes:
    """The file's content."""
    body = _BODY.pack(chunk.secret, chunk.first_offset, chunk.end_offset) + chunk.rows
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> Chunk:
    """What is in a file.

    Raises:
        ValueError: another version, a wrong CRC or a wrong length.
    """
    try:
        version, crc = _HEAD.unpack_from(data)
        secret, first_offset, end_offset = _BODY.unpack_from(data, _HEAD.size)
    except struct.error as error:
        raise ValueError("the file is cut off") from error
    rows = data[_HEAD.size + _BODY.size :]
    if version != VERSION or crc != crc32c(data[_HEAD.size :]) or len(rows) % ROW_BYTES:
        raise ValueError("the file is of another version or damaged")
    return Chunk(secret, first_offset, end_offset, rows)


def path_of(folder: str, end_offset: int) -> str:
    """The file that ends at this offset."""
    return f"{folder}/{end_offset:020d}{SUFFIX}"


def ends(names: Iterable[str]) -> list[int]:
    """The offsets at which the files among ``names`` end, ascending."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


class _File(NamedTuple):
    """What must be known of a file that is there."""

    end_offset: int
    newest_ms: int
    ids: int


class IdJournal:
    """The files of one partition. ``chunks``: what is in them, ascending; at least one."""

    def __init__(self, disk: Disk, folder: str, chunks: Sequence[Chunk]) -> None:
        self._disk = disk
        self._folder = folder
        self._files = [_file(chunk) for chunk in chunks]
        self.secret = chunks[-1].secret

    @property
    def end_offset(self) -> int:
        """The ids of records below this offset are on disk."""
        return self._files[-1].end_offset

    def write(self, rows: bytes, end_offset: int) -> DiskFile:
        """Write the ids up to ``end_offset``, without a sync. The caller must sync the file and
        close it. Raises OSError: there is no file then."""
        chunk = Chunk(self.secret, self.end_offset, end_offset, rows)
        files: list[DiskFile] = []
        try:
            write_unsynced(self._disk, path_of(self._folder, end_offset), encode(chunk), files)
        except OSError:
            remove_half_made(self._disk, files)
            raise
        self._files.append(_file(chunk))
        return files[0]

    def forget(self, before_ms: int, ids_max: int) -> None:
        """Remove files whose ids are all older than ``before_ms`` (wall clock), or have ``ids_max``
        ids after them. The last file stays: its name says where the log takes over. Raises OSError.
        """
        later = sum(file.ids for file in self._files[1:])
        while len(self._files) > 1 and (self._files[0].newest_ms < before_ms or later >= ids_max):
            self._disk.remove(path_of(self._folder, self._files[0].end_offset))
            del self._files[0]
            later -= self._files[0].ids

    def remove(self) -> None:
        """Remove all files. Raises OSError."""
        for file in self._files:
            self._disk.remove(path_of(self._folder, file.end_offset))


def _file(chunk: Chunk) -> _File:
    return _File(chunk.end_offset, chunk.newest_ms, len(chunk.rows) // ROW_BYTES)
