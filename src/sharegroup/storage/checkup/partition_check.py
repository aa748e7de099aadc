"""Checks one partition's folder as recovery would find it (``storage.recovery``): all segments with
their indexes, the joins between them, snapshots, and the lists of known damages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Final

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.ids import TopicPartition
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.storage import gaps, producer_snapshot, rewrite, swapping, traces
from sharegroup.storage.batch_reader import RELATIVE_OFFSET_MAX, Offsets
from sharegroup.storage.checkup.findings import Finding, Severity
from sharegroup.storage.checkup.segment_check import IndexProblem, OnBytes, SegmentCheck
from sharegroup.storage.damage import Damage, merged
from sharegroup.storage.indexes.transaction_index import TransactionIndex
from sharegroup.storage.producer_recovery import ended_by_index, possible_entries
from sharegroup.storage.producers import note
from sharegroup.storage.quarantine import DAMAGED, Quarantine
from sharegroup.storage.recovery import LastKnown
from sharegroup.storage.segment import TRANSACTION_INDEX
from sharegroup.storage.segment_walk import SegmentWalk
from sharegroup.transactions.ongoing import EndedTransaction
from sharegroup.transactions.producers import ProducerTable
from sharegroup.wire.batch import BatchHeader

SNAPSHOT: Final = ".snapshot"
SERVE_REBUILDS: Final = "`sharegroup serve` rebuilds it when needed; --repair rebuilds it now"


@dataclass(slots=True, kw_only=True)
class PartitionReport:
    """The contents of a partition's folder, and the findings about it."""

    key: TopicPartition
    folder: str
    clean: bool
    segments: list[SegmentWalk] = field(default_factory=list)
    on_disk: set[int] = field(default_factory=set)
    """Base offsets of the segments that have a file."""
    exchanges: dict[int, int] = field(default_factory=dict)
    """Cleaned segments that the next start takes into use: base offset → end."""
    log_start: int = 0
    end_offset: int = 0
    scan_from: int = OFFSET_MAX
    """``serve`` scans the segments from this base offset on and rebuilds their side files."""
    aborted: dict[int, list[EndedTransaction]] = field(default_factory=dict)
    """Base offset of a segment → the entries that its transaction index must have."""
    snapshots: dict[int, bytes] = field(default_factory=dict)
    """Offset of an unreadable producer snapshot → the content that it must have."""
    producer_id_max: int = -1
    findings: dict[int, list[Finding]] = field(default_factory=dict)
    """Base offset of a segment → its findings."""

    def damages(self) -> list[Damage]:
        """All damaged ranges at or after the log start, ascending."""
        return [
            damage
            for segment in self.segments
            for damage in segment.damages
            if damage.offsets > 0 and damage.last_offset >= self.log_start
        ]


