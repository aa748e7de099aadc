"""Which segments retention deletes: whole ones, the oldest first (Kafka class UnifiedLog,
deleteOldSegments).

The share groups that a topic names change this in two ways. A segment with a record that one of
them needs stays until it is past the cap as well. With ``drops_finished`` a closed segment that all
of them have finished goes at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sharegroup.model.log_settings import LogSettings
from sharegroup.model.retention import EVERYTHING, Needed
from sharegroup.storage.segment import Segment


def expired(
    segments: Sequence[Segment], settings: LogSettings, now_ms: int, needed: Needed | None = None
) -> int:
    """How many of the oldest segments may go; ``now_ms`` is wall clock. ``needed``: by the share
    groups that the topic names, if it names any; None: not known, so they need everything.

    The last segment does not expire while it is empty: it takes the next batch. Another one that is
    empty has lost its data, and ages from the last write of its file.

    Raises:
        OSError: the disk failed.
    """
    needed = (needed or EVERYTHING) if settings.names_groups else None
    size = sum(segment.size for segment in segments)
    spare_bytes, spare_of_cap = size - settings.retention_bytes, size - settings.cap_bytes
    count = 0
    for segment in segments:
        if segment.size == 0 and segment is segments[-1]:
            break
        age_ms = now_ms - segment.newest_ms()
        goes = _is_past(
            segment, age_ms, spare_bytes, settings.retention_ms, settings.retention_bytes
        )
        if needed is not None:
            if goes and segment.next_offset > needed.held_from:
                goes = _is_past(segment, age_ms, spare_of_cap, settings.cap_ms, settings.cap_bytes)
            elif not goes and settings.drops_finished and segment is not segments[-1]:
                goes = segment.next_offset <= needed.finished
        if not goes:
            break
        spare_bytes -= segment.size
        spare_of_cap -= segment.size
        count += 1
    return count


def _is_past(
    segment: Segment, age_ms: int, spare_bytes: int, limit_ms: int, limit_bytes: int
) -> bool:
    """Whether the segment is too old, or the log is too large by at least this segment."""
    return 0 <= limit_ms < age_ms or (limit_bytes >= 0 and spare_bytes >= segment.size)


def remove_below(segments: list[Segment], log_start_offset: int, durable: int) -> int:
    """Remove the segments that lie completely below the log start, and may be removed now; never
    the last one. Returns how many were removed. Raises OSError: the disk failed."""
    below = sum(segment.base_offset <= log_start_offset for segment in segments[1:])
    count = removable(segments, below, durable)
    for _ in range(count):
        segments[0].remove()
        segments.pop(0)
    return count


def removable(segments: Sequence[Segment], count: int, durable: int) -> int:
    """How many of the oldest ``count`` segments may be removed now.

    A segment must be durable as a whole, because a running sync may use its file. The next
    segment's file must be durable too: its name tells the next start where the offsets begin.
    """
    found = 0
    for segment, following in pairwise(segments):
        if found == count or segment.next_offset > durable or not following.durable:
            break
        found += 1
    return found
