"""The driver's ledger in ``ackMode`` claim, where records are accepted at the broker before a batch
gets them.

Acquired records become *claimed* when they are written to a claim file (:mod:`claims`), and stay so
until a batch takes them. Their locks no longer matter. Until the broker has confirmed the accept,
they are also *done*: if they are delivered again, they are accepted and not processed again.

Batches take claimed records in the order of the claims, and within a claim by partition and offset.
So a :class:`ClaimPosition` says which records are left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.cooperative.intervals import size
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.spark.ranges import common, merged
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.holding.claims import Claim
from sharegroup.spark.source.holding.ledger import (
    NOTHING_DECIDED,
    Decided,
    Ledger,
    LedgerStatistics,
)
from sharegroup.spark.source.offsets import BatchOffset, ClaimPosition, Done, Ranges

Start = tuple[int, int]
"""The number of a claim, and how many of its records are in batches."""
RANGES_MAX: Final = 100_000
"""A batch of scattered records is closed at about this many ranges, to keep its offset small."""


class ClaimLedger(Ledger):
    """See the module. If an earlier run of the query acquired a batch in another mode, that batch
    is handled as in that mode."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = ""
        self._claims: deque[Claim] = deque()  # since the beginning of the newest batch
        self._claimed: dict[TopicIdPartition, list[OffsetRange]] = {}
        self._waiting = self._newest = 0
        self._start = self._before = (1, 0)  # of the next batch, of the newest batch
        self._is_claimed = True  # whether the newest batch is of claimed records

    @property
    def position(self) -> ClaimPosition | None:
        """The place in the claims where the newest batch ends."""
        return ClaimPosition(self._folder, *self._start, self._newest)

    def load(self, claims: Iterable[Claim], position: ClaimPosition) -> None:
        """Load the claims of an earlier run, which may have ended before the broker accepted.

        Args:
            claims: ascending.
            position: where the newest offset ends; if there is no offset, the first claim.
        """
        self._folder = position.folder
        self._claims = deque(claims)
        for claim in self._claims:
            self.topics.update(claim.topics)
        self._newest = max((position.newest, *(claim.number for claim in self._claims)))
        self._go_to(position[1:3])
        self._owe_claimed()

    def unclaimed(self, targets: Mapping[TopicIdPartition, int] | None) -> Ranges:
        """The acquired records to claim next.

        Args:
            targets: end offset per partition; records at or after it are left out. None: no end.
        """
        ends = None if targets is None else {p: [(0, end - 1)] for p, end in targets.items()}
        found = {
            partition: tuple(ranges if ends is None else common(ranges, ends.get(partition, ())))
            for partition, ranges in self._ready.items()
        }
        return {partition: ranges for partition, ranges in found.items() if ranges}

    def claimed(self, claim: Claim) -> dict[TopicIdPartition, list[Done]]:
        """The claim is durable.

        Returns:
            The records to acknowledge now.
        """
        owed = {}
        for partition, ranges in claim.ranges.items():
            self.lost(partition, _bounds(ranges))  # not ready any more, and without need of a lock
            mine = merged(_bounds(ranges))
            self._claimed[partition] = merged([*self._claimed.get(partition, ()), *mine])
            owed[partition] = [Done(*one, AckType.ACCEPT) for one in mine]
            self._remember(partition, owed[partition])
        self._claims.append(claim)
        self._newest = claim.number
        self.topics.update(claim.topics)
        self._waiting += _count(claim)
        return owed

    # --- what is different from the other modes ---------------------------------------------------

    def acquired(self, partition: TopicIdPartition, ranges: Iterable[Acquired]) -> list[Done]:
        """As in the other modes. Records that are claimed already must be accepted once more."""
        new = sorted(ranges)
        mine = [*self._claimed.get(partition, ())]
        if self._is_claimed:
            mine += _bounds(self._batch.get(partition, ()))
        known = merged(_bounds(common(new, mine)))
        self._remember(partition, [Done(*one, AckType.ACCEPT) for one in known])
        return super().acquired(partition, new)

    def ready_count(self, targets: Mapping[TopicIdPartition, int] | None) -> int:
        """Claimed records; all of them lie before ``targets``."""
        return self._waiting

    def take(
        self, limit: int, targets: Mapping[TopicIdPartition, int] | None
    ) -> dict[TopicIdPartition, tuple[Acquired, ...]]:
        """Move the first ``limit`` claimed records into the batch."""
        assert not self._batch, "the last batch is not settled"
        pieces: dict[TopicIdPartition, list[Acquired]] = {}
        start = self._before = self._start
        for claim in self._claims:
            if limit <= 0 or sum(map(len, pieces.values())) >= RANGES_MAX:
                break
            if claim.number < start[0]:
                continue
            taken = start[1] if claim.number == start[0] else 0
            for partition, piece in _part(claim, taken, limit):
                pieces.setdefault(partition, []).append(piece)
            all_taken = min(taken + limit, _count(claim))
            limit -= all_taken - taken
            whole = all_taken == _count(claim)
            start = (claim.number + 1, 0) if whole else (claim.number, all_taken)
        self._batch = {partition: _joined(ones) for partition, ones in pieces.items()}
        self._unlock_batch()
        self._go_to(start)
        return {partition: tuple(ranges) for partition, ranges in self._batch.items()}

    def adopt(self, offset: BatchOffset) -> None:
        """Take over a batch that another process made."""
        super().adopt(offset)
        self._is_claimed = offset.claims is not None
        if offset.claims is not None:
            self._unlock_batch()
            self._before = offset.claims[1:3]
            self._go_to(offset.claims[1:3])
        self._owe_claimed()

    def take_back(self) -> None:
        """Spark did not keep the newest offset: its batch is claimed again."""
        if not self._is_claimed:
            super().take_back()
            return
        self._batch, self._unlocked = {}, {}
        self._go_to(self._before)

    def finished(
        self,
        decided: Decided = NOTHING_DECIDED,
        *,
        default: int = AckType.ACCEPT,
        now_ms: int = 0,
        pause_max_ms: int = 0,
    ) -> dict[TopicIdPartition, list[Done]]:
        """The batch is processed. Its records were accepted when they were claimed."""
        if not self._is_claimed:
            self._is_claimed = True
            return super().finished(
                decided, default=default, now_ms=now_ms, pause_max_ms=pause_max_ms
            )
        self._decided[AckType.ACCEPT] += sum(map(size, self._batch.values()))
        self._batch, self._unlocked = {}, {}
        while self._claims and self._claims[0].number < self._start[0]:
            self._claims.popleft()
        self._before = self._start
        return {}

    def statistics(self) -> LedgerStatistics:
        """Claimed records count as ready."""
        return replace(super().statistics(), ready=self._waiting)

    def check_invariants(self) -> None:
        """Assert the invariants of the class: claimed, ready and batch are disjoint; the position
        and the claims say what is claimed."""
        for partition in self._claimed.keys() | self._ready.keys() | self._batch.keys():
            places = (self._claimed, self._ready, self._batch)
            every = sorted(_bounds(one for place in places for one in place.get(partition, ())))
            assert all(one[1] < two[0] for one, two in pairwise(every)), f"{partition}: {every}"
        assert self._waiting == sum(map(size, self._claimed.values()))
        if self._is_claimed and self._batch:
            assert not self.locked().keys() & (self._batch.keys() - self._ready.keys())

    # --- inside -----------------------------------------------------------------------------------

    def _unlock_batch(self) -> None:
        self._unlocked = {p: merged(_bounds(ranges)) for p, ranges in self._batch.items()}

    def _go_to(self, start: Start) -> None:
        """Let the next batch begin here: claimed records are the ones from here on."""
        self._start = start
        rest: dict[TopicIdPartition, list[OffsetRange]] = {}
        self._waiting = 0
        for claim in self._claims:
            if claim.number >= start[0]:
                taken = start[1] if claim.number == start[0] else 0
                self._waiting += _count(claim) - taken
                for partition, one in _part(claim, taken, _count(claim)):
                    rest.setdefault(partition, []).append(OffsetRange(one.first, one.last))
        self._claimed = {partition: merged(ranges) for partition, ranges in rest.items()}

    def _owe_claimed(self) -> None:
        for partition, ranges in self._claimed.items():
            self._remember(partition, [Done(*one, AckType.ACCEPT) for one in ranges])


