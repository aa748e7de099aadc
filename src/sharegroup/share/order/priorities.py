"""Which priority comes next (``share.priority.header``).

Records of the highest priority come first, in the order of the log. To deliver a record while an
older one of a lower priority waits is to *overtake* it. After ``share.priority.overtakes.max``
overtakes, the oldest record that waits is due, whatever its priority. So no record waits for ever:
with a limit of n, one record in n + 1 is the oldest one.

Overtakes are made good after whole requests: a request for 500 records of the highest priority is
not interrupted, and then as many of the oldest records are due together as these have overtaken.
The count is not durable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from sharegroup.share.acquire import Request
from sharegroup.share.order.waiting_records import WaitingRecords
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.window import Window


class _Next(NamedTuple):
    """A priority, and the first of its records that wait."""

    offset: int
    priority: int


class Priorities:
    """The records of each priority. See the module, and
    :class:`~sharegroup.share.order.classed_order.Classes`."""

    next_ms: Final = None

    def __init__(self, window: Window) -> None:
        self.records = WaitingRecords(window)
        self._overtakes_max = 0
        """0: any number."""
        self._overtakes = 0
        """How many overtakes the oldest records have not been given anything for."""

    def configure(self, settings: DeliverySettings) -> None:
        """Obey the group's limit of overtakes."""
        if settings.priority is not None:
            self._overtakes_max = settings.priority.overtakes_max

    def load(self, offsets: Sequence[int], classes: Sequence[int], end: int) -> None:
        """As in ``Classes``."""
        self.records.load(offsets, classes, end)

    def next_offset(self) -> int | None:
        """The first record of the highest priority, or the oldest one if it is due; None if no
        record waits."""
        waiting = self._waiting()
        return self._first(waiting).offset if waiting else None

    def take(self, first: int, end: int, records_max: int, request: Request) -> list[int]:
        """As in ``Classes``: the records of the highest priority, or the oldest ones if they are
        due. If these lie elsewhere, no others are given.
        """
        there = self.records.blocks_of_classes(first, end)
        taken: list[int] = []
        while len(taken) < records_max and (waiting := self._waiting()):
            one = self._first(waiting)
            if not first <= one.offset < end:
                break
            wanted, until = records_max - len(taken), end
            lower = [each.offset for each in waiting if each.priority < one.priority]
            higher = [each.offset for each in waiting if each.priority > one.priority]
            if higher:  # the oldest records are due, and no more of them than that
                wanted = min(wanted, self._overtakes // self._overtakes_max)
                until = min([end, *lower, *higher])
            found = self.records.take(one.priority, there[one.priority], (first, until), wanted)
            if higher:
                self._overtakes -= len(found) * self._overtakes_max
            elif lower:
                self._overtakes += len(found) - bisect_left(found, min(lower))
            else:
                self._overtakes = 0
            taken += found
        taken.sort()
        return taken

    def _waiting(self) -> list[_Next]:
        """The priorities that have records that wait; there are few."""
        firsts = [(self.records.first_of(each), each) for each in self.records.classes]
        return [_Next(offset, each) for offset, each in firsts if offset is not None]

    def _first(self, waiting: Sequence[_Next]) -> _Next:
        """Whose record comes next."""
        if self._overtakes_max and self._overtakes >= self._overtakes_max:
            return min(waiting)
        return max(waiting, key=attrgetter("priority"))

    def come_ready(self, now_ms: int) -> None:
        """Nothing: no record waits for a time here."""

    # -- back, gone -------------------------------------------------------------------------

    def back(self, offsets: Sequence[int], *, rested: bool = False) -> None:
        """As in :class:`WaitingRecords`."""
        self.records.back(offsets, rested=rested)

    def pause(self, offsets: Sequence[int]) -> None:
        """As in :class:`WaitingRecords`."""
        self.records.pause(offsets)

    def put_off(self, ranges: Iterable[tuple[int, int]]) -> None:
        """As in :class:`WaitingRecords`."""
        self.records.put_off(ranges)

    def gone(self, offsets: range) -> None:
        """As in :class:`WaitingRecords`."""
        self.records.gone(offsets)

    def move_start(self) -> None:
        """As in :class:`WaitingRecords`."""
        self.records.move_start()

    def check_invariants(self, held: Iterable[int], resting: Iterable[int]) -> None:
        """As in ``Classes``."""
        self.records.check_invariants(held, resting)
        assert self._overtakes >= 0
