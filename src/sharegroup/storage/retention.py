"""Which segments retention deletes: whole ones, the oldest first (Kafka class UnifiedLog,
deleteOldSegments).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sharegroup.model.log_settings import LogSettings
from sharegroup.storage.segment import Segment


def expired(segments: Sequence[Segment], settings: LogSettings, now_ms: int) -> int:
    """How many of the oldest segments are past ``retention.ms`` or ``retention.bytes``; ``now_ms``
    is wall clock.

    An empty segment never expires: it is the active one, which takes the next batch.
    """
    spare_bytes = sum(segment.size for segment in segments) - settings.retention_bytes
    count = 0
    for segment in segments:
        if segment.size == 0:
            break
        too_old = 0 <= settings.retention_ms < now_ms - segment.indexes.max_timestamp
        too_much = settings.retention_bytes >= 0 and spare_bytes >= segment.size
        if not (too_old or too_much):
            break
        spare_bytes -= segment.size
        count += 1
    return count


def below(segments: Sequence[Segment], log_start_offset: int) -> int:
    """How many of the oldest segments lie completely below the log start; never the last one."""
    return sum(segment.base_offset <= log_start_offset for segment in segments[1:])


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
