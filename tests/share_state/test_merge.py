from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.share_state import StateBatch
from sharegroup.share_state.merge import merged

BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 4),
    ),
    max_size=15,
)


def naive(batches: list[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    """Offset → (count, state) of the winner."""
    winners: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(max(first, start), last + 1):
            winners[offset] = max(winners.get(offset, (0, 0)), (count, state))
    return winners


def test_the_higher_count_wins_then_the_higher_state() -> None:
    assert merged([StateBatch(0, 9, 4, 1), StateBatch(3, 5, 0, 2)], 0) == [
        StateBatch(0, 2, 4, 1),
        StateBatch(3, 5, 0, 2),
        StateBatch(6, 9, 4, 1),
    ]
    assert merged([StateBatch(0, 9, 2, 1), StateBatch(3, 9, 0, 1)], 0) == [StateBatch(0, 9, 2, 1)]


def test_equal_neighbours_join_and_the_start_clips() -> None:
    batches = [StateBatch(0, 4, 2, 1), StateBatch(5, 9, 2, 1), StateBatch(11, 12, 2, 1)]
    assert merged(batches, 3) == [StateBatch(3, 9, 2, 1), StateBatch(11, 12, 2, 1)]
    assert merged(batches, 13) == []


@given(BATCHES, st.integers(-1, 20))
def test_agrees_with_one_entry_per_offset(batches: list[StateBatch], start: int) -> None:
    result = merged(batches, start)
    assert naive(result, start) == naive(batches, start)
    for before, after in pairwise(result):
        assert before.last < after.first
        assert before.last + 1 < after.first or before[2:] != after[2:]


@given(BATCHES, BATCHES, st.integers(-1, 20))
def test_merging_can_wait(old: list[StateBatch], new: list[StateBatch], start: int) -> None:
    assert merged(merged(old, -1) + new, start) == merged([*new, *old], start)


def test_many_overlapping_batches_are_cheap() -> None:
    count = 20_000
    nested = [StateBatch(i, 2 * count - i, 0, 1 + i % 5) for i in range(count)]
    assert merged(nested, 0)[0] == StateBatch(0, 0, 0, 1)
