"""The offsets that a member is done with, in partitions that it may share with other members
(KIP-X, "Individual Commit").

Such a member commits ranges of offsets: the offsets of its own records, and the offsets that no
record has (*holes*). The offsets between these ranges belong to other members.
"""

from __future__ import annotations

from collections.abc import Iterable

from sharegroup.cooperative.intervals import Interval, Intervals, common, holds, minus, normal
from sharegroup.model.ids import TopicPartition


class _Read:
    """The uncommitted offsets that were read of one partition. ``records`` and ``holes`` ascend.
    ``turns`` has the records once more, in the order in which they were read: an earlier turn may
    have the higher offsets. ``begin``: see :meth:`Covered.begin`."""

    def __init__(self) -> None:
        self.begin: int | None = None
        self.records: Intervals = ()
        self.holes: Intervals = ()
        self.turns: list[Intervals] = []


class Covered:
    """The offsets of each tracked partition that were read and are not committed. A partition that
    is not tracked is committed by a plain offset.
    """

    def __init__(self) -> None:
        self._read: dict[TopicPartition, _Read] = {}

    def __contains__(self, where: object) -> bool:
        """Whether the partition is tracked."""
        return where in self._read

    def __len__(self) -> int:
        """The number of ranges, about."""
        return sum(len(own.records) + len(own.holes) for own in self._read.values())

    def track(self, wheres: Iterable[TopicPartition]) -> None:
        """Begin with these partitions, or begin anew."""
        for where in wheres:
            self._read[where] = _Read()

    def forget(self, wheres: Iterable[TopicPartition]) -> None:
        """Forget what was read of these partitions: nobody is to commit it."""
        self.track([where for where in wheres if where in self._read])

    def cut(self, where: TopicPartition, offset: int) -> None:
        """Forget what was read from ``offset`` on: it was not handled, or is to be read again."""
        own = self._read.get(where)
        if own is not None:
            own.records = common(own.records, _below(offset))
            own.holes = common(own.holes, _below(offset))

    def go_on(self, where: TopicPartition, offset: int) -> None:
        """The partition is read from ``offset`` on, because the application wants it, or because
        the log begins there. What was read before that offset is still to be committed."""
        self.cut(where, offset)
        own = self._read.get(where)
        if own is None:
            return
        if not (own.records or own.holes):
            own.begin = offset
        elif own.begin is not None:  # what was read first, and what lies behind it, must count
            own.begin = min(own.begin, offset)

    def begin(self, where: TopicPartition) -> int | None:
        """Where the group begins, if it has committed nothing: the application has sought this
        offset. None: something is committed, or the group's first offset is looked up."""
        return self._read[where].begin

    def remove(self, wheres: Iterable[TopicPartition]) -> None:
        """These partitions are not ours any more."""
        for where in wheres:
            self._read.pop(where, None)

    def read(
        self, where: TopicPartition, records: Iterable[Interval], holes: Iterable[Interval]
    ) -> None:
        """Note the offsets that were read: of our ``records``, and ``holes``."""
        own = self._read.get(where)
        if own is not None:
            own.records = normal((*own.records, *records))
            own.holes = normal((*own.holes, *holes))

    def read_turn(
        self, where: TopicPartition, records: Intervals, holes: Iterable[Interval]
    ) -> None:
        """As :meth:`read`, for one turn of a partition that is read in turns."""
        self.read(where, records, holes)
        own = self._read.get(where)
        if own is not None:
            own.turns = [*filter(None, own.turns), records]

    def before(self, where: TopicPartition, offset: int) -> Intervals:
        """The offsets that were read before the record at ``offset``. If the partition is read in
        turns: all of the earlier turns, the lower ones of the record's own turn, and all holes."""
        own = self._read[where]
        below = _below(offset)
        if not own.turns:
            return common(normal((*own.records, *own.holes)), below)
        last = len(own.turns) - 1
        current = next((at for at, turn in enumerate(own.turns) if holds(turn, offset)), last)
        earlier = (each for turn in own.turns[:current] for each in turn)
        return normal((*earlier, *common(own.turns[current], below), *own.holes))

    def with_holes(self, where: TopicPartition, offsets: Iterable[int]) -> Intervals:
        """The ``offsets`` of some records, and all holes."""
        return normal((*((at, at) for at in offsets), *self._read[where].holes))

    def committed(self, where: TopicPartition, ranges: Intervals) -> None:
        """These ranges were committed. There may be none: the group's begin was."""
        own = self._read.get(where)
        if own is not None:
            own.begin = None
            own.records, own.holes = minus(own.records, ranges), minus(own.holes, ranges)
            own.turns = [minus(turn, ranges) for turn in own.turns]


def _below(offset: int) -> Intervals:
    return ((0, offset - 1),) if offset > 0 else ()
