"""The driver's book, against one entry per record, and the story of a lost acknowledgement."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.ledger import Ledger
from sharegroup.spark.offsets import Acquired, BatchOffset, Done
from sharegroup.spark.ranges import size
from tests.spark.test_ranges import bounds, disjoint, numbers

P = TopicIdPartition(UUID(int=1), 0)


class NaiveLedger:
    """The same promise with a set of offsets per place."""

    def __init__(self) -> None:
        self.ready: set[int] = set()
        self.batch: set[int] = set()
        self.done: set[int] = set()

    def acquired(self, offsets: set[int]) -> set[int]:
        again = offsets & self.done
        self.ready |= offsets - self.done - self.batch
        return again

    def take(self, limit: int, end: int) -> set[int]:
        self.batch = set(sorted(n for n in self.ready if n < end)[:limit])
        self.ready -= self.batch
        return self.batch

    def finished(self) -> None:
        self.done |= self.batch
        self.batch = set()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("acquired"), disjoint()),
        st.tuples(st.just("take"), st.integers(0, 30), st.integers(0, 90)),
        st.tuples(st.just("finished")),
        st.tuples(st.just("take_back")),
        st.tuples(st.just("confirmed"), bounds),
        st.tuples(st.just("lost"), bounds),
    ),
    max_size=25,
)


@given(steps)
def test_it_does_what_one_entry_per_record_would_do(script: list[tuple]) -> None:
    ledger, naive = Ledger(), NaiveLedger()
    lost: set[int] = set()
    for name, *arguments in script:
        if name == "acquired":
            offsets = numbers(arguments[0])
            assert numbers(ledger.acquired(P, arguments[0])) == naive.acquired(offsets)
            lost -= offsets
        elif name == "take" and not naive.batch:
            limit, end = arguments
            assert ledger.ready_count({P: end}) == len({n for n in naive.ready if n < end})
            taken = ledger.take(limit, {P: end})
            assert numbers(taken.get(P, ())) == naive.take(limit, end)
            lost = set()
        elif name == "finished":
            assert numbers(ledger.finished().get(P, ())) == naive.batch
            naive.finished()
        elif name == "take_back":
            ledger.take_back()
            naive.ready |= naive.batch - lost
            naive.batch = set()
        elif name == "confirmed":
            ledger.confirmed(P, arguments)
            naive.done -= numbers(arguments)
        elif name == "lost":
            ledger.lost(P, arguments)
            naive.ready -= numbers(arguments)
            lost |= numbers(arguments) & naive.batch
        ledger.check_invariants()
        assert numbers(ledger.ready().get(P, ())) == naive.ready
        assert numbers(ledger.done().get(P, ())) == naive.done
        assert numbers(ledger.locked().get(P, ())) == naive.ready | (naive.batch - lost)
        seen = ledger.statistics()
        assert (seen.ready, seen.in_batch) == (len(naive.ready), len(naive.batch))
        assert seen.unconfirmed == len(naive.done)


def test_a_record_whose_acknowledgement_was_lost_is_not_processed_again() -> None:
    ledger = Ledger()
    ledger.acquired(P, [Acquired(0, 9, 1)])
    ledger.take(100, None)
    assert ledger.finished() == {P: [Done(0, 9, 1)]}  # sent, but the connection broke
    assert ledger.acquired(P, [Acquired(5, 14, 2)]) == [Done(5, 9, 1)]
    assert ledger.take(100, None) == {P: (Acquired(10, 14, 2),)}
    ledger.confirmed(P, [(5, 9)])
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