class PartitionCheck:
    """The check of one partition in data folder ``root``; appends to ``findings``."""

    def __init__(
        self,
        disk: Disk,
        root: str,
        key: TopicPartition,
        known: LastKnown,
        findings: list[Finding],
    ) -> None:
        self._disk = disk
        self._known = known
        self._findings = findings
        self._producers = ProducerTable()
        self._producers_known = True
        """Whether the producers are complete: the log begins at 0, or a snapshot was loaded."""
        self._listed: deque[EndedTransaction] = deque()
        """What the old transaction index of the segment under the walk lists from there on."""
        self._known_damages: dict[int, list[Damage]] = {}
        self._index_problems: dict[int, list[IndexProblem]] = {}
        """Base offset of a segment → what is wrong with its indexes."""
        self._durable = known.recovery_point
        """Records below this offset were durable: the log ended there or later."""
        self.report = PartitionReport(key=key, folder=f"{root}/{key}", clean=known.clean)

    def run(self, on_bytes: OnBytes) -> PartitionReport:
        """Check everything. Raises OSError."""
        report = self.report
        names = self._disk.list(report.folder) if self._disk.exists(report.folder) else []
        report.exchanges = swapping.pending(
            self._disk, report.folder, names, self._known.cleaned_offset
        )
        bases = self._bases(names)
        report.on_disk = set(bases)
        bases = bases or [self._known.log_start_offset or 0]
        self._scan_from(bases)
        self._load_snapshots(names, bases)
        self._durable = max(self._durable, self._clean_end(names, bases))
        self._look_for_traces(names)
        for base in bases:
            self._known_damages[base] = self._load_damages(base)
        ends = [*bases[1:], OFFSET_MAX]
        for base, end_offset in zip(bases, ends, strict=True):
            self._walk(base, end_offset, on_bytes)
        self._find_end()
        if report.end_offset in report.snapshots:
            begins = report.end_offset in report.on_disk
            snapshot = producer_snapshot.encode(self._producers.snapshot(), begins=begins)
            report.snapshots[report.end_offset] = snapshot
        for segment in report.segments:
            self._judge(segment)
        return report

    # -- before the walk ----------------------------------------------------------------------

    def _bases(self, names: Sequence[str]) -> list[int]:
        """The segments that a start will find: it finishes an interrupted exchange first."""
        found = {base for name in names if (base := base_of(name, ".log")) is not None}
        for first, end in self.report.exchanges.items():
            found -= {base for base in found if first < base < end}
        return sorted(found | set(self.report.exchanges))

    def _scan_from(self, bases: Sequence[int]) -> None:
        report = self.report
        unsynced_from = rewrite.pending(self._disk, report.folder)
        if unsynced_from is not None:
            self._say(
                Severity.INFO,
                "sync-failed",
                f"{report.key}/{rewrite.MARKER}",
                f"a sync has failed: `sharegroup serve` will rewrite the log from offset "
                f"{unsynced_from} on",
            )
        if unsynced_from is not None or not self._known.clean:
            point = self._known.recovery_point
            report.scan_from = max((base for base in bases if base < point), default=bases[0])

    def _clean_end(self, names: Sequence[str], bases: Sequence[int]) -> int:
        """The end of the log at a clean shutdown, from the name of its snapshot; else 0."""
        offsets = [base_of(name, SNAPSHOT) or 0 for name in names] if self._known.clean else []
        believed = [offset for offset in offsets if offset <= bases[-1] + RELATIVE_OFFSET_MAX]
        return max(believed, default=0)

    def _look_for_traces(self, names: Sequence[str]) -> None:
        """Find lost segments by their other files, as a start does."""
        on_disk = self.report.on_disk
        reached = traces.reached(names, max(on_disk, default=-1))
        self._durable = max(self._durable, reached)
        if on_disk and self._known.log_start_offset is None:
            begun = traces.begun(names, min(on_disk))
            if begun < min(on_disk):
                self._known = replace(self._known, log_start_offset=begun)
        if traces.is_lost(self._disk, self.report.folder, self._known.recovery_point, reached):
            self._say(
                Severity.ERROR,
                "missing-segment",
                self._place(reached, ".log"),
                traces.lost(reached),
                action="restore the file from a backup",
            )

    def _load_damages(self, base: int) -> list[Damage]:
        path = f"{self.report.folder}/{base:020d}"
        quarantine = Quarantine(self._disk, path)
        try:
            quarantine.load()
        except ValueError as error:
            self._say(
                Severity.WARNING,
                "damage-list-unreadable",
                self._place(base, DAMAGED),
                f"the damage list is itself damaged: {error}",
                base=base,
                action="--repair rewrites it",
            )
        return quarantine.damages

    def _load_snapshots(self, names: Sequence[str], bases: Sequence[int]) -> None:
        """Load the producers as a start does; report the snapshots that cannot be read."""
        self._producers_known = bases[0] == 0
        for name in sorted(names):
            offset = base_of(name, SNAPSHOT)
            if offset is None:
                continue
            try:
                data = self._disk.read_file(f"{self.report.folder}/{name}")
                entries = producer_snapshot.decode(data)
            except ValueError as error:
                self._unreadable_snapshot(offset, error)
                continue
            ids = [entry.producer_id for entry in entries]
            self.report.producer_id_max = max(self.report.producer_id_max, *ids, -1)
            if offset <= bases[0]:
                self._producers.load(entries)
                self._producers_known = self._producers_known or offset == bases[0]

    def _unreadable_snapshot(self, offset: int, error: ValueError) -> None:
        torn = not self._known.clean and offset >= self._known.recovery_point
        if not torn:
            self.report.snapshots[offset] = b""
        self._say(
            Severity.INFO if torn else Severity.WARNING,
            "snapshot-unreadable",
            self._place(offset, SNAPSHOT),
            f"the producer snapshot cannot be used: {error}",
            base=None if torn else offset,
            action=None if torn else SERVE_REBUILDS,
        )

    # -- the walk -----------------------------------------------------------------------------

    def _walk(self, base: int, end_offset: int, on_bytes: OnBytes) -> None:
        report = self.report
        aborted = report.aborted[base] = []
        if base in report.snapshots:
            snapshot = producer_snapshot.encode(self._producers.snapshot(), begins=True)
            report.snapshots[base] = snapshot
        walk = SegmentWalk(base, end_offset)
        report.segments.append(walk)
        self._listed = self._listed_aborts(base, end_offset)
        if base not in report.on_disk:
            return

        def on_batch(file: DiskFile, position: int, header: BatchHeader) -> None:
            report.producer_id_max = max(report.producer_id_max, header.producer_id)
            self._end_listed(walk, header.base_offset)
            batch = partial(file.pread, header.length, position)
            try:
                ended = note(
                    self._producers, header, header.base_offset, batch, header.max_timestamp
                )
            except CorruptMessage:
                return
            if ended is not None:
                aborted.append(ended)

        path = f"{report.folder}/{base:020d}"
        offsets = Offsets(base, self._known.cleaned_offset)
        check = SegmentCheck(self._disk, path, offsets, exchanged=base in report.exchanges)
        self._index_problems[base] = check.run(walk, on_batch, on_bytes)
        gap = walk.next_offset, walk.tail_bytes, end_offset, self._known.gaps_below
        if end_offset < OFFSET_MAX and not gaps.is_legal(*gap):  # the last end is known later
            self._end_listed(walk, end_offset)

    def _listed_aborts(self, base: int, end_offset: int) -> deque[EndedTransaction]:
        """The old entries of a transaction index: of an abort whose marker is damaged they are all
        that is left (see ``producer_recovery``)."""
        path = f"{self.report.folder}/{base:020d}{TRANSACTION_INDEX}"
        if base in self.report.exchanges or not self._disk.exists(path):
            return deque()
        try:
            entries = TransactionIndex.from_bytes(self._disk.read_file(path)).entries
        except ValueError:
            return deque()  # reported when it is judged
        return deque(possible_entries(entries, base, end_offset))

    def _end_listed(self, walk: SegmentWalk, before: int) -> None:
        """End the transactions whose abort markers lie below ``before`` and cannot be read."""

        def is_damaged(offset: int) -> bool:
            return offset >= walk.next_offset or any(
                damage.first_offset <= offset <= damage.last_offset for damage in walk.damages
            )

        aborted = self.report.aborted[walk.base_offset]
        aborted += ended_by_index(self._producers, self._listed, before, is_damaged)

    def _find_end(self) -> None:
        """Find the end of each segment, and the records missing there."""
        report, segments = self.report, self.report.segments
        given = [d.last_offset + 1 for known in self._known_damages.values() for d in known]
        durable = max([self._durable, *given])
        # As a start: a segment after offsets that another broker has cleaned away stays (``gaps``).
        kept = max(durable, self._known.gaps_below)
        while (
            len(segments) > 1
            and not segments[-1].batches
            and segments[-1].base_offset > kept
            and segments[-1].base_offset >= report.scan_from
        ):
            gone = segments.pop()
            segments[-1].end_offset = OFFSET_MAX
            self._torn(gone)
        for segment in segments[:-1]:
            _reach(segment, segment.end_offset, self._known.gaps_below)
        last = segments[-1]
        if last.next_offset < durable:
            _reach(last, durable)
        elif last.tail_bytes:
            self._torn(last)
        self._end_listed(last, last.next_offset)
        report.end_offset = last.next_offset
        self._find_start(segments[0])
        for earlier, later in pairwise(segments):
            assert earlier.next_offset == later.base_offset, "segments join"

    def _find_start(self, first: SegmentWalk) -> None:
        start = self._known.log_start_offset
        if start is not None and start < first.base_offset:
            lost = Damage(0, 0, start, first.base_offset - 1)
            first.damages = merged([lost], first.damages)
        self.report.log_start = min(
            max(start or 0, first.base_offset), self.report.segments[-1].next_offset
        )
        if start is not None and start < first.base_offset:
            self.report.log_start = start

    def _torn(self, segment: SegmentWalk) -> None:
        if segment.tail_bytes or segment.base_offset in self.report.on_disk:
            self._say(
                Severity.INFO,
                "torn-tail",
                self._place(segment.base_offset, ".log"),
                f"ends with {segment.tail_bytes} bytes of an incomplete batch, as after a crash: "
                f"`sharegroup serve` will truncate them; the log ends at offset "
                f"{segment.next_offset}",
            )

    # -- after the walk -----------------------------------------------------------------------

    def _judge(self, segment: SegmentWalk) -> None:
        base = segment.base_offset
        known = self._known_damages.get(base, [])
        for damage in segment.damages:
            self._judge_damage(segment, damage, known)
        self._judge_list(segment, known)
        if base >= self.report.scan_from or base not in self.report.on_disk:
            return
        for ending, problem in self._index_problems[base]:
            self._say(
                Severity.WARNING,
                "index",
                self._place(base, ending),
                problem,
                base=base,
                action=SERVE_REBUILDS,
            )
        self._judge_transactions(segment)

    def _judge_damage(self, segment: SegmentWalk, damage: Damage, known: Sequence[Damage]) -> None:
        severity = Severity.ERROR
        if any(_covers(each, damage) for each in known):
            severity = Severity.KNOWN
        elif damage.offsets <= 0 or damage.last_offset < self.report.log_start:
            severity = Severity.WARNING
        missing = damage.position == damage.end_position
        offsets = (damage.first_offset, damage.last_offset) if damage.offsets > 0 else None
        self._say(
            severity,
            "missing-records" if missing else "damaged-batches",
            self._place(segment.base_offset, ".log"),
            str(damage),
            base=segment.base_offset,
            offsets=offsets,
            action=None
            if severity is Severity.KNOWN
            else "restore the file from a backup, or run --repair: it records the range, and reads "
            "skip it",
        )

    def _judge_list(self, segment: SegmentWalk, known: Sequence[Damage]) -> None:
        """Report entries of a damage list whose records can be read: the list hides them."""
        start = self.report.log_start
        wrong = [
            damage
            for damage in known
            if damage.offsets > 0
            and damage.last_offset >= start
            and not any(_covers(found, damage) for found in segment.damages)
        ]
        for damage in wrong:
            self._say(
                Severity.WARNING,
                "damage-list",
                self._place(segment.base_offset, DAMAGED),
                f"lists offsets {damage.first_offset} to {damage.last_offset} as damaged, but the "
                "log has them: the list hides records that can be read",
                base=segment.base_offset,
                offsets=(damage.first_offset, damage.last_offset),
                action="--repair rewrites it",
            )

    def _judge_transactions(self, segment: SegmentWalk) -> None:
        base = segment.base_offset
        wanted = self.report.aborted.get(base, [])
        path = f"{self.report.folder}/{base:020d}{TRANSACTION_INDEX}"
        problem = None
        if self._disk.exists(path):
            try:
                found = TransactionIndex.from_bytes(self._disk.read_file(path)).entries
            except ValueError as error:
                problem = f"cannot be used: {error}"
            else:
                whole = not any(each.damages for each in self.report.segments)
                fits = _fits(found, wanted, self._known.cleaned_offset)
                if whole and self._producers_known and not fits:
                    problem = "does not list the aborted transactions of the log"
        elif wanted:
            problem = f"is missing; the log has {len(wanted)} aborted transactions there"
        if problem is not None:
            self._say(
                Severity.WARNING,
                "transaction-index",
                self._place(base, TRANSACTION_INDEX),
                problem,
                base=base,
                action="--repair rebuilds it",
            )

    # -----------------------------------------------------------------------------------------

    def _place(self, base: int, ending: str) -> str:
        return f"{self.report.key}/{base:020d}{ending}"

    def _say(
        self,
        severity: Severity,
        kind: str,
        place: str,
        message: str,
        *,
        base: int | None = None,
        offsets: tuple[int, int] | None = None,
        action: str | None = None,
    ) -> None:
        """Add a finding. ``base``: the segment, or the snapshot's offset, whose repair fixes it."""
        finding = Finding(
            severity=severity,
            kind=kind,
            place=place,
            message=message,
            topic=self.report.key.topic,
            partition=self.report.key.partition,
            first_offset=None if offsets is None else offsets[0],
            last_offset=None if offsets is None else offsets[1],
            action=action,
        )
        self._findings.append(finding)
        if base is not None:
            self.report.findings.setdefault(base, []).append(finding)


