"""When a log rolls to a new segment, and what rolling writes (Kafka class LocalLog, roll)."""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.storage import producer_snapshot
from sharegroup.storage.batch_reader import RELATIVE_OFFSET_MAX
from sharegroup.storage.failures import remove_half_made
from sharegroup.storage.files import write_unsynced
from sharegroup.storage.segment import Segment
from sharegroup.storage.settings import LogSettings
from sharegroup.transactions.producers import ProducerTable
from sharegroup.wire.batch import BatchHeader


def is_full(
    segment: Segment,
    added_bytes: int,
    headers: Sequence[BatchHeader],
    next_offset: int,
    settings: LogSettings,
) -> bool:
    """Whether batches with these headers, to be appended at ``next_offset``, need a new segment.

    An empty segment is never full: it takes even a batch that exceeds ``segment.bytes``.
    """
    if not segment.size:
        return False
    records = sum(header.last_offset_delta + 1 for header in headers)
    return (
        segment.size + added_bytes > settings.segment_bytes
        or next_offset + records - segment.base_offset > RELATIVE_OFFSET_MAX
        or headers[0].max_timestamp - segment.first_timestamp > settings.segment_ms
    )


def write_snapshot(
    disk: Disk, folder: str, offset: int, producers: ProducerTable, files: list[DiskFile]
) -> None:
    """Write the snapshot of the producers at ``offset`` without a sync. Raises OSError."""
    data = producer_snapshot.encode(producers.snapshot())
    write_unsynced(disk, f"{folder}/{offset:020d}.snapshot", data, files)


def roll(
    disk: Disk,
    folder: str,
    sealed: Segment,
    next_offset: int,
    producers: ProducerTable,
    index_interval_bytes: int,
    files: list[DiskFile],
) -> Segment:
    """Write the indexes of ``sealed`` and a producer snapshot, and create the segment that begins
    at ``next_offset``. Adds the written files to ``files``; the caller must sync and close them.

    Raises:
        OSError: the disk refused something; the files written so far are removed.
    """
    try:
        sealed.write_indexes(files)
        write_snapshot(disk, folder, next_offset, producers, files)
        segment = Segment(disk, folder, next_offset, index_interval_bytes)
    except OSError:
        remove_half_made(disk, files)
        raise
    segment.durable = False
    return segment
