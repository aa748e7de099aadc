"""The book of claim mode against one entry per record; the claims are in a list, as on disk."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.holding.claim_ledger import ClaimLedger
from sharegroup.spark.source.holding.claims import Claim
from sharegroup.spark.source.offsets import BatchOffset, ClaimPosition, Done

PARTITIONS = [TopicIdPartition(UUID(int=1), number) for number in range(2)]
NAMES = {UUID(int=1): "jobs"}
FIRST = ClaimPosition("folder", 1, 0)
Place = tuple[TopicIdPartition, int]


def places(ranges: Any) -> list[Place]:
    return [(p, n) for p, ones in ranges.items() for one in ones for n in range(one[0], one[1] + 1)]


class Run:
    """A query that acquires, claims, takes, finishes and crashes, beside a naive book of it."""

    def __init__(self) -> None:
        self.ledger = ClaimLedger()
        self.ledger.load([], FIRST)
        self.claims: list[Claim] = []
        self.order: list[Place] = []  # of all claimed records
        self.next = 0  # of them, the first that no batch has
        self.begin = 0  # of the newest batch
        self.offset = BatchOffset()
        self.before = BatchOffset()
        self.end = [0, 0]

    def acquire(self, partition: int, count: int) -> None:
        first = self.end[partition]
        self.end[partition] += count
        new = [Acquired(first, first + count - 1, 1)]
        assert self.ledger.acquired(PARTITIONS[partition], new) == []

    def claim(self, confirmed: bool) -> None:
        ranges = self.ledger.unclaimed(None)
        if not ranges:
            return
        self.claims.append(Claim(len(self.claims) + 1, NAMES, ranges))
        self.order += sorted(places(ranges))
        owed = self.ledger.claimed(self.claims[-1])
        assert sorted(places(owed)) == sorted(places(ranges))
        for partition, ones in owed.items() if confirmed else ():
            self.ledger.confirmed(partition, [(one.first, one.last) for one in ones])

    def redeliver(self, at: int) -> None:
        """A claimed record comes again: it is to be accepted, and is not for Spark."""
        if self.begin < len(self.order):
            partition, n = self.order[self.begin + at % (len(self.order) - self.begin)]
            if self.begin <= self.order.index((partition, n)) < self.next and not self.is_open:
                return
            again = self.ledger.acquired(partition, [Acquired(n, n, 2)])
            assert again == [Done(n, n, AckType.ACCEPT)]
            self.ledger.confirmed(partition, [(n, n)])

    @property
    def is_open(self) -> bool:
        return self.ledger.statistics().in_batch > 0

    def take(self, limit: int) -> None:
        if self.is_open:
            self.ledger.finished()
        ranges = self.ledger.take(limit, None)
        expected = self.order[self.next : self.next + limit]
        assert sorted(places(ranges)) == sorted(expected)
        self.begin, self.next = self.next, self.next + len(expected)
        if expected:
            self.before = self.offset
            self.offset = BatchOffset(
                sequence=self.offset.sequence + 1,
                ranges=ranges,
                done=self.ledger.done(),
                claims=self.ledger.position,
            )

    def take_back(self) -> None:
        if self.is_open:
            self.ledger.take_back()
            self.next, self.offset = self.begin, self.before

    def restart(self, replayed: bool) -> None:
        """Another process begins from the newest offset."""
        position = self.offset.claims
        number = 0 if position is None else position.number
        self.ledger = ClaimLedger()
        if replayed and self.offset.sequence:
            self.ledger.adopt(self.offset)
        self.ledger.load([c for c in self.claims if c.number >= number], position or FIRST)
        if not replayed and self.offset.sequence:
            self.ledger.adopt(self.offset)
        self.begin = self.next if not self.is_open else self.begin
        # What was acquired and not claimed goes back to the group, and comes again.
        for p, partition in enumerate(PARTITIONS):
            self.end[p] = 1 + max((n for q, n in self.order if q == partition), default=-1)


operations = st.one_of(
    st.tuples(st.just("acquire"), st.integers(0, 1), st.integers(1, 5)),
    st.tuples(st.just("claim"), st.booleans()),
    st.tuples(st.just("take"), st.integers(1, 12)),
    st.tuples(st.just("take_back")),
    st.tuples(st.just("redeliver"), st.integers(0, 50)),
    st.tuples(st.just("restart"), st.booleans()),
)


@given(st.lists(operations, max_size=30))
def test_every_claimed_record_is_in_one_batch(script: list[tuple[Any, ...]]) -> None:
    run = Run()
    for name, *arguments in script:
        getattr(run, name)(*arguments)
        run.ledger.check_invariants()
        waiting = run.order[run.next :]
        assert run.ledger.ready_count(None) == len(waiting)
        held = places(run.ledger.locked())
        assert not {*held} & {*run.order}, "a claimed record needs no lock"
        assert not {*places(run.ledger.spare())} & {*run.order}, "a claimed record is not released"
    taken: list[Place] = []
    while run.ledger.ready_count(None):
        run.take(7)
        taken += places(run.offset.ranges)
    assert len(taken) == len({*taken})
    assert run.next == len(run.order)


def test_a_batch_of_another_mode_is_accepted_when_it_is_finished() -> None:
    ledger = ClaimLedger()
    batch = {PARTITIONS[0]: (Acquired(0, 9, 1),)}
    ledger.load([], FIRST)
    ledger.adopt(BatchOffset(sequence=3, ranges=batch))
    assert places(ledger.locked()) == places(batch)
    assert ledger.finished() == {PARTITIONS[0]: [Done(0, 9, AckType.ACCEPT)]}


def test_records_beyond_the_end_of_a_run_are_not_claimed() -> None:
    ledger = ClaimLedger()
    ledger.acquired(PARTITIONS[0], [Acquired(0, 9, 1)])
    ledger.acquired(PARTITIONS[1], [Acquired(0, 9, 1)])
    assert ledger.unclaimed({PARTITIONS[0]: 4}) == {PARTITIONS[0]: (Acquired(0, 3, 1),)}


def test_a_record_that_was_claimed_twice_is_in_a_batch_once() -> None:
    ledger = ClaimLedger()
    claims = [Claim(n, NAMES, {PARTITIONS[0]: (Acquired(0, 9, n),)}) for n in (1, 2)]
    ledger.load(claims, FIRST)
    assert ledger.take(100, None) == {PARTITIONS[0]: (Acquired(0, 9, 1),)}
    assert ledger.position == ClaimPosition("folder", 3, 0, 2)