def base_of(name: str, ending: str) -> int | None:
    """The offset in the name of a segment's file; None for any other file."""
    number = name.removesuffix(ending)
    if not name.endswith(ending) or not (number.isascii() and number.isdigit()):
        return None
    return int(number)


def _reach(segment: SegmentWalk, end_offset: int, gaps_below: int = 0) -> None:
    """Let the segment end at ``end_offset``. What is missing there is damage, unless the gap is
    legal (see ``gaps``)."""
    if gaps.is_legal(segment.next_offset, segment.tail_bytes, end_offset, gaps_below):
        segment.next_offset = end_offset
    else:
        segment.reach(end_offset)
        segment.damages = merged([], segment.damages)


def _fits(
    found: Sequence[EndedTransaction], wanted: Sequence[EndedTransaction], cleaned_offset: int
) -> bool:
    """Whether the transaction index ``found`` fits the aborted transactions that the log still
    shows (``wanted``).

    Below ``cleaned_offset`` the cleaner removes aborted records. A transaction that began there
    may now seem to begin later, or may have no records left, although its marker is in a segment
    that is not cleaned yet.
    """
    first = {(each.producer_id, each.last_offset): each.first_offset for each in found}
    covered = all(
        first.get((each.producer_id, each.last_offset), OFFSET_MAX) <= each.first_offset
        for each in wanted
    )
    kept = [each for each in found if each.first_offset >= cleaned_offset]
    return covered and kept == [each for each in wanted if each in kept]


def _covers(whole: Damage, part: Damage) -> bool:
    return (
        whole.position <= part.position
        and part.end_position <= whole.end_position
        and whole.first_offset <= part.first_offset
        and part.last_offset <= whole.last_offset
    )