def _part(claim: Claim, taken: int, limit: int) -> Iterator[tuple[TopicIdPartition, Acquired]]:
    """At most ``limit`` records of a claim, after its first ``taken``."""
    for partition, ranges in sorted(claim.ranges.items()):
        for first, last, count in ranges:
            begin = first + taken
            taken = max(0, begin - last - 1)
            if begin <= last and limit > 0:
                end = min(last, begin + limit - 1)
                limit -= end - begin + 1
                yield partition, Acquired(begin, end, count)


def _count(claim: Claim) -> int:
    return sum(map(size, claim.ranges.values()))


def _joined(pieces: Iterable[Acquired]) -> list[Acquired]:
    """Ascending ranges; neighbours with the same delivery count become one. A record that was
    claimed twice, because the group's offset was reset, is in the batch once."""
    joined: list[Acquired] = []
    for first, last, count in sorted(pieces):
        end = joined[-1].last if joined else -1
        begin = max(first, end + 1)
        if begin > last:
            continue
        if joined and begin == end + 1 and count == joined[-1].delivery_count:
            joined[-1] = joined[-1]._replace(last=last)
        else:
            joined.append(Acquired(begin, last, count))
    return joined


def _bounds(ranges: Iterable[tuple[int, ...]]) -> list[OffsetRange]:
    return [OffsetRange(one[0], one[1]) for one in ranges]
