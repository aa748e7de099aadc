from __future__ import annotations

from itertools import combinations_with_replacement, pairwise, product

import pytest
from hypothesis import example, given, settings
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


@example([StateBatch(0, 12, 0, 1), StateBatch(1, 9, 0, 2), StateBatch(3, 5, 0, 3)], 0)
@example([StateBatch(0, 4, 0, 1), StateBatch(2, 9, 0, 2), StateBatch(3, 12, 0, 1)], 3)
@given(BATCHES, st.integers(-1, 20))
@settings(max_examples=400)
def test_agrees_with_one_entry_per_offset(batches: list[StateBatch], start: int) -> None:
    result = merged(batches, start)
    assert naive(result, start) == naive(batches, start)
    for before, after in pairwise(result):
        assert before[1] < after[0]
        assert before[1] + 1 < after[0] or before[2:] != after[2:]


def test_agrees_with_one_entry_per_offset_for_all_threes_of_small_batches() -> None:
    spans = combinations_with_replacement(range(4), 2)
    small = [StateBatch(*span, state, 1 + state) for span in spans for state in (0, 2)]
    for batches in product(small, repeat=3):
        expected = naive(list(batches), 0)
        pieces = [
            (offset, winner)
            for offset, winner in sorted(expected.items())
            if expected.get(offset - 1) != winner
        ]
        found = merged(batches, 0)
        assert naive(found, 0) == expected, batches
        assert [(first, (count, state)) for first, _, state, count in found] == pieces, batches


@given(BATCHES, BATCHES, st.integers(-1, 20))
def test_merging_can_wait(old: list[StateBatch], new: list[StateBatch], start: int) -> None:
    assert merged(merged(old, -1) + new, start) == merged([*new, *old], start)


STRESS = 50_000
SINGLES = [StateBatch(i, i, 0 if i % 2 else 2, 1) for i in range(STRESS)]


@pytest.mark.parametrize(
    ("batches", "pieces"),
    [
        pytest.param(SINGLES[::2] + SINGLES[1::2], STRESS, id="alternate"),
        pytest.param(SINGLES + SINGLES, STRESS, id="the same again"),
        pytest.param([StateBatch(0, STRESS, 0, 1), *SINGLES[::2]], STRESS, id="acks in one"),
        pytest.param([*SINGLES, StateBatch(0, STRESS, 0, 2)], 1, id="one over all"),
        pytest.param(
            [StateBatch(i, 2 * STRESS - i, 0, 1 + i % 5) for i in range(STRESS)], 9, id="nested"
        ),
    ],
)
def test_its_cost_grows_with_the_batches(batches: list[StateBatch], pieces: int) -> None:
    # Kafka's was quadratic (KAFKA-20691); one like it would not end before the test's timeout.
    assert len(merged(batches, 0)) == pieces


# What Kafka's PersisterStateBatchCombinerTest says, with its numbers; (first, last, state, count).
Quad = tuple[int, int, int, int]
A: Quad = (100, 110, 0, 1)
COMBINED: dict[str, list[tuple[list[Quad], list[Quad], list[Quad], int]]] = {
    "same state": [
        ([A], [A], [A], -1),
        ([A], [(100, 105, 0, 1)], [A], -1),
        ([A], [(100, 115, 0, 1)], [(100, 115, 0, 1)], -1),
        ([A], [(105, 108, 0, 1)], [A], -1),
        ([A], [(105, 110, 0, 1)], [A], -1),
        ([A], [(105, 115, 0, 1)], [(100, 115, 0, 1)], -1),
        ([A], [(111, 115, 0, 1)], [(100, 115, 0, 1)], -1),
    ],
    "different states": [
        ([A], [(100, 110, 0, 2)], [(100, 110, 0, 2)], -1),
        ([(100, 110, 0, 3)], [A], [(100, 110, 0, 3)], -1),
        ([A], [(100, 105, 0, 2)], [(100, 105, 0, 2), (106, 110, 0, 1)], -1),
        ([(100, 110, 0, 3)], [(100, 105, 0, 1)], [(100, 110, 0, 3)], -1),
        ([A], [(100, 115, 0, 2)], [(100, 115, 0, 2)], -1),
        ([(100, 110, 0, 3)], [(100, 115, 0, 1)], [(100, 110, 0, 3), (111, 115, 0, 1)], -1),
        (
            [(100, 115, 0, 1)],
            [(105, 110, 1, 1)],
            [(100, 104, 0, 1), (105, 110, 1, 1), (111, 115, 0, 1)],
            -1,
        ),
        ([(100, 115, 1, 1)], [(105, 110, 0, 1)], [(100, 115, 1, 1)], -1),
        ([A], [(105, 110, 0, 2)], [(100, 104, 0, 1), (105, 110, 0, 2)], -1),
        ([(100, 110, 0, 2)], [(105, 110, 0, 1)], [(100, 110, 0, 2)], -1),
        ([A], [(105, 115, 0, 2)], [(100, 104, 0, 1), (105, 115, 0, 2)], -1),
        ([(100, 110, 0, 2)], [(105, 115, 0, 1)], [(100, 110, 0, 2), (111, 115, 0, 1)], -1),
    ],
    "complex": [
        (
            [A, (121, 130, 0, 1)],
            [(111, 119, 2, 2), (116, 123, 2, 2)],
            [A, (111, 123, 2, 2), (124, 130, 0, 1)],
            -1,
        ),
        (
            [A],
            [(101, 105, 1, 2), (101, 115, 2, 2), (101, 120, 3, 2)],
            [(100, 100, 0, 1), (101, 120, 3, 2)],
            -1,
        ),
        (
            [A, (121, 130, 0, 1)],
            [(111, 119, 2, 2), (116, 123, 2, 2)],
            [(120, 123, 2, 2), (124, 130, 0, 1)],
            120,
        ),
        (
            [(111, 120, 0, 1)],
            [(111, 113, 0, 2), (114, 114, 2, 1), (115, 119, 0, 2)],
            [(111, 113, 0, 2), (114, 114, 2, 1), (115, 119, 0, 2), (120, 120, 0, 1)],
            -1,
        ),
    ],
    "corner": [
        ([(100, 130, 0, 1)], [], [(120, 130, 0, 1)], 120),
        ([], [(100, 130, 0, 1)], [(120, 130, 0, 1)], 120),
        ([], [], [], 120),
    ],
}


@pytest.mark.parametrize("family", COMBINED)
def test_batches_combine_as_apache_kafka_says(family: str) -> None:
    for old, new, expected, start in COMBINED[family]:
        batches = [StateBatch(*quad) for quad in (*old, *new)]
        assert merged(batches, start) == expected, (old, new)
