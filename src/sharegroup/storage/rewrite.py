"""Write again what a failed sync has left behind.

After a failed fsync the system forgets which pages it could not write: they stay in its cache as
clean ones, a later fsync calls them durable, and the next loss of power takes them (fsyncgate). A
log whose sync fails therefore leaves a marker with the offset up to which it is durable. The next
start writes everything behind that offset anew before anybody is answered from it.

The marker is not synced, on purpose: it lives in the same cache as the pages. A loss of power that
takes it takes them too, and what recovery then finds is what the disk has.
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
    """A sync has failed: only what lies below ``durable_offset`` is durable.

    Where no marker can be left the rest is cut off at once: nobody was told that it is durable.
    """
    try:
        file = disk.open(f"{folder}/{MARKER}")
        try:
            file.truncate(0)
            file.append(str(durable_offset).encode())
        finally:
            file.close()
    except OSError as error:
        logger.error("%s: no marker of a failed sync (%s), cutting its files", folder, error)
        _cut(segments, durable_offset)


def _cut(segments: Sequence[Segment], durable_offset: int) -> None:
    for segment in segments:
        if segment.next_offset > durable_offset:
            try:
                segment.truncate(segment.limit_of(max(durable_offset, segment.base_offset)))
            except OSError as error:
                logger.error("%s cannot be cut: %s", segment.file.path, error)


def pending(disk: Disk, folder: str) -> int | None:
    """From which offset on a failed sync has left the log untrusted; None: nothing has failed."""
    if not disk.exists(f"{folder}/{MARKER}"):
        return None
    try:
        return int(disk.read_file(f"{folder}/{MARKER}"))
    except ValueError:
        return 0


def done(disk: Disk, folder: str) -> None:
    """All that was written again is durable."""
    disk.remove(f"{folder}/{MARKER}")


def rewrite(disk: Disk, segments: Sequence[Segment], durable_offset: int) -> None:
    """Write everything from ``durable_offset`` on anew, through a copy, so that memory stays
    small. The caller must sync the segments' files, and then call :func:`done`.

    A crash in between may lose what was never durable, and nothing else. Raises OSError.
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
