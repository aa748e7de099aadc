"""Rewrites the data of a log whose sync has failed.

After a failed fsync the system forgets which pages it could not write. They stay in its cache as
clean pages, a later fsync reports them durable, and a power failure loses them (fsyncgate). So a
log whose sync fails leaves a marker with the offset up to which it is durable. The next start
rewrites everything from that offset on before it serves any of it.

The marker is not synced on purpose: it is in the same cache as the pages. A power failure that
loses the marker loses the pages too, and recovery then finds what is on the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from sharegroup.model.environment import Disk
from sharegroup.storage.segment import Segment

logger = logging.getLogger(__name__)

MARKER: Final = "sync-failed"
_COPY: Final = "sync-failed.tmp"
_CHUNK_BYTES: Final = 4 << 20


def mark(disk: Disk, folder: str, segments: Sequence[Segment], durable_offset: int) -> None:
    """Note that a sync has failed: only records below ``durable_offset`` are durable.

    If the marker cannot be written, the other records are truncated at once: no client was told
    that they are durable.
    """
    try:
        file = disk.open(f"{folder}/{MARKER}")
        try:
            file.truncate(0)
            file.append(str(durable_offset).encode())
        finally:
            file.close()
    except OSError as error:
        logger.error(
            "%s: cannot mark a failed sync (%s): truncating the log instead", folder, error
        )
        _cut(segments, durable_offset)


def _cut(segments: Sequence[Segment], durable_offset: int) -> None:
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


def rewrite(disk: Disk, segments: Sequence[Segment], durable_offset: int) -> None:
    """Rewrite everything from ``durable_offset`` on, through a copy on disk to save memory. The
    caller must sync the segments' files, and then call :func:`done`.

    A crash in between loses at most data that was never durable. Raises OSError.
    """
    for segment in segments:
        if segment.next_offset <= durable_offset or not segment.size:
            continue
        position = segment.limit_of(max(durable_offset, segment.base_offset))
        copy = disk.open(segment.path + _COPY)
        try:
            copy.truncate(0)
            for at in range(position, segment.size, _CHUNK_BYTES):
                copy.append(segment.file.pread(min(_CHUNK_BYTES, segment.size - at), at))
            segment.file.truncate(position)
            for at in range(0, copy.size(), _CHUNK_BYTES):
                segment.file.append(copy.pread(_CHUNK_BYTES, at))
        finally:
            copy.close()
            disk.remove(segment.path + _COPY)
