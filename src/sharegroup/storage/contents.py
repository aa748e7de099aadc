"""A partition's log as recovery hands it over, and as it describes itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharegroup.model.environment import DiskFile
from sharegroup.storage.segment import Segment
from sharegroup.transactions.producers import ProducerTable


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatistics:
    """A log at one moment."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int
    segments: int
    producers: int


@dataclass(slots=True, kw_only=True)
class LogContents:
    """What lies in a partition's folder, as recovery has found (or made) it."""

    folder: str
    segments: list[Segment]
    producers: ProducerTable = field(default_factory=ProducerTable)
    log_start_offset: int = 0
    recovery_point: int = 0
    """Everything below is durable, once ``unsynced`` is synced."""
    unsynced: list[DiskFile] = field(default_factory=list)
    side_files: list[DiskFile] = field(default_factory=list)
    """Those of ``unsynced`` to close after the sync."""
