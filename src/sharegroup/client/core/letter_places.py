"""Single letters, named by their places in the dead-letter topic."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

from sharegroup.client.core.dead_letter import DeadLetter


class LetterPlace(NamedTuple):
    """Where a letter is: its partition of the dead-letter topic, and its offset there. The offset
    of the record that it is about tells it from a letter of a topic that was made anew."""

    partition: int
    offset: int
    record_offset: int


class LetterPlaces:
    """Chooses the letters at these places; 16 bytes for each."""

    needs_record: Final = False

    def __init__(self, places: Iterable[LetterPlace]) -> None:
        self._places: dict[int, tuple[array[int], array[int]]] = {}
        for partition, offset, record_offset in sorted(set(places)):
            own = self._places.setdefault(partition, (array("q"), array("q")))
            own[0].append(offset)
            own[1].append(record_offset)

    def __len__(self) -> int:
        return sum(len(offsets) for offsets, _ in self._places.values())

    def chooses(self, letter: DeadLetter, now_ms: int) -> bool:
        """Whether the letter is at one of the places."""
        own = self._places.get(letter.place.partition)
        if own is None:
            return False
        offsets, record_offsets = own
        at = bisect_left(offsets, letter.place_offset)
        return (
            at < len(offsets)
            and offsets[at] == letter.place_offset
            and record_offsets[at] == letter.offset
        )
