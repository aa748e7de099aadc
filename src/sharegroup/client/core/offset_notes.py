"""What a member says beside its acknowledgements of single records, until the broker has answered:
why it gives them back, and for how long they are to rest.

A broker that does not know these notes ignores them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Generic, TypeVar

from sharegroup.client.core.acknowledgements import AcknowledgedRange
from sharegroup.cooperative.intervals import minus, normal, overlaps
from sharegroup.model.ids import TopicIdPartition

T = TypeVar("T")

WAITING_MAX: Final = 10_000
"""Notes of one partition that wait for an answer; of more, the oldest are forgotten."""


class OffsetNotes(Generic[T]):
    """One kind of note, by partition and offset. Any thread may call :meth:`note`; the member's
    loop calls the others."""

    def __init__(self) -> None:
        self._notes: dict[TopicIdPartition, dict[int, T]] = {}
        self._ranges: dict[TopicIdPartition, list[tuple[int, int, T]]] = {}

    def __bool__(self) -> bool:
        return bool(self._ranges) or any(list(self._notes.values()))

    def note(self, partition: TopicIdPartition, offset: int, note: T | None) -> None:
        """What is said of a record; it takes the place of an earlier note. None: nothing is."""
        if note is None:
            if notes := self._notes.get(partition):
                notes.pop(offset, None)
            return
        notes = self._notes.setdefault(partition, {})
        notes.pop(offset, None)
        notes[offset] = note
        if len(notes) > WAITING_MAX:
            del notes[next(iter(notes))]

    def note_ranges(
        self, partition: TopicIdPartition, notes: Collection[tuple[int, int, T]]
    ) -> None:
        """What is said of all records of these ranges, which ascend and do not overlap; it takes
        the place of earlier notes about ranges. The caller limits their number: none is forgotten
        before its acknowledgement is answered."""
        if notes:
            kept = self._without(partition, [(first, last) for first, last, _ in notes])
            self._ranges[partition] = sorted([*kept, *notes], key=_first)

    def of(
        self, partition: TopicIdPartition, ranges: Sequence[AcknowledgedRange]
    ) -> list[tuple[int, int, T]]:
        """First offset, last offset and note of the offsets in ``ranges`` that have one, ascending;
        neighbours with one note are joined. A note about one record goes before a range's."""
        single = self._single(partition, ranges)
        spans = self._ranges.get(partition)
        if not spans:
            return single
        asked = normal((one.first, one.last) for one in ranges)
        free = minus(asked, [(first, last) for first, last, _ in single])
        found = [(first, last, span[2]) for first, last, _, span in overlaps(free, spans)]
        return sorted([*single, *found], key=_first)

    def forget(self, partition: TopicIdPartition, ranges: Sequence[AcknowledgedRange]) -> None:
        """The acknowledgements of ``ranges`` are answered, or will never be sent."""
        notes = self._notes.get(partition)
        for offset in self._in(ranges, notes) if notes else ():
            self._notes[partition].pop(offset, None)
        if partition in self._ranges:
            left = self._without(partition, [(one.first, one.last) for one in ranges])
            if left:
                self._ranges[partition] = left
            else:
                del self._ranges[partition]

    def _single(
        self, partition: TopicIdPartition, ranges: Sequence[AcknowledgedRange]
    ) -> list[tuple[int, int, T]]:
        notes = self._notes.get(partition)
        if not notes:
            return []
        found: list[tuple[int, int, T]] = []
        for offset in self._in(ranges, notes):
            note = notes[offset]
            if found and (found[-1][1] + 1, found[-1][2]) == (offset, note):
                found[-1] = (found[-1][0], offset, note)
            else:
                found.append((offset, offset, note))
        return found

    def _without(
        self, partition: TopicIdPartition, cut: Iterable[tuple[int, int]]
    ) -> list[tuple[int, int, T]]:
        """The notes about ranges of this partition, without these offsets."""
        spans = self._ranges.get(partition, [])
        left = minus([(first, last) for first, last, _ in spans], normal(cut))
        return [(first, last, span[2]) for first, last, _, span in overlaps(left, spans)]

    @staticmethod
    def _in(ranges: Iterable[AcknowledgedRange], notes: dict[int, T]) -> list[int]:
        """The offsets with a note that lie in ``ranges``, ascending."""
        offsets = sorted(notes)
        return [
            offset
            for one in ranges
            for offset in offsets[bisect_left(offsets, one.first) : bisect_right(offsets, one.last)]
        ]


def _first(note: tuple[int, int, object]) -> int:
    return note[0]
