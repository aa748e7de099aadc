"""The driver's ledger of the group's records: the records that it holds, and the acknowledgements
that it owes the broker. A plain state machine: no clock, no network.

A record that the broker gives us is in one of four places:

* **ready**: acquired, not yet given to Spark;
* **batch**: in the newest offset given to Spark, so perhaps being processed;
* **held**: its batch is finished, and it waits for a delayed release, or to be given to Spark again
  (renew). We keep its lock meanwhile. Releases are held only for brokers without pauses of their
  own;
* **done**: its batch is finished with accept or reject, but the broker has not confirmed it (the
  lock was lost, the connection broke). When it is delivered again, it is acknowledged with the
  remembered type and not processed again.

Confirmed records are forgotten. Released records are forgotten whether confirmed or not: if a
release is lost, the lock expires, and the record is delivered again all the same. After a crash
*held* records are delivered again in the same way.

Invariants (:meth:`check_invariants`): the ranges of each place are ascending and disjoint; no
offset is in two of the places; *done* holds no release; an offset that the broker delivers again
while it is in *batch* or *held* is not made ready a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.cooperative.intervals import overlaps, size
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.spark.ranges import Decision, common, merged, without
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.offsets import BatchOffset, ClaimPosition, Done

_T = TypeVar("_T")

RANGES_MAX: Final = 100_000
"""The most ranges of a batch: 300 kB per offset, in the checkpoint and in every progress."""


class Held(NamedTuple):
    """Records ``first`` … ``last``: kept until ``due_ms``, then released or given to Spark again
    (``type`` release or renew)."""

    first: int
    last: int
    delivery_count: int
    type: int
    due_ms: int


Decided = Mapping[TopicIdPartition, Sequence[Decision]]
"""The decisions about a batch, ascending and disjoint for each partition."""
NOTHING_DECIDED: Final[Decided] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStatistics:
    """How many records are in each place now, and how many of each kind there were since the ledger
    was made."""

    ready: int
    in_batch: int
    held: int
    unconfirmed: int
    redelivered: int
    accepted: int
    released: int
    rejected: int
    undecided: int
    """Records of finished batches that were decided by default."""
    unmatched: int
    """Decisions about records that were not in the batch: they have no effect."""


class Ledger:
    """The driver's ledger of records."""

    def __init__(self) -> None:
        self.topics: dict[UUID, str] = {}
        """Names of the topics of claimed records, which may be gone by now."""
        self._ready: dict[TopicIdPartition, list[Acquired]] = {}
        self._batch: dict[TopicIdPartition, list[Acquired]] = {}
        self._unlocked: dict[TopicIdPartition, list[OffsetRange]] = {}
        self._held: dict[TopicIdPartition, list[Held]] = {}
        self._done: dict[TopicIdPartition, list[Done]] = {}
        self._redelivered = self._undecided = self._unmatched = 0
        self._decided = dict.fromkeys(map(int, AckType), 0)

    @property
    def position(self) -> ClaimPosition | None:
        """The place in the claims where the newest batch ends; None: there are no claims."""
        return None

    def acquired(self, partition: TopicIdPartition, ranges: Iterable[Acquired]) -> list[Done]:
        """Take in the records that a fetch acquired.

        Returns:
            Records that were done already: acknowledge them now, then call :meth:`confirmed`.
        """
        new = sorted(ranges)
        self._redelivered += size(one for one in new if one.delivery_count > 1)
        again = common(self._done.get(partition, ()), _bounds(new))
        new = without(new, _bounds(again))
        in_batch = _bounds(self._batch.get(partition, ()))
        self._relocked(partition, common(new, in_batch))
        # Spark has the batch, and held records wait: neither is made ready a second time.
        new = without(without(new, in_batch), self._held.get(partition, ()))
        # Records that were ready and are delivered again get their new delivery count.
        ready = without(self._ready.get(partition, ()), _bounds(new))
        _put(self._ready, partition, sorted(ready + new))
        return again

    def ready_count(self, targets: Mapping[TopicIdPartition, int] | None) -> int:
        """Records that :meth:`take` could give."""
        return sum(size(_below(targets, part, ranges)) for part, ranges in self._ready.items())

    def take(
        self, limit: int, targets: Mapping[TopicIdPartition, int] | None
    ) -> dict[TopicIdPartition, tuple[Acquired, ...]]:
        """Move at most ``limit`` ready records into the batch, evenly from all partitions, so that
        tasks can work in parallel. If records are scattered it takes fewer: a batch has at most
        ``RANGES_MAX`` ranges, or one per partition.

        Args:
            targets: end offset per partition; records at or after it stay ready. None: there is no
                end.
        """
        assert not self._batch, "the last batch is not settled"
        below = {p: _below(targets, p, ranges) for p, ranges in self._ready.items()}
        pieces = max(1, RANGES_MAX // max(1, len(below)))
        for partition, share in _shares(limit, {p: size(r) for p, r in below.items()}).items():
            chosen = _first(share, below[partition])[:pieces]
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
            _put(self._ready, partition, without(self._ready.get(partition, ()), ranges))
            _put(self._held, partition, without(self._held.get(partition, ()), ranges))

    def take_back(self) -> None:
        """Spark did not keep the newest offset: its batch is ready again."""
        for partition, ranges in self._batch.items():
            still_ours = without(ranges, self._unlocked.get(partition, ()))
            _put(self._ready, partition, sorted([*self._ready.get(partition, ()), *still_ours]))
        self._batch, self._unlocked = {}, {}

    def finished(
        self,
        decided: Decided = NOTHING_DECIDED,
        *,
        default: int = AckType.ACCEPT,
        now_ms: int = 0,
        pause_max_ms: int = 0,
    ) -> dict[TopicIdPartition, list[Done]]:
        """The batch is processed.

        Args:
            decided: decisions about its records; decisions about other records have no effect.
            default: the type for records without a decision.
            now_ms: the time from which delays count, by the clock that :meth:`due` gets, too.
            pause_max_ms: the broker itself lets a released record rest for up to so long, so such
                releases are due now.

        Returns:
            The records to acknowledge now.
        """
        owed: dict[TopicIdPartition, list[Done]] = {}
        self._unmatched += sum(map(size, decided.values()))
        for partition, ranges in self._batch.items():
            answers = self._answers(ranges, decided.get(partition, ()), default)
            later = waiting(answers, pause_max_ms)
            _put(owed, partition, _joined(without(answers, later)))
            self._hold(partition, later, now_ms)
            self._remember(partition, owed.get(partition, []))
        self._batch, self._unlocked = {}, {}
        return owed

    def due(self, now_ms: int) -> dict[TopicIdPartition, list[Done]]:
        """Take out the held records that are due; renewed ones become ready for Spark again.

        Returns:
            The records to release now.
        """
        owed: dict[TopicIdPartition, list[Done]] = {}
        for partition, ranges in list(self._held.items()):
            now = [one for one in ranges if one.due_ms <= now_ms]
            again = [Acquired(*one[:3]) for one in now if one.type == AckType.RENEW]
            released = [Done(*one[:2], one.type) for one in now if one.type == AckType.RELEASE]
            _put(self._held, partition, without(ranges, now))
            _put(self._ready, partition, sorted([*self._ready.get(partition, ()), *again]))
            _put(owed, partition, released)
        return owed

    def next_due_ms(self) -> int | None:
        """When :meth:`due` has something to do; None: nothing is held."""
        return min((one.due_ms for ranges in self._held.values() for one in ranges), default=None)

    def confirmed(self, partition: TopicIdPartition, ranges: Iterable[tuple[int, int]]) -> None:
        """The broker has confirmed these acknowledgements."""
        _put(self._done, partition, without(self._done.get(partition, ()), ranges))

    def passed(self, partition: TopicIdPartition, start_offset: int) -> None:
        """The group's start offset is ``start_offset``: all records before it are final."""
        if start_offset > 0:
            self.confirmed(partition, [(0, start_offset - 1)])

    def lost(self, partition: TopicIdPartition, ranges: Iterable[tuple[int, int]]) -> None:
        """The locks of these records are gone. Ready and held records are forgotten; the batch goes
        on without its locks."""
        gone = merged(ranges)
        _put(self._ready, partition, without(self._ready.get(partition, ()), gone))
        _put(self._held, partition, without(self._held.get(partition, ()), gone))
        if partition in self._batch:
            self._unlocked[partition] = merged([*self._unlocked.get(partition, ()), *gone])

    def locked(self) -> dict[TopicIdPartition, list[OffsetRange]]:
        """All records whose locks must be kept alive."""
        held: dict[TopicIdPartition, list[OffsetRange]] = {}
        for partition in self._ready.keys() | self._batch.keys() | self._held.keys():
            batch = without(self._batch.get(partition, ()), self._unlocked.get(partition, ()))
            waiting = self._held.get(partition, ())
            ready = self._ready.get(partition, ())
            _put(held, partition, merged(_bounds([*batch, *ready, *waiting])))
        return held

    def ready(self) -> dict[TopicIdPartition, list[OffsetRange]]:
        """Records that the next batch may have."""
        return {partition: merged(_bounds(ranges)) for partition, ranges in self._ready.items()}

    def held(self) -> dict[TopicIdPartition, list[OffsetRange]]:
        """Records of finished batches that wait for their delay."""
        return {partition: merged(_bounds(ranges)) for partition, ranges in self._held.items()}

    def spare(self) -> dict[TopicIdPartition, list[OffsetRange]]:
        """Ready and held records, which no batch needs: released when the query stops."""
        ready, held = self.ready(), self.held()
        return {
            partition: merged([*ready.get(partition, ()), *held.get(partition, ())])
            for partition in ready.keys() | held.keys()
        }

    def done(self) -> dict[TopicIdPartition, tuple[Done, ...]]:
        """The records that are done and not confirmed, to be stored in the next offset."""
        return {partition: tuple(ranges) for partition, ranges in self._done.items()}

    def statistics(self) -> LedgerStatistics:
        """Numbers for the query's progress."""
        return LedgerStatistics(
            ready=sum(map(size, self._ready.values())),
            in_batch=sum(map(size, self._batch.values())),
            held=sum(map(size, self._held.values())),
            unconfirmed=sum(map(size, self._done.values())),
            redelivered=self._redelivered,
            accepted=self._decided[AckType.ACCEPT],
            released=self._decided[AckType.RELEASE],
            rejected=self._decided[AckType.REJECT],
            undecided=self._undecided,
            unmatched=self._unmatched,
        )

    def check_invariants(self) -> None:
        """Assert the invariants of the class."""
        places = (self._ready, self._batch, self._held, self._done)
        for partition in set[TopicIdPartition]().union(*places):
            every = sorted(_bounds(one for place in places for one in place.get(partition, ())))
            assert all(first <= last for first, last in every)
            assert all(one[1] < two[0] for one, two in pairwise(every)), f"{partition}: {every}"
            for place in places:
                assert list(place.get(partition, ())) == sorted(place.get(partition, ()))
            final = (AckType.ACCEPT, AckType.REJECT)
            assert all(one.type in final for one in self._done.get(partition, ()))

    def _answers(
        self, batch: Sequence[Acquired], said: Sequence[Decision], default: int
    ) -> list[Decision]:
        """One decision for every record of the batch, ascending."""
        matched = common(said, batch)
        silent = [Decision(one[0], one[1], default) for one in without(batch, said)]
        self._unmatched -= size(matched)
        self._undecided += size(silent)
        for one in (*matched, *silent):
            self._decided[one.type] += one.last - one.first + 1
        return sorted(matched + silent)

    def _hold(
        self, partition: TopicIdPartition, decisions: Sequence[Decision], now_ms: int
    ) -> None:
        """Hold records that must wait. Records whose locks are lost are not held: they are
        redelivered."""
        ours = without(self._batch[partition], self._unlocked.get(partition, ()))
        kept = [
            Held(first, last, one.delivery_count, wait.type, now_ms + wait.delay_ms)
            for first, last, one, wait in overlaps(ours, decisions)
        ]
        _put(self._held, partition, sorted([*self._held.get(partition, ()), *kept]))

    def _remember(self, partition: TopicIdPartition, owed: Sequence[Done]) -> None:
        final = [one for one in owed if one.type != AckType.RELEASE]
        kept = without(self._done.get(partition, ()), owed)
        _put(self._done, partition, sorted(kept + final))

    def _relocked(self, partition: TopicIdPartition, ranges: list[Acquired]) -> None:
        """Records of the batch were delivered to us again: we hold their locks again."""
        if ranges and partition in self._unlocked:
            gone = [Acquired(first, last, 0) for first, last in self._unlocked[partition]]
            _put(self._unlocked, partition, merged(_bounds(without(gone, _bounds(ranges)))))


def waiting(decisions: Iterable[Decision], pause_max_ms: int) -> list[Decision]:
    """The decisions whose records stay with the query when their batch ends; ``pause_max_ms`` as in
    :meth:`Ledger.finished`."""
    return [one for one in decisions if one.delay_ms > pause_max_ms or one.type == AckType.RENEW]


def _bounds(ranges: Iterable[tuple[int, ...]]) -> list[OffsetRange]:
    return [OffsetRange(one[0], one[1]) for one in ranges]


def _joined(decisions: Iterable[Decision]) -> list[Done]:
    """The decisions, which ascend, as ranges; neighbours of one type become one range."""
    joined: list[Done] = []
    end = kind_before = -1
    for first, last, kind, _ in decisions:
        if first == end and kind == kind_before:
            joined[-1] = joined[-1]._replace(last=last)
        else:
            joined.append(Done(first, last, kind))
        end, kind_before = last + 1, kind
    return joined


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
    end = targets.get(partition, 0)  # absent: it held no records when the run began
    return common(ranges, [(0, end - 1)]) if end > 0 else []


def _shares(limit: int, sizes: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
    """How many records each partition gives: ``limit`` in all, or all if there are fewer."""
    shares = {}
    ordered = sorted(sizes, key=lambda partition: (sizes[partition], partition))
    for place, partition in enumerate(ordered):
        shares[partition] = min(sizes[partition], -(-limit // (len(ordered) - place)))
        limit -= shares[partition]
    return shares


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
