"""The driver's book, against one entry per record, and the story of a lost acknowledgement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.cooperative.intervals import size
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.ranges import Decision
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.holding.ledger import RANGES_MAX, Ledger
from sharegroup.spark.source.offsets import BatchOffset, Done
from tests.spark.test_ranges import bounds, disjoint, numbers

ACCEPT, RELEASE, REJECT, RENEW = AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW
P = TopicIdPartition(UUID(int=1), 0)


class NaiveLedger:
    """The same promise with one entry per offset in each place."""

    def __init__(self) -> None:
        self.ready: set[int] = set()
        self.batch: set[int] = set()
        self.unlocked: set[int] = set()
        self.held: dict[int, tuple[int, int]] = {}
        self.done: dict[int, int] = {}

    def acquired(self, offsets: set[int]) -> dict[int, int]:
        again = {n: kind for n, kind in self.done.items() if n in offsets}
        self.ready |= offsets - set(self.done) - self.batch - set(self.held)
        self.unlocked -= offsets
        return again

    def take(self, limit: int, end: int) -> set[int]:
        self.batch = set(sorted(n for n in self.ready if n < end)[:limit])
        self.ready -= self.batch
        self.unlocked = set()
        return self.batch

    def take_back(self) -> None:
        self.ready |= self.batch - self.unlocked
        self.batch = set()

    def finished(
        self, decided: dict[int, tuple[int, int]], default: int, now_ms: int, pause_max_ms: int
    ) -> dict[int, int]:
        owed = {}
        for n in self.batch:
            kind, delay_ms = decided.get(n, (default, 0))
            if delay_ms <= pause_max_ms and kind != RENEW:
                owed[n] = kind
            elif n not in self.unlocked:
                self.held[n] = (kind, now_ms + delay_ms)
        self.batch = set()
        self.done.update({n: kind for n, kind in owed.items() if kind != RELEASE})
        return owed

    def due(self, now_ms: int) -> dict[int, int]:
        now = {n: kind for n, (kind, due_ms) in self.held.items() if due_ms <= now_ms}
        self.ready |= {n for n, kind in now.items() if kind == RENEW}
        self.held = {n: one for n, one in self.held.items() if n not in now}
        return {n: kind for n, kind in now.items() if kind == RELEASE}

    def lost(self, offsets: set[int]) -> None:
        self.ready -= offsets
        self.unlocked |= offsets & self.batch
        self.held = {n: one for n, one in self.held.items() if n not in offsets}

    def confirmed(self, offsets: set[int]) -> None:
        self.done = {n: kind for n, kind in self.done.items() if n not in offsets}


@st.composite
def decisions(draw: st.DrawFn) -> list[Decision]:
    """Ascending, disjoint; a delay only where it may be."""
    found = []
    for first, last, _ in draw(disjoint()):
        kind = draw(st.sampled_from([ACCEPT, RELEASE, REJECT, RENEW]))
        delays = st.sampled_from([0, 10, 50]) if kind in (RELEASE, RENEW) else st.just(0)
        found.append(Decision(first, last, kind, draw(delays)))
    return found


steps = st.lists(
    st.one_of(
        st.tuples(st.just("acquired"), disjoint()),
        st.tuples(st.just("take"), st.integers(0, 30), st.integers(0, 90)),
        st.tuples(
            st.just("finished"),
            decisions(),
            st.sampled_from([ACCEPT, RELEASE]),
            st.sampled_from([0, 10, 20]),
        ),
        st.tuples(st.just("due")),
        st.tuples(st.just("take_back")),
        st.tuples(st.just("confirmed"), bounds),
        st.tuples(st.just("lost"), bounds),
    ),
    max_size=25,
)


def types(owed: Sequence[Done]) -> dict[int, int]:
    return {n: one.type for one in owed for n in range(one.first, one.last + 1)}


def step(ledger: Ledger, naive: NaiveLedger, now_ms: int, name: str, *given: Any) -> None:
    """One step in both; what they return must be the same."""
    if name == "acquired":
        again = naive.acquired(numbers(given[0]))
        assert types(ledger.acquired(P, given[0])) == again
    elif name == "take" and not naive.batch:
        limit, end = given
        assert ledger.ready_count({P: end}) == len({n for n in naive.ready if n < end})
        assert numbers(ledger.take(limit, {P: end}).get(P, ())) == naive.take(limit, end)
    elif name == "finished":
        said, default, pause_max_ms = given
        by_record = {n: (one.type, one.delay_ms) for one in said for n in numbers([one])}
        owed = ledger.finished({P: said}, default=default, now_ms=now_ms, pause_max_ms=pause_max_ms)
        expected = naive.finished(by_record, default, now_ms, pause_max_ms)
        assert types(owed.get(P, ())) == expected
    elif name == "due":
        assert types(ledger.due(now_ms).get(P, ())) == naive.due(now_ms)
    elif name == "take_back":
        ledger.take_back()
        naive.take_back()
    elif name == "confirmed":
        ledger.confirmed(P, given)
        naive.confirmed(numbers(given))
    elif name == "lost":
        ledger.lost(P, given)
        naive.lost(numbers(given))


@given(steps)
def test_it_agrees_with_one_entry_per_record(script: list[tuple]) -> None:
    ledger, naive = Ledger(), NaiveLedger()
    for now_ms, (name, *given_here) in enumerate(script):
        step(ledger, naive, now_ms * 7, name, *given_here)
        ledger.check_invariants()
        assert numbers(ledger.ready().get(P, ())) == naive.ready
        assert numbers(ledger.held().get(P, ())) == set(naive.held)
        assert numbers(ledger.spare().get(P, ())) == naive.ready | set(naive.held)
        assert types(ledger.done().get(P, ())) == naive.done
        locked = naive.ready | set(naive.held) | (naive.batch - naive.unlocked)
        assert numbers(ledger.locked().get(P, ())) == locked
        assert ledger.next_due_ms() == min((due for _, due in naive.held.values()), default=None)
        seen = ledger.statistics()
        assert (seen.ready, seen.in_batch) == (len(naive.ready), len(naive.batch))
        assert (seen.held, seen.unconfirmed) == (len(naive.held), len(naive.done))


def test_a_record_whose_acknowledgement_was_lost_is_not_processed_again() -> None:
    ledger = Ledger()
    ledger.acquired(P, [Acquired(0, 9, 1)])
    ledger.take(100, None)
    assert ledger.finished() == {P: [Done(0, 9, 1)]}  # sent, but the connection broke
    assert ledger.acquired(P, [Acquired(5, 14, 2)]) == [Done(5, 9, 1)]
    assert ledger.take(100, None) == {P: (Acquired(10, 14, 2),)}
    ledger.confirmed(P, [(5, 9)])
    ledger.passed(P, 0)  # the group has finished none: its first record is not confirmed
    assert ledger.done() == {P: (Done(0, 4, 1),)}
    ledger.passed(P, 5)
    assert ledger.done() == {}


def test_a_fresh_process_takes_over_from_the_offset() -> None:
    offset = BatchOffset(sequence=4, ranges={P: (Acquired(3, 5, 2),)}, done={P: (Done(0, 1, 3),)})
    ledger = Ledger()
    ledger.adopt(offset)
    assert ledger.acquired(P, [Acquired(0, 7, 3)]) == [Done(0, 1, 3)]
    assert numbers(ledger.ready()[P]) == {2, 6, 7}
    assert ledger.finished() == {P: [Done(3, 5, 1)]}


def test_a_batch_takes_evenly_from_all_partitions() -> None:
    ledger = Ledger()
    parts = [TopicIdPartition(UUID(int=1), number) for number in range(4)]
    for part, count in zip(parts, (100, 1, 100, 20), strict=True):
        ledger.acquired(part, [Acquired(0, count - 1, 1)])
    sizes = {part: size(ranges) for part, ranges in ledger.take(110, None).items()}
    assert sizes == {parts[0]: 45, parts[1]: 1, parts[2]: 44, parts[3]: 20}


def test_a_run_leaves_the_records_of_partitions_that_were_empty_at_its_start() -> None:
    ledger = Ledger()
    other = TopicIdPartition(UUID(int=1), 1)
    ledger.acquired(P, [Acquired(0, 9, 1)])
    ledger.acquired(other, [Acquired(0, 4, 1)])
    assert ledger.ready_count({P: 5}) == 5
    assert ledger.take(100, {P: 5}) == {P: (Acquired(0, 4, 1),)}
    assert ledger.ready() == {P: [(5, 9)], other: [(0, 4)]}


def test_types_that_were_not_confirmed_survive_a_crash_in_the_offset() -> None:
    ledger = Ledger()
    ledger.acquired(P, [Acquired(0, 9, 1)])
    ledger.take(100, None)
    said = {P: [Decision(0, 3, REJECT), Decision(4, 5, RELEASE), Decision(6, 9, ACCEPT)]}
    assert ledger.finished(said)[P] == [Done(0, 3, REJECT), Done(4, 5, RELEASE), Done(6, 9, ACCEPT)]
    restarted = Ledger()
    restarted.adopt(BatchOffset(sequence=2, done=ledger.done()))
    again = restarted.acquired(P, [Acquired(0, 9, 2)])
    assert again == [Done(0, 3, REJECT), Done(6, 9, ACCEPT)]
    assert restarted.take(100, None) == {P: (Acquired(4, 5, 2),)}


def test_it_counts_decided_and_undecided_records() -> None:
    ledger = Ledger()
    ledger.acquired(P, [Acquired(0, 9, 1)])
    ledger.take(100, None)
    said = [Decision(0, 1, REJECT), Decision(2, 4, RENEW, 9), Decision(8, 30, RELEASE)]
    ledger.finished({P: said}, default=ACCEPT)
    seen = ledger.statistics()
    assert (seen.accepted, seen.rejected, seen.released) == (3, 2, 2)
    assert (seen.undecided, seen.unmatched, seen.held) == (3, 21, 3)


def test_a_batch_of_scattered_records_is_bounded_by_its_ranges() -> None:
    ledger = Ledger()
    for number in range(2):
        ranges = [Acquired(n, n, 1) for n in range(0, 2 * RANGES_MAX, 2)]
        ledger.acquired(TopicIdPartition(UUID(int=1), number), ranges)
    taken = ledger.take(10 * RANGES_MAX, None)
    assert sum(map(len, taken.values())) == RANGES_MAX
    assert ledger.ready_count(None) == RANGES_MAX
    ledger.check_invariants()
