"""Checks one segment: every batch, and at the same time the indexes. Nothing is written.

The walk is that of a start (``storage.segment_walk``), and checks the records of each batch too.
"""

from __future__ import annotations

from collections.abc import Callable

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.storage.batch_reader import CHUNK_BYTES, BatchReader, Offsets
from sharegroup.storage.checkup.index_check import IndexCheck
from sharegroup.storage.damage import Damage, merged
from sharegroup.storage.segment_walk import SegmentWalk
from sharegroup.storage.swapping import LOG, SWAP
from sharegroup.wire.batch import BatchHeader

OnBatch = Callable[[DiskFile, int, BatchHeader], None]
"""(file, position, header) of each valid batch whose producer has an id."""
OnBytes = Callable[[int], None]
"""Called with the number of bytes checked since the last call."""
IndexProblem = tuple[str, str]
"""(file suffix, what is wrong)."""


class SegmentCheck:
    """The check of one segment, whose file must exist.

    Args:
        path: the segment's files without their suffix.
        offsets: which offsets may follow, as when the segment is read.
        exchanged: the next start replaces the files by their ``.swap`` files; the check reads the
            ``.swap`` files.
    """

    def __init__(self, disk: Disk, path: str, offsets: Offsets, *, exchanged: bool = False) -> None:
        self._disk = disk
        self._path = path
        self._offsets = offsets
        self._exchanged = exchanged

    def run(self, walk: SegmentWalk, on_batch: OnBatch, on_bytes: OnBytes) -> list[IndexProblem]:
        """Walk the whole segment. Returns what is wrong with its indexes. Raises OSError."""
        index = IndexCheck(walk.base_offset, self._read(".index"), self._read(".timeindex"))
        file = self._disk.open(self._name(LOG))
        told = 0
        try:
            reader = BatchReader(file, file.size(), self._offsets)
            for found in walk.through(reader, records=True):
                if isinstance(found, Damage):
                    index.damaged(found)
                    continue
                position, header = found
                index.batch(position, header)
                if header.producer_id >= 0:
                    on_batch(file, position, header)
                if walk.valid_bytes - told >= CHUNK_BYTES:
                    on_bytes(walk.valid_bytes - told)
                    told = walk.valid_bytes
        finally:
            file.close()
        on_bytes(walk.size - told)
        walk.damages = merged([], walk.damages)
        if not walk.size:  # an empty segment needs no indexes
            return []
        return index.problems(complete=not walk.damages and not walk.tail_bytes)

    def _read(self, ending: str) -> bytes | None:
        name = self._name(ending)
        return self._disk.read_file(name) if self._disk.exists(name) else None

    def _name(self, ending: str) -> str:
        """The file to check: in an interrupted exchange, some files have their final names already
        and others still end with ``.swap``."""
        name = self._path + ending
        return name + SWAP if self._exchanged and self._disk.exists(name + SWAP) else name
