"""What the driver holds of the group's records, and what it owes the broker. A plain machine: no
clock, no network.

A record that the broker hands us is in one of three places, and goes through them in this order:

* **ready**: acquired, not yet given to Spark;
* **batch**: in the newest offset given to Spark, so perhaps being processed;
* **done**: its batch is finished, but the broker has not confirmed the acknowledgement (the lock
  was lost, the connection broke). When it is delivered again, it is acknowledged with the
  remembered type and not processed again.

Confirmed records are forgotten. Invariants (:meth:`check_invariants`): the ranges of each place are
ascending and disjoint; no offset is in two of the places; an offset that the broker delivers again
while it is in *batch* is not made ready a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.spark.offsets import Acquired, BatchOffset, Done
from sharegroup.spark.ranges import common, merged, size, without

ACCEPT = 1
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStatistics:
    """How many records are where, and how many came more than once, since the ledger was made."""

    ready: int
    in_batch: int
    unconfirmed: int
    redelivered: int


class Ledger:
    """The driver's book of records."""

    def __init__(self) -> None:
        self._ready: dict[TopicIdPartition, list[Acquired]] = {}
        self._batch: dict[TopicIdPartition, list[Acquired]] = {}
        self._unlocked: dict[TopicIdPartition, list[OffsetRange]] = {}
        self._done: dict[TopicIdPartition, list[Done]] = {}
        self._redelivered = 0

    def acquired(self, partition: TopicIdPartition, ranges: Iterable[Acquired]) -> list[Done]:
        """Take in what a fetch acquired.

        Returns:
            Records that were done already: acknowledge them now, then call :meth:`confirmed`.
        """
        new = sorted(ranges)
        self._redelivered += size(one for one in new if one.delivery_count > 1)
        again = common(self._done.get(partition, ()), _bounds(new))
        new = without(new, _bounds(again))
        in_batch = _bounds(self._batch.get(partition, ()))
        self._relocked(partition, common(new, in_batch))
        new = without(new, in_batch)
        ready = without(self._ready.get(partition, ()), _bounds(new))
        _put(self._ready, partition, sorted(ready + new))
        return again

    def ready_count(self, targets: Mapping[TopicIdPartition, int] | None) -> int:
        """Records that :meth:`take` could give."""
        return sum(size(_below(targets, part, ranges)) for part, ranges in self._ready.items())

    def take(
        self, limit: int, targets: Mapping[TopicIdPartition, int] | None
    ) -> dict[TopicIdPartition, tuple[Acquired, ...]]:
        """Move at most ``limit`` ready records into the batch.

        Args:
            targets: end offset per partition; records at or after it stay ready. None: there is no
                end.
        """
        assert not self._batch, "the last batch is not settled"
        for partition in list(self._ready):
            if limit <= 0:
                break
            chosen = _first(limit, _below(targets, partition, self._ready[partition]))
            limit -= size(chosen)
            _put(self._batch, partition, chosen)
            _put(self._ready, partition, without(self._ready[partition], _bounds(chosen)))
        return {partition: tuple(ranges) for partition, ranges in self._batch.items()}

    def adopt(self, offset: BatchOffset) -> None:
        """Take over a batch that another process made: it is being replayed, or about to be
        settled."""
        self._batch = {partition: sorted(ranges) for partition, ranges in offset.ranges.items()}
        self._unlocked = {}
        self._done = {partition: sorted(ranges) for partition, ranges in offset.done.items()}
        for partition, ranges in self._batch.items():
            ready = without(self._ready.get(partition, ()), _bounds(ranges))
            _put(self._ready, partition, ready)

    def take_back(self) -> None:
        """Spark did not keep the newest offset: its batch is ready again."""
        for partition, ranges in self._batch.items():
            still_ours = without(ranges, self._unlocked.get(partition, ()))
            _put(self._ready, partition, sorted([*self._ready.get(partition, ()), *still_ours]))
        self._batch, self._unlocked = {}, {}

    def finished(self) -> dict[TopicIdPartition, list[Done]]:
        """The batch is processed: all of it is done now. What it returns is to be acknowledged."""
        owed = {
            partition: [Done(first, last, ACCEPT) for first, last in merged(_bounds(ranges))]
            for partition, ranges in self._batch.items()
        }
        for partition, ranges in owed.items():
            kept = without(self._done.get(partition, ()), _bounds(ranges))
            _put(self._done, partition, sorted(kept + ranges))
        self._batch, self._unlocked = {}, {}
        return owed

    def confirmed(self, partition: TopicIdPartition, ranges: Iterable[tuple[int, int]]) -> None:
        """The broker has these acknowledgements for good."""
        _put(self._done, partition, without(self._done.get(partition, ()), ranges))

    def passed(self, partition: TopicIdPartition, start_offset: int) -> None:
        """The group's start offset is here: everything before it is settled for good."""
        self.confirmed(partition, [(0, start_offset - 1)])

    def lost(self, partition: TopicIdPartition, ranges: Iterable[tuple[int, int]]) -> None:
        """The locks of these records are gone. Ready ones are forgotten; the batch goes on without
        its locks."""
        gone = merged(ranges)
        _put(self._ready, partition, without(self._ready.get(partition, ()), gone))
        if partition in self._batch:
            self._unlocked[partition] = merged([*self._unlocked.get(partition, ()), *gone])

    def locked(self) -> dict[TopicIdPartition, list[OffsetRange]]:
        """All records whose locks must be kept alive."""
        held: dict[TopicIdPartition, list[OffsetRange]] = {}
        for partition in self._ready.keys() | self._batch.keys():
            batch = without(self._batch.get(partition, ()), self._unlocked.get(partition, ()))
            ranges = merged([*_bounds(batch), *_bounds(self._ready.get(partition, ()))])
            _put(held, partition, ranges)
        return held

    def ready(self) -> dict[TopicIdPartition, list[OffsetRange]]:
        """Records that Spark never saw: to be released when the query stops."""
        return {partition: merged(_bounds(ranges)) for partition, ranges in self._ready.items()}

    def done(self) -> dict[TopicIdPartition, tuple[Done, ...]]:
        """Done, not confirmed: to be remembered in the next offset."""
        return {partition: tuple(ranges) for partition, ranges in self._done.items()}

    def statistics(self) -> LedgerStatistics:
        """Numbers for the query's progress."""
        return LedgerStatistics(
            ready=sum(map(size, self._ready.values())),
            in_batch=sum(map(size, self._batch.values())),
            unconfirmed=sum(map(size, self._done.values())),
            redelivered=self._redelivered,
        )

    def check_invariants(self) -> None:
        """Assert the invariants of the class."""
        for partition in self._ready.keys() | self._batch.keys() | self._done.keys():
            places = [*self._ready.get(partition, ()), *self._batch.get(partition, ())]
            every = sorted(_bounds([*places, *self._done.get(partition, ())]))
            assert all(first <= last for first, last in every)
            assert all(one[1] < two[0] for one, two in pairwise(every)), f"{partition}: {every}"

    def _relocked(self, partition: TopicIdPartition, ranges: list[Acquired]) -> None:
        """Records of the batch were delivered to us again: their locks are ours once more."""
        if ranges and partition in self._unlocked:
            gone = [Acquired(first, last, 0) for first, last in self._unlocked[partition]]
            _put(self._unlocked, partition, merged(_bounds(without(gone, _bounds(ranges)))))


def _bounds(ranges: Iterable[tuple[int, int, int]]) -> list[OffsetRange]:
    return [OffsetRange(first, last) for first, last, _ in ranges]


def _put(
    table: dict[TopicIdPartition, list[_T]], partition: TopicIdPartition, ranges: list[_T]
) -> None:
    if ranges:
        table[partition] = ranges
    else:
        table.pop(partition, None)


def _below(
    targets: Mapping[TopicIdPartition, int] | None,
    partition: TopicIdPartition,
    ranges: list[Acquired],
) -> list[Acquired]:
    if targets is None:
        return ranges
    return common(ranges, [(0, targets.get(partition, 0) - 1)])


def _first(limit: int, ranges: list[Acquired]) -> list[Acquired]:
    """The first ``limit`` offsets of ``ranges``."""
    chosen = []
    for first, last, count in ranges:
        if limit <= 0:
            break
        last = min(last, first + limit - 1)
        chosen.append(Acquired(first, last, count))
        limit -= last - first + 1
    return chosen
