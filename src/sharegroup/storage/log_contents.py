"""The contents of a partition's folder after recovery, and the statistics of a log."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharegroup.model.environment import DiskFile
from sharegroup.storage.deduplication import Deduplication
from sharegroup.storage.segment import Segment
from sharegroup.transactions.producers import ProducerTable


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatistics:
    """The offsets and sizes of a log at one moment."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int
    segments: int
    producers: int


@dataclass(slots=True, kw_only=True)
class LogContents:
    """What recovery has found in a partition's folder, or created there."""

    folder: str
    segments: list[Segment]
    producers: ProducerTable = field(default_factory=ProducerTable)
    log_start_offset: int = 0
    recovery_point: int = 0
    """All records below this offset are durable once ``unsynced`` is synced."""
    reached: int = 0
    """The log had all offsets below this one, as side files beyond the last log file prove; 0:
    there are no such files."""
    cleaned_offset: int = 0
    """Offsets below it may be missing."""
    first_dirty_offset: int = 0
    """The cleaner has cleaned the log up to this offset."""
    ids: Deduplication | None = None
    """The message ids, if the topic has a window for them."""
    unsynced: list[DiskFile] = field(default_factory=list)
    side_files: list[DiskFile] = field(default_factory=list)
    """The files in ``unsynced`` that must be closed after the sync."""
