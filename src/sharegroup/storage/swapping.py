"""Replaces segments by a cleaned one, in steps that survive a crash (Kafka classes LocalLog,
replaceSegments, and LogLoader).

* ``….cleaned``: files that are being written. A start removes them.
* ``….swap``: files that are complete and durable. The last file that is renamed so, ``….log.swap``,
  decides: a start that finds it finishes the exchange.
* Then the replaced segments are removed, and the ``.swap`` files get their final names.

A cleaned segment reaches as far as the segments that it replaces, so the offsets of its own batches
tell which segments these are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from sharegroup.model.environment import Disk
from sharegroup.storage.batch_reader import BatchReader, Offsets
from sharegroup.storage.damage import BrokenBatch
from sharegroup.storage.quarantine import DAMAGED
from sharegroup.storage.segment import SIDE_SUFFIXES

logger = logging.getLogger(__name__)

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
LOG: Final = ".log"
WRITTEN: Final = (".index", ".timeindex", ".txnindex", LOG)
"""The files of a cleaned segment; the log comes last, and decides."""
_UNUSABLE: Final = ".unusable"


def commit(disk: Disk, path: str) -> None:
    """Rename the synced ``.cleaned`` files of a segment to ``.swap``, durably. ``path``: the
    segment's files without their suffix. Raises OSError."""
    sides = [(f"{path}{suffix}{CLEANED}", f"{path}{suffix}{SWAP}") for suffix in WRITTEN]
    log = sides.pop()
    disk.rename_all(sides)
    disk.rename(*log)


def finish(disk: Disk, path: str, replaced: Iterable[str]) -> None:
    """Remove the files of ``replaced`` segments (paths without suffix; the path of the new segment
    is not among them), and rename the ``.swap`` files to their final names. May be repeated. Raises
    OSError."""
    for old in replaced:
        for suffix in (LOG, *SIDE_SUFFIXES):
            disk.remove(old + suffix)
    disk.remove(path + DAMAGED)  # only a repair before this start can have written it
    names = [f"{path}{suffix}" for suffix in WRITTEN]
    pairs = [(name + SWAP, name) for name in names if disk.exists(name + SWAP)]
    log = pairs.pop()
    disk.rename_all(pairs)
    disk.rename(*log)


def discard(disk: Disk, path: str) -> None:
    """Remove the ``.cleaned`` and ``.swap`` files of a segment. Raises OSError."""
    for suffix in reversed(WRITTEN):
        disk.remove(path + suffix + SWAP)
        disk.remove(path + suffix + CLEANED)


def pending(disk: Disk, folder: str, names: Iterable[str], sparse_below: int) -> dict[int, int]:
    """The exchanges that the next start will finish: base offset of the cleaned segment → its end.
    Segments whose base offset lies between the two are replaced. Raises OSError."""
    found = {}
    for name in names:
        base = name.removesuffix(LOG + SWAP)
        if base != name and base.isdigit():
            with suppress(BrokenBatch):  # a start does not use such a file
                found[int(base)] = _end_of(disk, f"{folder}/{name}", int(base), sparse_below)
    return found


def recover(disk: Disk, folder: str, sparse_below: int) -> list[str]:
    """Finish or undo what a crash has interrupted. Returns the names in the folder. Raises OSError.

    ``sparse_below``: offsets below it may be missing.
    """
    names = disk.list(folder)
    for name in names:
        if name.endswith(LOG + SWAP):
            _finish(disk, folder, name.removesuffix(LOG + SWAP), names, sparse_below)
    left = [name for name in disk.list(folder) if name.endswith((CLEANED, SWAP))]
    for name in left:
        disk.remove(f"{folder}/{name}")
    return disk.list(folder) if names else names


def _finish(disk: Disk, folder: str, base: str, names: list[str], sparse_below: int) -> None:
    path = f"{folder}/{base}"
    try:
        end = _end_of(disk, path + LOG + SWAP, int(base), sparse_below)
    except BrokenBatch as error:
        # The segments that it was to replace may still be there, so no segment is removed.
        logger.error("%s is not used and is kept: %s", path + LOG + SWAP, error)
        disk.rename(path + LOG + SWAP, path + LOG + _UNUSABLE)
        return
    bases = [name.removesuffix(LOG) for name in names if name.endswith(LOG)]
    replaced = [other for other in bases if other.isdigit() and int(base) < int(other) < end]
    logger.info("%s.log: finishing its exchange, which replaces %d more", path, len(replaced))
    finish(disk, path, [f"{folder}/{other}" for other in replaced])


def _end_of(disk: Disk, path: str, base_offset: int, sparse_below: int) -> int:
    """The offset after the last batch of a file. Raises BrokenBatch."""
    file = disk.open(path)
    try:
        reader = BatchReader(file, file.size(), Offsets(base_offset, sparse_below))
        position, offset = 0, base_offset
        while position < reader.size:
            header = reader.batch(position, offset, records=False)
            position, offset = position + header.length, header.last_offset + 1
        return offset
    finally:
        file.close()
