"""What lies in a partition's folder after a clean end, a crash or a damage (Kafka class LogLoader).

* **Clean end**: nothing is scanned; the last segment is walked from its last index entry on.
* **Crash**: segments from the recovery point on are scanned, every CRC is checked, and their
  indexes are made again.
* **Torn tail**: bytes at the very end that are no valid batch, with no valid batch after them, are
  cut, and logged.
* **Damage in the middle**: valid batches follow. Nothing is cut: the range is written down beside
  the segment, counted and logged, reads of it raise CorruptMessage, and reads before and after it
  go on (see ``segment``).

Producers: the newest readable ``.snapshot`` before whatever was scanned, then a replay of the
headers after it, which also makes the transaction indexes of scanned segments again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final

from sharegroup.model.environment import Disk
from sharegroup.model.errors import CorruptMessage
from sharegroup.storage import producer_snapshot
from sharegroup.storage.contents import LogContents
from sharegroup.storage.producers import note
from sharegroup.storage.scan import Scan, scan_segment
from sharegroup.storage.segment import TRANSACTION_INDEX, Damage, Segment
from sharegroup.storage.settings import LogSettings
from sharegroup.transactions.producers import ProducerTable

logger = logging.getLogger(__name__)

_LOG: Final = ".log"


@dataclass(slots=True)
class Recovered:
    """What opening a data folder has found, over all partitions."""

    clean: bool = True
    """The last end was a clean one."""
    partitions: int = 0
    truncated_bytes: int = 0
    damaged_batches: int = 0
    """Damaged ranges found; a range that swallowed several headers counts once."""
    problems: list[str] = field(default_factory=list)
    """One sentence each, as logged."""

    def report(self, level: int, sentence: str) -> None:
        """Log one problem and keep it."""
        logger.log(level, "%s", sentence)
        self.problems.append(sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastKnown:
    """What the checkpoint files say of a partition; all defaults for a new or unknown one."""

    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0


def open_partition(
    disk: Disk, folder: str, settings: LogSettings, known: LastKnown, recovered: Recovered
) -> LogContents:
    """Open the log in ``folder``, made when missing. The caller must sync ``unsynced`` before
    anybody reads it.

    Raises:
        OSError: the disk failed.
    """
    disk.make_folder(folder)
    names = disk.list(folder)
    bases = sorted(int(name.removesuffix(_LOG)) for name in names if _is_log(name)) or [0]
    segments = [Segment(disk, folder, base, settings.index_interval_bytes) for base in bases]
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
    for segment in segments:
        segment.load_damages()
    scanned: list[Segment] = []
    if not (known.clean and _resume(segments[-1])):
        scanned = _recover(segments, known.recovery_point, recovered)
    end = segments[-1].next_offset
    if end < known.recovery_point:
        recovered.report(
            logging.ERROR,
            f"{folder} ends at offset {end}, but was durable up to {known.recovery_point}: "
            "data is missing",
        )
    contents = LogContents(
        folder=folder,
        segments=segments,
        log_start_offset=min(max(known.log_start_offset, segments[0].base_offset), end),
        recovery_point=end,
    )
    stale = scanned + _load_transactions(segments, scanned, names)
    _load_producers(disk, contents, names, stale)
    for segment in stale:
        if segment is not segments[-1]:
            segment.write_indexes(contents.side_files)
    contents.unsynced += [segment.file for segment in scanned] + contents.side_files
    return contents


def _is_log(name: str) -> bool:
    return name.endswith(_LOG) and name.removesuffix(_LOG).isdigit()


def _resume(segment: Segment) -> bool:
    """Find the end of the last segment after a clean end, from its index; False: it must be
    scanned.
    """
    if segment.size == 0:
        return True
    try:
        start = segment.indexes[0].boundary_before(segment.size)
        end = start
        for position, header in segment.headers(start, segment.size):
            segment.resume(header)
            segment.next_offset = header.last_offset + 1
            end = position + header.length
        for _, header in segment.headers(0, segment.size):
            segment.first_timestamp = header.max_timestamp
            break
    except CorruptMessage:
        return False
    return end == segment.size


def _recover(segments: list[Segment], recovery_point: int, recovered: Recovered) -> list[Segment]:
    """Scan from the recovery point on, drop what is not to remain; the scanned ones."""
    first = max(
        (index for index, segment in enumerate(segments) if segment.base_offset <= recovery_point),
        default=0,
    )
    scans = [scan_segment(segment) for segment in segments[first:]]
    # A crash may leave the next segment's file without the end of the one before: the tail is then
    # in that one.
    while len(scans) > 1 and not scans[-1].batches:
        _cut_tail(segments[-1], scans.pop(), recovered)
        segments.pop().remove()
    for segment, scan in zip(segments[first:], scans, strict=True):
        if segment is segments[-1]:
            _cut_tail(segment, scan, recovered)
            segment.next_offset = scan.next_offset
        elif scan.tail_bytes or scan.next_offset < segment.next_offset:
            end = segment.next_offset - 1
            scan.damages.append(Damage(scan.valid_bytes, segment.size, scan.next_offset, end))
        _report_damages(segment, scan, recovered)
    return segments[first:]


def _cut_tail(segment: Segment, scan: Scan, recovered: Recovered) -> None:
    if not scan.tail_bytes:
        return
    recovered.truncated_bytes += scan.tail_bytes
    recovered.report(
        logging.WARNING,
        f"cut a torn tail of {scan.tail_bytes} bytes from {segment.file.path} at byte "
        f"{scan.valid_bytes}; the log ends at offset {scan.next_offset}",
    )
    segment.truncate(scan.valid_bytes)


def _report_damages(segment: Segment, scan: Scan, recovered: Recovered) -> None:
    if scan.damages == segment.damages:
        return
    for damage in scan.damages:
        recovered.damaged_batches += 1
        recovered.report(
            logging.ERROR,
            f"{segment.file.path} is damaged from byte {damage.position} to "
            f"{damage.end_position}: offsets {damage.first_offset} to {damage.last_offset} "
            "cannot be read; the bytes are kept",
        )
    segment.damages = scan.damages
    segment.save_damages()


def _load_transactions(
    segments: list[Segment], scanned: list[Segment], names: list[str]
) -> list[Segment]:
    """Read the transaction indexes of what was not scanned; the segments where they are bad."""
    bad = []
    present = {name for name in names if name.endswith(TRANSACTION_INDEX)}
    for segment in segments:
        if f"{segment.base_offset:020d}{TRANSACTION_INDEX}" not in present:
            continue
        if segment in scanned:
            segment.forget_transactions()
            continue
        try:
            segment.load_transactions()
        except ValueError as error:
            logger.warning("%s is made again: %s", segment.path + TRANSACTION_INDEX, error)
            segment.forget_transactions()
            bad.append(segment)
    return bad


def _load_producers(
    disk: Disk, contents: LogContents, names: list[str], stale: list[Segment]
) -> None:
    """``stale`` segments get their transaction indexes from the same replay: it begins at or before
    the first of them."""
    end = contents.segments[-1].next_offset
    latest = min((segment.base_offset for segment in stale), default=end)
    start = _load_snapshot(disk, contents, names, latest)
    for segment in contents.segments:
        if segment.next_offset > start:
            _replay(contents.producers, segment, start, indexed=segment not in stale)


def _load_snapshot(disk: Disk, contents: LogContents, names: list[str], latest: int) -> int:
    """Load the newest good snapshot that reaches no further than ``latest``, remove those that
    belong to no segment; the offset it reaches, or 0.
    """
    bases = {segment.base_offset for segment in contents.segments}
    loaded = -1
    for name in sorted((name for name in names if name.endswith(".snapshot")), reverse=True):
        path = f"{contents.folder}/{name}"
        offset = int(name.removesuffix(".snapshot"))
        if loaded < 0 and offset <= latest:
            try:
                contents.producers.load(producer_snapshot.decode(disk.read_file(path)))
                loaded = offset
            except (FileNotFoundError, ValueError) as error:
                logger.warning("%s is not used: %s", path, error)
                disk.remove(path)
                continue
        if offset not in bases and offset != loaded:
            disk.remove(path)
    return max(loaded, 0)


def _replay(producers: ProducerTable, segment: Segment, start: int, *, indexed: bool) -> None:
    try:
        position = segment.limit_of(max(start, segment.base_offset))
        for at, header in segment.headers(position, segment.size):
            if header.producer_id < 0 or header.base_offset < start:
                continue
            batch = partial(segment.file.pread, header.length, at)
            aborted = note(producers, header, header.base_offset, batch, header.max_timestamp)
            if aborted is not None and not indexed:
                segment.transactions.append(aborted)
    except CorruptMessage as error:  # below the recovery point nothing was scanned
        logger.error("producers of %s are incomplete: %s", segment.file.path, error)
