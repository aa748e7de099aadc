"""Repairs the findings of a partition's check. Records are never deleted: a replaced file that may
hold data is kept beside the new one as ``….damaged.N``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from sharegroup.model.environment import Disk
from sharegroup.model.log_settings import LogSettings
from sharegroup.storage.checkup.findings import Finding
from sharegroup.storage.checkup.partition_check import SNAPSHOT, PartitionReport
from sharegroup.storage.damage import Damage, merged
from sharegroup.storage.indexes.transaction_index import TransactionIndex
from sharegroup.storage.quarantine import Quarantine
from sharegroup.storage.segment import TRANSACTION_INDEX, Segment
from sharegroup.storage.segment_walk import SegmentWalk

_QUARANTINED: Final = frozenset({"damaged-batches", "missing-records", "state-beyond-end"})
_LISTED: Final = _QUARANTINED | {"damage-list", "damage-list-unreadable"}


def free_name(disk: Disk, path: str) -> str:
    """``PATH.damaged.N`` with the first N that is not taken."""
    return next(name for number in count(1) if not disk.exists(name := f"{path}.damaged.{number}"))


def set_aside(disk: Disk, path: str) -> str:
    """Rename a damaged file. Returns the last part of its new path. Raises OSError."""
    aside = free_name(disk, path)
    disk.rename(path, aside)
    return aside.rpartition("/")[2]


class PartitionRepair:
    """The repair of one partition after its check. ``sparse_below``: compaction may have removed
    offsets below it.
    """

    def __init__(self, disk: Disk, report: PartitionReport, sparse_below: int) -> None:
        self._disk = disk
        self._report = report
        self._sparse_below = sparse_below

    def run(self) -> None:
        """Repair what can be repaired and note it in the findings. Raises OSError."""
        report = self._report
        if any(finding.open for each in report.findings.values() for finding in each):
            self._disk.make_folder(report.folder)
        for segment in list(report.segments):
            open_ones = [f for f in report.findings.get(segment.base_offset, ()) if f.open]
            if open_ones:
                self._segment(segment, open_ones)
        for offset, content in report.snapshots.items():
            self._snapshot(offset, content)

    def _segment(self, segment: SegmentWalk, findings: Sequence[Finding]) -> None:
        report, disk = self._report, self._disk
        path = f"{report.folder}/{segment.base_offset:020d}"
        kinds = {finding.kind for finding in findings}
        if segment.base_offset not in report.on_disk:
            disk.write_file(path + ".log", b"")
        if kinds & _LISTED:
            quarantine = Quarantine(disk, path)
            quarantine.damages = segment.damages
            quarantine.save()
            _done(findings, _QUARANTINED, "recorded: reads and share groups skip it")
            _done(findings, {"damage-list", "damage-list-unreadable"}, "rewritten")
        if kinds & (_LISTED | {"index"}) and segment.base_offset < report.scan_from:
            self._rebuild_indexes(segment)
        _done(findings, {"index"}, "rebuilt from the log")
        if "transaction-index" in kinds:
            self._rebuild_transactions(segment)
            _done(findings, {"transaction-index"}, "rebuilt from the log")
        if segment is report.segments[-1] and kinds & _QUARANTINED:
            self._begin_behind(segment)

    def _begin_behind(self, last: SegmentWalk) -> None:
        """If offsets at the end of the log are lost, begin a new segment after them. The name of
        that segment keeps the lost offsets from being used again.
        """
        path = f"{self._report.folder}/{last.next_offset:020d}.log"
        at_its_end = last.damages and last.damages[-1].last_offset + 1 == last.next_offset
        if not at_its_end or last.next_offset == last.base_offset or self._disk.exists(path):
            return
        for segment in self._report.segments:
            if segment.base_offset >= self._report.scan_from:  # scans now begin after it
                self._rebuild_indexes(segment)
                self._rebuild_transactions(segment)
        self._disk.write_file(path, b"")

    def _rebuild_transactions(self, segment: SegmentWalk) -> None:
        path = f"{self._report.folder}/{segment.base_offset:020d}{TRANSACTION_INDEX}"
        entries = self._report.aborted[segment.base_offset]
        if entries or self._disk.exists(path):
            self._disk.write_file(path, TransactionIndex(entries).to_bytes())

    def _rebuild_indexes(self, segment: SegmentWalk) -> None:
        disk, base = self._disk, segment.base_offset
        interval = LogSettings().index_interval_bytes
        opened = Segment(disk, self._report.folder, base, interval, self._sparse_below)
        try:
            opened.quarantine.damages = segment.damages
            opened.next_offset = segment.next_offset
            ends = [damage.end_position for damage in segment.damages]
            opened.size = max([segment.valid_bytes, *ends])  # without a torn tail
            opened.indexes.rebuild()
            offsets, times = opened.indexes.both
            times.mark()
            disk.write_file(opened.path + ".index", offsets.to_bytes())
            disk.write_file(opened.path + ".timeindex", times.to_bytes())
        finally:
            opened.close()

    def _snapshot(self, offset: int, content: bytes) -> None:
        path = f"{self._report.folder}/{offset:020d}{SNAPSHOT}"
        aside = set_aside(self._disk, path)
        done = f"kept as {aside}"
        if content:
            self._disk.write_file(path, content)
            done = f"rebuilt from the log; the damaged one is {done}"
        _done(self._report.findings.get(offset, ()), {"snapshot-unreadable"}, done)


def give_up(report: PartitionReport, end_offset: int, findings: Sequence[Finding]) -> None:
    """Plan that a log continues at ``end_offset``, which is beyond its end. Share groups have seen
    the offsets below ``end_offset``, so these offsets must not name other records. The repair that
    follows begins the log there and notes it in ``findings``.
    """
    last = report.segments[-1]
    start = max([last.valid_bytes, *(damage.end_position for damage in last.damages)])
    lost = Damage(start, last.size, last.next_offset, end_offset - 1)
    last.damages = merged([], [*last.damages, lost])
    last.next_offset = report.end_offset = end_offset
    report.findings.setdefault(last.base_offset, []).extend(findings)


def _done(findings: Sequence[Finding], kinds: set[str] | frozenset[str], what: str) -> None:
    for finding in findings:
        if finding.kind in kinds and finding.open:
            finding.repaired = what
