"""Which log the cleaner takes next, and how much of it (Kafka class LogCleanerManager).

Whole sealed segments are cleaned, from the first one up to the last one that is durable, lies below
the last stable offset and is older than ``min.compaction.lag.ms``. Segments from the *first dirty
offset* on have not been cleaned yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from sharegroup.model.errors import CorruptMessage, KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log_settings import LogSettings
from sharegroup.model.retention import EVERYTHING, Needed
from sharegroup.storage.batch_reader import RELATIVE_OFFSET_MAX
from sharegroup.storage.cleaner.batch_cleaning import LastOfProducer
from sharegroup.storage.log_contents import LogContents
from sharegroup.storage.segment import Segment
from sharegroup.wire.batch import HEADER_BYTES, parse_header


class LogCleaning:
    """How far one log is cleaned, and the parts of the log that the cleaner works with."""

    def __init__(self, contents: LogContents) -> None:
        self.segments = contents.segments
        self.producers = contents.producers
        self.first_dirty = contents.first_dirty_offset
        self.sparse_below = contents.cleaned_offset
        """Offsets below it may be missing from the log."""
        self.needed: Needed = EVERYTHING
        """By the share groups that the topic names, if it names any; as of the last retention
        check."""

    def last_of_producers(self) -> dict[int, LastOfProducer]:
        """The newest batch of each producer."""
        return {
            entry.producer_id: LastOfProducer(entry.last_offset, entry.epoch)
            for entry in self.producers.snapshot()
        }

    def cleaned(self, end_offset: int) -> None:
        """A run has cleaned the log up to ``end_offset``. Our checkpoint of missing offsets gets
        that offset too: if Kafka's checkpoint were ahead of it, the next start would take the run
        for another broker's (see ``gaps``)."""
        self.first_dirty = end_offset
        self.sparse_below = max(self.sparse_below, end_offset)

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put ``new`` in the place of ``old``, adjoining segments of the log."""
        at = self.segments.index(old[0])
        self.segments[at : at + len(old)] = [new]


class CleanableLog(Protocol):
    """A log, as the cleaner sees it."""

    topic_partition: TopicPartition
    folder: str
    settings: LogSettings
    cleaning: LogCleaning

    @property
    def failure(self) -> KafkaError | None: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def recovery_point(self) -> int: ...

    def fail(self, error: KafkaError) -> None:
        """Take the log out of service."""
        ...


class Candidate(NamedTuple):
    """A log that wants cleaning."""

    log: CleanableLog
    segments: list[Segment]
    """All segments that can be cleaned, from the first one on."""
    dirty_from: int
    ratio: float
    """Dirty bytes as a part of all bytes in the segments."""


def filthiest(logs: Iterable[CleanableLog], now_ms: int) -> Candidate | None:
    """Of the logs that want cleaning, the one with the largest dirty ratio; None if no log does."""
    found = [each for log in logs if (each := candidate(log, now_ms)) is not None]
    return max(found, key=lambda each: each.ratio, default=None)


def candidate(log: CleanableLog, now_ms: int) -> Candidate | None:
    """What there is to clean in a log; None if the log does not want cleaning. It wants cleaning
    when its dirty ratio is over ``min.cleanable.dirty.ratio``, or when one of its records has been
    dirty for longer than ``max.compaction.lag.ms``.
    """
    settings = log.settings
    if not settings.cleaned or log.failure is not None:
        return None
    found, overdue = _survey(log, now_ms)
    if not found.ratio or (not overdue and found.ratio <= settings.min_cleanable_ratio):
        return None
    return found


def _survey(log: CleanableLog, now_ms: int) -> tuple[Candidate, bool]:
    """What could be cleaned, and whether one of its records has been dirty for too long."""
    settings = log.settings
    dirty_from = _dirty_from(log)
    segments: list[Segment] = []
    clean_bytes = dirty_bytes = 0
    overdue = False
    for segment in _sealed(log):
        if segment.next_offset <= dirty_from:
            clean_bytes += segment.size
        else:
            lag_ms = settings.min_compaction_lag_ms
            if lag_ms and segment.newest_ms() > now_ms - lag_ms:
                break
            dirty_bytes += segment.size
            overdue = overdue or _is_overdue(segment, now_ms - settings.max_compaction_lag_ms)
        segments.append(segment)
    ratio = dirty_bytes / (clean_bytes + dirty_bytes) if dirty_bytes else 0.0
    return Candidate(log, segments, dirty_from, ratio), overdue


def dirty_ratio(log: CleanableLog, now_ms: int) -> float:
    """Dirty bytes as a part of all bytes that could be cleaned; 0 if the log is not compacted."""
    if not log.settings.cleaned or log.failure is not None:
        return 0.0
    return _survey(log, now_ms)[0].ratio


def is_uncleanable(log: CleanableLog) -> bool:
    """Whether a compacted log is out of service, or keeps a damaged segment as it is."""
    damaged = any(segment.quarantine.damages for segment in log.cleaning.segments)
    return log.settings.cleaned and (log.failure is not None or damaged)


def _dirty_from(log: CleanableLog) -> int:
    first, start = log.cleaning.first_dirty, log.log_start_offset
    if not start <= first <= log.cleaning.segments[-1].base_offset:
        return start
    return first


def _sealed(log: CleanableLog) -> list[Segment]:
    """The segments that no append, flush or open transaction touches any more."""
    limit = min(log.recovery_point, log.last_stable_offset)
    found = []
    for segment, following in pairwise(log.cleaning.segments):
        if segment.next_offset > limit or not segment.durable or not following.durable:
            break
        found.append(segment)
    return found


def _is_overdue(segment: Segment, before_ms: int) -> bool:
    if before_ms <= 0:
        return False
    try:
        first = parse_header(segment.file.pread(HEADER_BYTES, 0))
    except CorruptMessage:
        return False
    return 0 <= first.max_timestamp < before_ms


def groups(segments: Sequence[Segment], settings: LogSettings) -> list[list[Segment]]:
    """Groups of adjoining segments; each group is cleaned into one segment, and is together no
    larger than a segment may be. A damaged segment is in no group: its bytes are kept.
    """
    found: list[list[Segment]] = []
    size, before = 0, None
    for segment in segments:
        if segment.quarantine.damages:
            before = None  # what is before it and what is behind it do not adjoin
            continue
        own = found[-1] if found else []
        if (
            not own
            or own[-1] is not before
            or size + segment.size > settings.segment_bytes
            or segment.next_offset - own[0].base_offset > RELATIVE_OFFSET_MAX
        ):
            own = []
            found.append(own)
            size = 0
        own.append(segment)
        size += segment.size
        before = segment
    return found
