"""Rates from growing counts."""

from __future__ import annotations

from sharegroup.console.rates import POINTS_MAX, STEP_S, Counts, Rates


def test_rates_are_differences_over_time() -> None:
    rates = Rates()
    assert rates.written() == []
    for at_s, written, finished in [(0.0, 100, 0), (2.0, 120, 10), (3.0, 120, 40)]:
        rates.add(Counts(at_s, written, finished))
    assert rates.written() == [10.0, 0.0]
    assert rates.finished() == [5.0, 30.0]
    assert (rates.written(1), rates.finished(1)) == ([0.0], [30.0])
    assert (rates.lags(), rates.ages_s()) == ([110, 80], [1.0, 0.0])


def test_two_looks_at_one_moment_are_one() -> None:
    rates = Rates()
    rates.add(Counts(1.0, 0, 0))
    rates.add(Counts(1.0 + STEP_S / 2, 50, 0))
    assert rates.written() == []
    rates.add(Counts(1.0 + STEP_S, 50, 0))
    assert rates.written() == [50 / STEP_S]


def test_counts_that_go_back_begin_anew() -> None:
    """The topic was made anew, or the group was reset to an earlier offset."""
    rates = Rates()
    for at_s, written, finished in [(0.0, 100, 90), (1.0, 110, 100), (2.0, 5, 0), (3.0, 7, 1)]:
        rates.add(Counts(at_s, written, finished))
    assert (rates.written(), rates.finished()) == ([2.0], [1.0])


def test_only_the_last_points_are_kept() -> None:
    rates = Rates()
    for number in range(3 * POINTS_MAX):
        rates.add(Counts(float(number), number, number))
    assert rates.written() == [1.0] * POINTS_MAX


def test_what_stands_still_has_no_rate() -> None:
    rates = Rates()
    for at_s in range(5):
        rates.add(Counts(float(at_s), 70, 20, 3))
    assert rates.written() == rates.finished() == rates.redelivered() == [0.0] * 4
    assert Rates().written() == []


def test_deliveries_that_begin_anew_are_no_negative_rate() -> None:
    rates = Rates()
    for at_s, again in enumerate((5, 9, 0, 5)):
        rates.add(Counts(float(at_s), 70, 20, again))
    assert rates.redelivered() == [4.0, 0.0, 5.0]
