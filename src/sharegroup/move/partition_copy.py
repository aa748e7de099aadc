"""Copies the records of one partition. What an earlier, interrupted run has copied stays: it is
compared, record by record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sharegroup.model.ids import TopicPartition
from sharegroup.move.appending import Appending
from sharegroup.move.batch_packing import BatchPacking
from sharegroup.move.committed_log import CommittedLog
from sharegroup.move.letters import Change
from sharegroup.move.offset_map import OffsetMap
from sharegroup.move.side import MoveRefused, Side, Sides
from sharegroup.records.pure_codec import Fields

Told = Callable[[int], None]
"""Called with the number of records that were looked at, or copied, since the last call."""
BEGUN: Final = (
    "it is no copy of the source that could be gone on with. Delete the topic there, or leave it "
    "out. (If retention has deleted records at the source since it was copied: set retention.ms=-1 "
    "there before a long move)"
)
LEFT_OUT: Final = "leave the topics of these dead letters out"
"""Topics that are only compared may be in use."""


class Bounds(NamedTuple):
    """Where a log begins, and where it ends."""

    start: int
    end: int


async def bounds_of(side: Side, where: TopicPartition) -> Bounds:
    """Of a partition in which no transaction is open.

    Raises:
        MoveRefused: one is.
    """
    start, committed, end = await CommittedLog(side.cluster, where).bounds()
    if committed < end:
        raise MoveRefused(
            f"{where} has an open transaction at {side.servers}: end it (sharegroup transactions "
            "list), and run this again"
        )
    return Bounds(start, end)


class PartitionCopy:
    """See the module. First :meth:`compare`, then :meth:`copy`.

    Attributes:
        places: where the records are in the copy, as far as that is known.
        copied: how many records this run has copied, or looked at.
        there: how many were there already.
    """

    def __init__(
        self,
        sides: Sides,
        where: TopicPartition,
        source: Bounds,
        target: Bounds,
        told: Told,
        change: Change | None = None,
    ) -> None:
        self.where = where
        self.places = OffsetMap(target.start)
        self.source = source
        self.copied = 0
        self.there = 0
        self._sides = sides
        self._target = target
        self._log = CommittedLog(sides.source.cluster, where, change)
        self._next = source.start
        self._told = told

    async def compare(self) -> None:
        """Check that what the copy has are the first records of the source.

        Raises:
            MoveRefused: it has others.
            KafkaError: a partition cannot be read.
        """
        if self._target.start == self._target.end:
            return
        copy = CommittedLog(self._sides.target.cluster, self.where)
        ours: list[Fields] = []
        theirs = self._log.batches(self._next, self.source.end)
        async for batches in copy.batches(*self._target):
            found = [record for batch in batches for record in batch.records()]
            while len(ours) < len(found) and (more := await anext(theirs, None)) is not None:
                ours += [record for batch in more for record in batch.records()]
            self._check(ours[: len(found)], found)
            ours = ours[len(found) :]
            self._told(len(found))
        if self.places.end != self._target.end:
            raise self._other(self.places.end)

    async def compare_whole(self) -> None:
        """Check that the copy has all records of the source; it may have more.

        Raises:
            MoveRefused: it has others, or not all.
            KafkaError: a partition cannot be read.
        """
        found: list[Fields] = []
        theirs = CommittedLog(self._sides.target.cluster, self.where).batches(*self._target)
        async for batches in self._log.batches(self._next, self.source.end):
            ours = [record for batch in batches for record in batch.records()]
            while len(found) < len(ours) and (more := await anext(theirs, None)) is not None:
                found += [record for batch in more for record in batch.records()]
            if len(found) < len(ours):
                raise MoveRefused(
                    f"{self.where} at {self._sides.target.servers} has not all records of the "
                    f"source: name it as well (--topic {self.where.topic})"
                )
            self._check(ours, found[: len(ours)], LEFT_OUT)
            found = found[len(ours) :]

    def _check(self, ours: list[Fields], found: list[Fields], advice: str = BEGUN) -> None:
        for mine, copied in zip(ours, found, strict=False):
            if copied[0] != self.places.end or copied[1:] != mine[1:]:
                raise self._other(copied[0], advice)
            self.places.add(mine[0], 1)
            self._next = mine[0] + 1
        if len(ours) < len(found):
            raise self._other(found[len(ours)][0])
        self.there += len(found)

    def _other(self, offset: int, advice: str = BEGUN) -> MoveRefused:
        return MoveRefused(
            f"{self.where} at {self._sides.target.servers} has other records from offset {offset} "
            f"on: {advice}"
        )

    async def look(self) -> None:
        """Read the rest, and copy nothing."""
        async for batches in self._log.batches(self._next, self.source.end):
            before = self.places.end
            for batch in batches:
                for record in batch.records():
                    self.places.add(record[0], 1)
            self.copied += self.places.end - before
            self._told(self.places.end - before)

    async def copy(self, bytes_max: int) -> None:
        """Append the rest.

        Raises:
            KafkaError: a partition cannot be read, or not be written.
        """
        packing = BatchPacking(self.places, bytes_max)
        appending = Appending(self._sides.target.cluster, self.where, self._target.end)

        async def append(batch: bytes) -> None:
            before = appending.end
            await appending.append(batch)
            self.copied += appending.end - before
            self._told(appending.end - before)

        async for batches in self._log.batches(self._next, self.source.end):
            for batch in batches:
                for one in packing.take(batch):
                    await append(one)
        for one in packing.rest():
            await append(one)
