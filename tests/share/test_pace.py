"""How many records of one key go out at once follows what has failed."""

from __future__ import annotations

from random import Random

import pytest

from sharegroup.share.order.pace import UNBOUNDED, Pace


def test_without_failures_there_is_no_bound() -> None:
    pace = Pace()
    pace.answered(10_000, 0)
    assert pace.most == UNBOUNDED


@pytest.mark.parametrize(("every", "most"), [(2, 2), (100, 14), (10_000, 141)])
def test_regular_failures(every: int, most: int) -> None:
    pace = Pace()
    for _ in range(80):
        pace.answered(every, 1)
    assert pace.most == most


def test_several_failures_in_one_request_count_as_what_lay_between_them() -> None:
    pace = Pace()
    pace.answered(1_000, 10)
    assert pace.most == 14


def test_the_first_failure_says_little() -> None:
    pace = Pace()
    pace.answered(0, 1)
    assert pace.most == 12


def test_when_all_fail_one_goes_at_a_time_and_afterwards_it_widens_again() -> None:
    pace = Pace()
    pace.answered(5_000, 1)
    for _ in range(50):
        pace.answered(0, 100)
    assert pace.most == 1
    widths = []
    for _ in range(50):
        pace.answered(100, 0)
        widths.append(pace.most)
    assert widths == sorted(widths)
    assert widths[-1] == 100


def test_it_is_within_a_third_of_the_cheapest_width() -> None:
    """Each failure sends half a width again, and each fetch costs as much as a record."""
    random, every = Random(1), 400
    pace = Pace()
    costs: dict[int | str, float] = dict.fromkeys(["pace", *range(1, 200)], 0.0)
    for _ in range(2_000):
        apart = 1 + round(random.expovariate(1 / every))
        widths = {width: pace.most if width == "pace" else width for width in costs}
        for name, width in widths.items():
            assert isinstance(width, int)
            costs[name] += apart / min(width, 10_000) + min(width, 10_000) / 2
        pace.answered(apart, 1)
    cheapest = min(cost for width, cost in costs.items() if width != "pace")
    assert costs["pace"] - 5_000 < cheapest * 4 / 3
