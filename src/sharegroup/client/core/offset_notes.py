"""What a member says beside its acknowledgements of single records, until the broker has answered:
why it gives them back, and for how long they are to rest.

A broker that does not know these notes ignores them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

from sharegroup.client.core.acknowledgements import AcknowledgedRange
from sharegroup.model.ids import TopicIdPartition

T = TypeVar("T")

WAITING_MAX: Final = 10_000
"""Notes of one partition that wait for an answer; of more, the oldest are forgotten."""


class OffsetNotes(Generic[T]):
    """One kind of note, by partition and offset. Any thread may call :meth:`note`."""

    def __init__(self) -> None:
        self._notes: dict[TopicIdPartition, dict[int, T]] = {}

    def note(self, partition: TopicIdPartition, offset: int, note: T) -> None:
        """What is said of a record; it takes the place of an earlier note."""
        notes = self._notes.setdefault(partition, {})
        notes.pop(offset, None)
        notes[offset] = note
        if len(notes) > WAITING_MAX:
            del notes[next(iter(notes))]

    def of(
        self, partition: TopicIdPartition, ranges: Sequence[AcknowledgedRange]
    ) -> list[tuple[int, int, T]]:
        """First offset, last offset and note of the offsets in ``ranges`` that have one, ascending;
        neighbours with one note are joined."""
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

    def forget(self, partition: TopicIdPartition, ranges: Iterable[AcknowledgedRange]) -> None:
        """The acknowledgements of ``ranges`` are answered, or will never be sent."""
        notes = self._notes.get(partition)
        for offset in self._in(ranges, notes) if notes else ():
            self._notes[partition].pop(offset, None)

    @staticmethod
    def _in(ranges: Iterable[AcknowledgedRange], notes: dict[int, T]) -> list[int]:
        """The offsets with a note that lie in ``ranges``, ascending."""
        offsets = sorted(notes)
        return [
            offset
            for one in ranges
            for offset in offsets[bisect_left(offsets, one.first) : bisect_right(offsets, one.last)]
        ]
