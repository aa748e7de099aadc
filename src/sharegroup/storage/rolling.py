"""When a log rolls to a new segment, and what rolling writes (Kafka class LocalLog, roll)."""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.log_settings import LogSettings, TimestampType
from sharegroup.storage import producer_snapshot
from sharegroup.storage.batch_reader import RELATIVE_OFFSET_MAX
from sharegroup.storage.failures import remove_half_made
from sharegroup.storage.files import write_unsynced
from sharegroup.storage.segment import Segment
from sharegroup.transactions.producers import ProducerTable
from sharegroup.wire.batch import BatchHeader


def is_full(
    segment: Segment,
    added_bytes: int,
    headers: Sequence[BatchHeader],
    next_offset: int,
    settings: LogSettings,
    now_ms: int,
) -> bool:
    """Whether batches with these headers, to be appended at ``next_offset``, need a new segment.
    ``now_ms``: wall clock.

    An empty segment is never full: it takes even a batch that exceeds ``segment.bytes``.

    ``segment.ms`` counts by the times in the log, as in Kafka, so that a copy of old records has
    the same segments as its source. It also counts by the clock, which Kafka does only for batches
    without times: records whose time stands still would never be deleted or compacted.
    """
    if not segment.size:
        return False
    records = sum(header.last_offset_delta + 1 for header in headers)
    return (
        segment.size + added_bytes > settings.segment_bytes
        or next_offset + records - segment.base_offset > RELATIVE_OFFSET_MAX
        or _passed_ms(segment, headers, settings, now_ms) > settings.segment_ms
    )


def _passed_ms(
    segment: Segment, headers: Sequence[BatchHeader], settings: LogSettings, now_ms: int
) -> int:
    by_clock = now_ms - segment.begun_ms if segment.begun_ms else 0
    if segment.first_timestamp < 0:
        return by_clock
    by_log = settings.timestamp_type is TimestampType.LOG_APPEND_TIME
    newest = now_ms if by_log else max(header.max_timestamp for header in headers)
    return max(by_clock, newest - segment.first_timestamp)


def write_snapshot(
    disk: Disk,
    folder: str,
    offset: int,
    producers: ProducerTable,
    files: list[DiskFile],
    *,
    begins: bool = False,
) -> None:
    """Write the snapshot of the producers at ``offset`` without a sync. Raises OSError."""
    data = producer_snapshot.encode(producers.snapshot(), begins=begins)
    write_unsynced(disk, f"{folder}/{offset:020d}.snapshot", data, files)


def roll(
    disk: Disk,
    folder: str,
    sealed: Segment,
    next_offset: int,
    producers: ProducerTable,
    index_interval_bytes: int,
    files: list[DiskFile],
    *,
    indexed: bool = True,
) -> Segment:
    """Write the indexes of ``sealed`` and a producer snapshot, and create the segment that begins
    at ``next_offset``. Adds the written files to ``files``; the caller must sync and close them.
    Not ``indexed``: leave ``sealed`` without index files, because it is about to be deleted.

    Raises:
        OSError: the disk refused something; the files written so far are removed.
    """
    segment = Segment(disk, folder, next_offset, index_interval_bytes)
    segment.durable = False
    try:  # after the segment: a snapshot without its segment means a lost segment (``traces``)
        if indexed:
            sealed.write_indexes(files)
        write_snapshot(disk, folder, next_offset, producers, files, begins=True)
        if not indexed:
            sealed.remove_indexes()
    except OSError:
        remove_half_made(disk, [segment.file, *files])
        raise
    return segment
