"""Writes the data of a log anew whose sync has failed.

After a failed fsync the system forgets which pages it could not write. They stay in its cache as
clean pages, a later fsync reports them durable, and a power failure loses them (fsyncgate). So a
log whose sync fails leaves a marker with the offset up to which it is durable. The next start
copies the files with everything from that offset on, syncs the copies, and puts them in the place
of the files. The files themselves are not touched until then: most of what they hold is durable,
and the disk may fail again.

The marker is not synced on purpose: it is in the same cache as the pages. A power failure that
loses the marker loses the pages too, and recovery then finds what is on the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.storage.segment import Segment, log_bases

logger = logging.getLogger(__name__)

MARKER: Final = "sync-failed"
_COPY: Final = ".sync-failed.tmp"
_CHUNK_BYTES: Final = 4 << 20


def mark(disk: Disk, folder: str, durable_offset: int) -> bool:
    """Note that a sync has failed: only records below ``durable_offset`` are known to be durable.
    A marker that is there without the offset makes the next start rewrite all.

    Returns False if there is no marker.
    """
    path = f"{folder}/{MARKER}"
    try:
        file = disk.open(path)
    except OSError as error:
        logger.error("%s: cannot mark a failed sync: %s", folder, error)
        return False
    try:
        file.truncate(0)
        file.append(str(durable_offset).encode())
    except OSError as error:
        logger.error("%s is not complete, the next start rewrites the whole log: %s", path, error)
    finally:
        file.close()
    return True


def cut(segments: Sequence[Segment], durable_offset: int) -> None:
    """Truncate the records from ``durable_offset`` on. No client may have been told that they are
    durable."""
    for segment in segments:
        if segment.next_offset > durable_offset:
            try:
                segment.truncate(segment.limit_of(max(durable_offset, segment.base_offset)))
            except OSError as error:
                logger.error("%s cannot be truncated: %s", segment.file.path, error)


def pending(disk: Disk, folder: str) -> int | None:
    """The offset from which the log must be rewritten after a failed sync; None if none failed."""
    if not disk.exists(f"{folder}/{MARKER}"):
        return None
    try:
        return int(disk.read_file(f"{folder}/{MARKER}"))
    except ValueError:
        return 0


def done(disk: Disk, folder: str) -> None:
    """Remove the marker: the rewritten data is durable."""
    disk.remove(f"{folder}/{MARKER}")


def copied(disk: Disk, folder: str, durable_offset: int) -> list[tuple[DiskFile, str]]:
    """Copy the files that hold records from ``durable_offset`` on, as far as there are any. Returns
    each copy, and the file that it is of. The caller syncs and closes the copies, and then calls
    :func:`exchange`. Raises OSError.
    """
    bases = log_bases(disk.list(folder))
    copies: list[tuple[DiskFile, str]] = []
    try:
        for base, after in zip_longest(bases, bases[1:]):
            if after is None or after > durable_offset:
                path = f"{folder}/{base:020d}.log"
                copies.append((disk.open(path + _COPY), path))
                _copy(disk, *copies[-1])
    except OSError:
        close(copies)
        raise
    return copies


def _copy(disk: Disk, copy: DiskFile, path: str) -> None:
    file = disk.open(path)
    try:
        copy.truncate(0)
        for at in range(0, file.size(), _CHUNK_BYTES):
            copy.append(file.pread(_CHUNK_BYTES, at))
    finally:
        file.close()


def close(copies: Iterable[tuple[DiskFile, str]]) -> None:
    """Close what :func:`copied` has returned."""
    for copy, _ in copies:
        copy.close()


def exchange(disk: Disk, paths: Sequence[str]) -> None:
    """Put the copies of these files in their places, durably. Raises OSError."""
    disk.rename_all([(path + _COPY, path) for path in paths])
