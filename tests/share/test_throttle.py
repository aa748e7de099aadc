from __future__ import annotations

import pytest

from sharegroup.share.throttle import portion


@pytest.mark.parametrize(
    ("limit", "threshold"), [(1, 2), (2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (10, 5)]
)
def test_counts_below_half_the_limit_are_free(limit: int, threshold: int) -> None:
    assert portion(500, threshold - 1, limit) is None
    assert portion(500, threshold, limit) is not None


@pytest.mark.parametrize(
    ("limit", "portions"), [(10, [250, 125, 62, 31, 1]), (5, [250, 1]), (3, [1])]
)
def test_the_portions_of_a_poisoned_run_of_500(limit: int, portions: list[int]) -> None:
    size, seen = 500, []
    for count in range(max(2, -(-limit // 2)), limit):
        size = portion(size, count, limit) or 0
        seen.append(size)
    assert seen == portions


def test_under_limit_two_nothing_is_the_last_attempt_alone() -> None:
    assert portion(8, 1, 2) is None
    assert portion(8, 2, 2) == 4


def test_a_count_above_a_lowered_limit_goes_alone() -> None:
    assert portion(8, 9, 3) == 1


def test_one_record_is_the_smallest_portion() -> None:
    assert portion(1, 5, 10) == 1
