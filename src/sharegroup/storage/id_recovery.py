"""Reads the message ids of a partition at its opening: from the ``.ids`` files, then from the log.

A file that cannot be read is removed, and so is one that goes beyond the end of the log: its ids
are read from the log instead, from the end of the file before it. If that is the first file, nobody
knows where it began: then no file is used, and ids are read from the segments that were written
within the window. Without any file, ids are read from the last segment only: a partition has a file
from the moment when it gets a window.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from sharegroup.model.environment import Disk, DiskFile, Environment
from sharegroup.model.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from sharegroup.model.log_settings import LogSettings
from sharegroup.records.check import plain_records
from sharegroup.records.id_table import id_table
from sharegroup.records.message_ids import SECRET_BYTES, find_ids
from sharegroup.storage import id_journal
from sharegroup.storage.deduplication import Deduplication
from sharegroup.storage.id_journal import Chunk, IdJournal
from sharegroup.storage.segment import Segment
from sharegroup.storage.unsynced_files import UnsyncedFiles
from sharegroup.wire.batch import BatchHeader
from sharegroup.wire.markers import is_control

logger = logging.getLogger(__name__)


class Now(NamedTuple):
    """The time at the beginning of a reading, which runs off the loop's thread: there the clock
    cannot be asked."""

    monotonic_ms: int
    wall_ms: int


def load(
    environment: Environment, folder: str, segments: Sequence[Segment], window_ms: int, now: Now
) -> tuple[Deduplication, list[DiskFile]]:
    """The ids of a partition, and a new file that the caller must sync and close.

    Raises:
        OSError: the disk failed.
    """
    disk, now_ms = environment.disk, now.monotonic_ms
    end = segments[-1].next_offset
    chunks, lost = _chunks(disk, folder, end)
    new = not chunks
    if new:
        first = segments[-1].base_offset
        if lost:
            first = _first_written(segments, now.wall_ms - window_ms)
        chunks = [Chunk(environment.entropy(SECRET_BYTES), first, first, b"")]
    table, journal = id_table(), IdJournal(disk, folder, chunks)
    for chunk in chunks:
        table.load(chunk.rows, now_ms - now.wall_ms, now_ms, now_ms - window_ms)
    deduplication = Deduplication(environment.clock, table, journal, window_ms, now_ms)
    for segment in segments:
        if segment.next_offset > journal.end_offset:
            _replay(deduplication, segment, journal.end_offset, now_ms)
    return deduplication, [_first_file(disk, folder, chunks[0])] if new else []


def begin(
    environment: Environment, folder: str, end_offset: int, window_ms: int
) -> tuple[Deduplication, list[DiskFile]]:
    """As :func:`load`, for a partition that gets a window while it is open: ids count from here."""
    disk = environment.disk
    for end in id_journal.ends(disk.list(folder)):
        disk.remove(id_journal.path_of(folder, end))
    chunk = Chunk(environment.entropy(SECRET_BYTES), end_offset, end_offset, b"")
    journal = IdJournal(disk, folder, [chunk])
    clock = environment.clock
    deduplication = Deduplication(clock, id_table(), journal, window_ms, clock.monotonic_ms())
    return deduplication, [_first_file(disk, folder, chunk)]


def configured(
    ids: Deduplication | None,
    settings: LogSettings,
    where: tuple[Environment, str, int],
    unsynced: UnsyncedFiles,
) -> Deduplication | None:
    """``ids`` under the settings that hold from now on. ``where``: environment, folder and end of
    the log."""
    window_ms = settings.deduplication_window_ms
    if not window_ms:
        if ids is not None:
            ids.remove()
        return None
    if ids is None:
        environment, folder, end_offset = where
        try:
            ids, files = begin(environment, folder, end_offset, window_ms)
        except OSError as error:
            logger.error("%s: no deduplication until the next start: %s", folder, error)
            return None
        unsynced.add_side_files(files)
    ids.window_ms = window_ms
    return ids


def _first_file(disk: Disk, folder: str, chunk: Chunk) -> DiskFile:
    file = disk.open(id_journal.path_of(folder, chunk.end_offset))
    file.truncate(0)
    file.append(id_journal.encode(chunk))
    return file


def _first_written(segments: Sequence[Segment], since_ms: int) -> int:
    """Where the first segment begins that was written at ``since_ms`` or later; else the last."""
    written = (each for each in segments if each.file.modified_ms() >= since_ms)
    return next(written, segments[-1]).base_offset


def _chunks(disk: Disk, folder: str, end: int) -> tuple[list[Chunk], bool]:
    """The readable files, each of which begins where the one before it ends; and whether there is
    none because the first one cannot be read."""
    chunks: list[Chunk] = []
    lost = False
    for offset in id_journal.ends(disk.list(folder)):
        path = id_journal.path_of(folder, offset)
        try:
            chunk = id_journal.decode(disk.read_file(path))
            if chunk.end_offset > end:
                raise ValueError(f"it goes beyond the end of the log, {end}")
            if lost:
                raise ValueError("the ids before it are lost")
            if chunks and chunk.secret != chunks[0].secret:
                raise ValueError("it is of another series")
        except ValueError as error:
            logger.warning("%s is not used: %s", path, error)
            disk.remove(path)
            lost = not chunks
            continue
        if chunks and chunk.first_offset != chunks[-1].end_offset:
            # What is missing between the two comes from the log, and so does all that follows.
            disk.remove(path)
            continue
        chunks.append(chunk)
    return chunks, lost


def _replay(deduplication: Deduplication, segment: Segment, start: int, now_ms: int) -> None:
    """Note the ids of a segment from ``start`` on."""
    try:
        position = segment.limit_of(max(start, segment.base_offset))
        for at, header in segment.headers(position, segment.size):
            if header.base_offset >= start:
                _note(deduplication, header, segment.file.pread(header.length, at), now_ms)
    except CorruptMessage as error:
        logger.error("message ids of %s are incomplete: %s", segment.file.path, error)


def _note(deduplication: Deduplication, header: BatchHeader, batch: bytes, now_ms: int) -> None:
    try:
        if is_control(header):
            deduplication.ended(header, batch)
        elif header.record_count:
            plain = bytes(plain_records(header, batch))
            ids = find_ids(header, plain, 0, deduplication.secret)
            deduplication.replayed(header, ids, now_ms)
    except (CorruptMessage, InvalidRecord, UnsupportedCompressionType) as error:
        logger.error("message ids of the batch at %d are lost: %s", header.base_offset, error)
