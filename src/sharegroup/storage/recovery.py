"""Recovers a partition's folder after a clean end, a crash or damage (Kafka class LogLoader).

* **Clean shutdown**: nothing is scanned; each segment is checked from its last index entry on.
* **Crash**: segments from the recovery point on are scanned, every CRC is checked, and their
  indexes are rebuilt. If a segment begins at the recovery point, so is the one before it: its last
  sync may be older than its indexes.
* **Torn tail**: bytes at the very end that are not a valid batch, have no valid batch after them,
  and were not durable. They are truncated, and this is logged.
* **Damage**: valid batches follow, or the bytes were durable. Nothing is truncated. The range is
  saved beside the segment, counted and logged. Reads of it raise CorruptMessage; reads before and
  after it succeed (see ``segment``).
* **Missing files**: the first segment must begin at or below the log start, each sealed segment
  must reach to the next one, and the last segment to any side files beyond it (see ``traces``). A
  gap is damage without bytes, unless another broker's cleaner left it (see ``gaps``).
* **A sync that failed** before the shutdown: the data that it left in the system's cache was
  written again (see ``rewrite``). No segment is trusted.

Then what is known of the producers is recovered (see ``producer_recovery``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from sharegroup.model.environment import Disk
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.log_settings import LogSettings
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.storage import gaps, producer_recovery, rewrite, swapping, traces
from sharegroup.storage.damage import Damage, merged
from sharegroup.storage.log_contents import LogContents
from sharegroup.storage.segment import Segment, log_bases
from sharegroup.storage.segment_walk import SegmentWalk
from sharegroup.wire.batch import HEADER_BYTES, BatchHeader, parse_header

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    """The findings of opening a data folder, summed over all partitions."""

    clean: bool = True
    """The last shutdown was clean."""
    partitions: int = 0
    truncated_bytes: int = 0
    damaged_batches: int = 0
    """Damaged ranges found; a range with several broken headers counts once."""
    problems: list[str] = field(default_factory=list)
    """One sentence each, as logged."""

    def found(self, segment: Segment, known: list[Damage]) -> None:
        """Count the damages of a segment that were not ``known``; they have been logged."""
        for damage in segment.quarantine.damages:
            if damage not in known:
                self.damaged_batches += 1
                self.problems.append(f"{segment.file.path} {damage}")

    def report(self, level: int, sentence: str) -> None:
        """Log one problem and keep it."""
        logger.log(level, "%s", sentence)
        self.problems.append(sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastKnown:
    """What the checkpoint files say about a partition. A partition that is in no file has the
    defaults.
    """

    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int | None = None
    cleaned_offset: int = 0
    """Offsets below it may be missing after compaction."""
    first_dirty_offset: int = 0
    """The cleaner has cleaned up to this offset (Kafka's cleaner-offset-checkpoint)."""
    durable_end: int = 0
    """Offsets below this one were durable. It may be beyond the recovery point, where a scan
    begins."""
    gaps_below: int = 0
    """In a compacted log, another broker may have left gaps between segments below this offset."""


def open_partition(
    disk: Disk,
    folder: str,
    settings: LogSettings,
    known: LastKnown,
    recovered: Recovered,
    wall_ms: int,
) -> LogContents:
    """Open the log in ``folder``; a missing folder is created. The caller must sync the files in
    ``unsynced`` before anybody reads the log.

    Args:
        wall_ms: now, in milliseconds since 1970.

    Raises:
        OSError: the disk failed.
    """
    disk.make_folder(folder)
    # First, because an interrupted exchange decides which segments there are.
    names = swapping.recover(disk, folder, known.cleaned_offset)
    bases = log_bases(names)
    reached = traces.reached(names, bases[-1] if bases else -1)
    if bases:
        known = _with_traces(disk, folder, known, names, bases[0])
    interval, cleaned = settings.index_interval_bytes, known.cleaned_offset
    segments = [
        Segment(disk, folder, base, interval, cleaned)
        for base in bases or [known.log_start_offset or 0]
    ]
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
    known_damages = {segment: _load_damages(segment, recovered) for segment in segments}
    trusted = rewrite.pending(disk, folder) is None
    if not settings.compacted:
        known = replace(known, gaps_below=0)
    closed: list[Segment] = []
    # Side files beyond the last log file prove that the log reached as far: broken bytes below
    # ``reached`` are damage, not a torn tail.
    known = replace(known, durable_end=max(known.recovery_point, reached))
    scanned = _find_ends(segments, known, recovered, closed, trusted=trusted)
    if traces.is_lost(disk, folder, known.recovery_point, reached):
        recovered.report(logging.ERROR, f"{folder}/{reached:020d}.log {traces.lost(reached)}")
    contents = LogContents(
        folder=folder,
        segments=segments,
        log_start_offset=_log_start(segments, known, recovered),
        recovery_point=segments[-1].next_offset,
        reached=reached,
        cleaned_offset=cleaned,
        first_dirty_offset=known.first_dirty_offset,
    )
    # After a clean end all transaction indexes are complete, also that of a segment with damage.
    complete = known.clean and trusted
    unfinished = [] if complete else scanned
    # Before the producers: their replay rebuilds the transaction indexes that are found bad here.
    bad = producer_recovery.load_transactions(segments, unfinished, names)
    stale = unfinished + bad
    producer_recovery.load_producers(disk, contents, names, stale, wall_ms, clean=complete)
    for segment in dict.fromkeys(scanned + bad):
        if segment is segments[-1]:
            continue  # its indexes are written when it is sealed
        if segment in bad:
            segment.rewrite_indexes(contents.side_files)
        else:
            segment.write_indexes(contents.side_files)
    unsynced = [*scanned, *(segment for segment in closed if segment not in scanned)]
    contents.unsynced += [segment.file for segment in unsynced] + contents.side_files
    for segment in segments:
        recovered.found(segment, known_damages[segment])
    return contents


def _with_traces(
    disk: Disk, folder: str, known: LastKnown, names: list[str], first_base: int
) -> LastKnown:
    """Find an unknown log start by the side files of lost segments. If the log start is known,
    remove the side files of segments that were deleted below it."""
    start = known.log_start_offset
    if start is None:
        begun = traces.begun(names, first_base)
        return known if begun == first_base else replace(known, log_start_offset=begun)
    for name in traces.stale(names, first_base, start):
        disk.remove(f"{folder}/{name}")
    return known


def _find_ends(
    segments: list[Segment],
    known: LastKnown,
    recovered: Recovered,
    closed: list[Segment],
    *,
    trusted: bool,
) -> list[Segment]:
    """Find the end of each segment, from its last batches or by a scan. Returns the scanned
    segments. ``trusted``: no sync failed before the last shutdown. Segments with a legal gap after
    them get an empty batch that closes the gap, and are added to ``closed``.
    """
    # Until the ends are known, a walk must not quarantine what it cannot read: it may be a torn
    # tail.
    for segment in segments:
        segment.end_known = False
    scanned: list[Segment] = []
    if not (known.clean and trusted and _resume(segments[-1])):
        scanned = _recover(segments, known, recovered, closed)
    # After the recovery, which may remove segments from the end of the list.
    for segment in segments[:-1]:
        if segment not in scanned and not _reaches_its_end(segment):
            walk = _scan(segment, segment.next_offset)
            _take_in(segment, walk, known.gaps_below, closed)
            segment.indexes.replace_files()
    for segment in segments:
        segment.end_known = True
    return scanned


def _load_damages(segment: Segment, recovered: Recovered) -> list[Damage]:
    try:
        segment.quarantine.load()
    except ValueError as error:
        recovered.report(
            logging.ERROR,
            f"the damage list of {segment.file.path} is itself damaged and is not used: {error}",
        )
    return segment.quarantine.damages


def _log_start(segments: list[Segment], known: LastKnown, recovered: Recovered) -> int:
    """The log start. Offsets missing before the first segment are damage.

    The log start is made durable before segments below it are deleted, so the first segment begins
    at or below it.
    """
    first, start = segments[0], known.log_start_offset
    end = segments[-1].next_offset
    if start is not None and start > max(end, known.recovery_point):
        recovered.report(
            logging.ERROR,
            f"{first.file.path}: the checkpoint says that the log begins at offset {start}, but it "
            f"ends at {end}. The checkpoint is not used: the log begins with its first record",
        )
        start = None
    if start is not None and start < first.base_offset:
        first.quarantine.add([Damage(0, 0, start, first.base_offset - 1)])
    return min(max(start or 0, first.base_offset), end)


def _resume(segment: Segment) -> bool:
    """Find the end of the last segment from its index, after a clean shutdown. Returns False if the
    segment must be scanned.
    """
    try:
        segment.next_offset = _walked_end(
            segment, segment.indexes.boundary(OFFSET_MAX), segment.indexes.resume
        )
        # ``segment.ms`` counts from the time of the first batch (``rolling``).
        for _, header in segment.headers(0, segment.size):
            segment.first_timestamp = header.max_timestamp
            break
    except CorruptMessage:
        return False
    return True


def _reaches_its_end(segment: Segment) -> bool:
    """Whether a sealed segment reaches to the next one. It does not if it was truncated, or if the
    segment after it was deleted. Only the batches after its last index entry are read.
    """
    try:
        return _walked_end(segment, segment.indexes.last_boundary(), None) == segment.next_offset
    except CorruptMessage:
        return False


def _walked_end(segment: Segment, position: int, note: Callable[[BatchHeader], None] | None) -> int:
    """Check the batches from the boundary ``position`` to the end of the file. Returns the next
    offset there.

    Raises:
        CorruptMessage: a batch is invalid and is not a known damage.
    """
    reader = segment.reader()
    offset = segment.base_offset
    if position:
        offset = parse_header(segment.file.pread(HEADER_BYTES, position)).base_offset
    damages = {damage.position: damage for damage in segment.quarantine.damages}
    # A damage without bytes, which is missing offsets, may lie at the very end of the file.
    while position < segment.size or position in damages:
        damage = damages.pop(position, None)
        if damage is not None:
            position, offset = damage.end_position, max(offset, damage.last_offset + 1)
            continue
        header = reader.batch(position, offset, records=False)
        if note is not None:
            note(header)
        position, offset = position + header.length, header.last_offset + 1
    return offset


def _recover(
    segments: list[Segment], known: LastKnown, recovered: Recovered, closed: list[Segment]
) -> list[Segment]:
    """Scan the segments from the recovery point on. Truncate a torn tail, and remove segments after
    it that have no batch. Returns the scanned segments.
    """
    recovery_point, gaps_below = known.recovery_point, known.gaps_below
    first = max(
        (index for index, segment in enumerate(segments) if segment.base_offset < recovery_point),
        default=0,
    )
    # Offsets of a known damage were used: the log must not end below them.
    given = max((d.last_offset + 1 for s in segments for d in s.quarantine.damages), default=0)
    durable = max(known.durable_end, given)
    walks = []
    for segment in segments[first:]:
        end_offset = OFFSET_MAX if segment is segments[-1] else segment.next_offset
        walks.append(_scan(segment, end_offset))
    # After a crash the newest segment may exist although the end of the segment before it was not
    # written. The torn tail is then in the earlier segment. A segment stays if it begins after
    # offsets that were given up, or that another broker has cleaned away: its name is what keeps
    # these offsets from being used again.
    kept = max(durable, gaps_below)
    while len(walks) > 1 and not walks[-1].batches and segments[-1].base_offset > kept:
        _cut_tail(segments[-1], walks.pop(), recovered)
        # Side files first: without their log file they would look like a lost segment (``traces``).
        segments[-1].remove_sides()
        segments.pop().remove()
    for segment, walk in zip(segments[first:], walks, strict=True):
        if segment is not segments[-1]:
            _take_in(segment, walk, gaps_below, closed)
            continue
        segment.next_offset = (
            max(durable, walk.next_offset) if walk.tail_bytes else walk.next_offset
        )
        if walk.next_offset < segment.next_offset:  # the tail was durable: it is damage, not torn
            _take_in(segment, walk, gaps_below, closed)
        else:
            _cut_tail(segment, walk, recovered)
            _note_damages(segment, walk.damages)
    return segments[first:]


def _scan(segment: Segment, end_offset: int) -> SegmentWalk:
    """Walk a whole segment and rebuild its indexes in memory; changes no file. The records in a
    batch are not checked here, but when the batch is first read. All offsets must be below
    ``end_offset``.
    """
    segment.indexes.begin()
    segment.first_timestamp = -1
    walk = SegmentWalk(segment.base_offset, end_offset)
    for found in walk.through(segment.reader(), records=False):
        if isinstance(found, Damage):
            segment.indexes.index_next()
        else:
            position, header = found
            segment.note(header, header.base_offset, position, header.max_timestamp)
    return walk


def _cut_tail(segment: Segment, walk: SegmentWalk, recovered: Recovered) -> None:
    if not walk.tail_bytes:
        return
    recovered.truncated_bytes += walk.tail_bytes
    recovered.report(
        logging.WARNING,
        f"truncated a torn tail of {walk.tail_bytes} bytes of {segment.file.path} at byte "
        f"{walk.valid_bytes}; the log ends at offset {walk.next_offset}",
    )
    segment.truncate(walk.valid_bytes)


def _take_in(segment: Segment, walk: SegmentWalk, gaps_below: int, closed: list[Segment]) -> None:
    """Apply the walk of a segment whose end offset is known. A legal gap at its end is closed;
    otherwise bytes and offsets missing after its last valid batch are damage.
    """
    if gaps.is_legal(walk.next_offset, walk.tail_bytes, segment.next_offset, gaps_below):
        gaps.close(segment, walk)
        closed.append(segment)
    else:
        walk.reach(segment.next_offset)
    _note_damages(segment, walk.damages)


def _note_damages(segment: Segment, found: list[Damage]) -> None:
    """Add the damages that a scan found; known damages past the end of the file are dropped."""
    quarantine = segment.quarantine
    quarantine.damages = [d for d in quarantine.damages if d.end_position <= segment.size]
    new = [damage for damage in merged([], found) if damage not in quarantine.damages]
    if new:
        quarantine.add(new)
