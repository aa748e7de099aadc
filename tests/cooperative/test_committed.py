"""Ranges of individual commits, beside a set of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.cooperative.committed import CommittedRanges, Committing
from sharegroup.cooperative.intervals import Interval

RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda at: (at[0], at[0] + at[1])),
    max_size=6,
)


def test_the_draft_s_example() -> None:
    """Its stable 42 is our 43: the last that is committed, and the first that is not."""
    committed = CommittedRanges(43, [(45, 47), (50, 50)])
    assert committed.commit([(48, 49)]) == Committing(None, ((45, 47), (50, 50)), ((45, 50),), 0)
    committed = CommittedRanges(43, [(45, 47)])
    assert committed.commit([(43, 44)]) == Committing(48, ((45, 47),), (), 0)
    assert (committed.stable, committed.ranges) == (48, ())


def test_gap_amending() -> None:
    committed = CommittedRanges(41, [(43, 45), (48, 49)])
    assert committed.uncommitted(41, 50) == ((41, 42), (46, 47), (50, 50))
    assert committed.uncommitted(0, 42) == ((41, 42),)
    assert committed.uncommitted(43, 45) == ()
    assert committed.uncommitted(44, 46) == ((46, 46),)


def test_what_is_committed_again_is_counted() -> None:
    committed = CommittedRanges(10, [(20, 29)])
    assert committed.commit([(5, 12), (25, 34)]) == Committing(13, ((20, 29),), ((20, 34),), 10)
    assert committed.commit([(21, 22), (0, 3)]) == Committing(None, (), (), 6)


def test_a_plain_commit_takes_the_ranges_away() -> None:
    committed = CommittedRanges(10, [(20, 29), (40, 49)])
    assert committed.reset(25) == Committing(25, ((20, 29), (40, 49)), (), 0)
    assert (committed.stable, committed.ranges) == (25, ())


@given(st.integers(0, 20), st.lists(RANGES, max_size=12))
def test_beside_a_set(stable: int, commits: list[list[Interval]]) -> None:
    """The records on disk, replayed, are the ranges in memory as well."""
    committed = CommittedRanges(stable)
    done = set(range(stable))
    disk: set[Interval] = set()
    on_disk = stable
    for ranges in commits:
        new = {offset for first, last in ranges for offset in range(first, last + 1)}
        growth = committed.growth(ranges)
        count = len(committed)
        result = committed.commit(ranges)
        committed.check_invariants()
        assert len(committed) - count == growth
        assert result.duplicates == len(new & done)
        done |= new
        assert disk.issuperset(result.deleted)
        assert disk.isdisjoint(result.written)
        disk = disk.difference(result.deleted).union(result.written)
        on_disk = on_disk if result.stable is None else result.stable
        assert committed.stable == min(set(range(200)) - done)
        behind = {offset for first, last in committed.ranges for offset in range(first, last + 1)}
        assert behind == {offset for offset in done if offset > committed.stable}
        assert disk == set(committed.ranges)
        assert on_disk == committed.stable
        again = CommittedRanges(on_disk, disk)
        assert (again.stable, again.ranges) == (committed.stable, committed.ranges)
        left = [n for first, last in committed.uncommitted(7, 55) for n in range(first, last + 1)]
        assert left == [n for n in range(7, 56) if n not in done]
