"""Rates from growing counts."""

from __future__ import annotations

from sharegroup.console.rates import POINTS_MAX, STEP_S, Counts, Rates
from sharegroup.model.ids import TopicPartition


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


def looks(*counts: tuple[int, int, int]) -> Rates:
    """One a second, of what is written, finished at least, and how many more may be finished."""
    rates = Rates()
    for at_s, (written, finished, loose) in enumerate(counts):
        rates.add(Counts(float(at_s), written, finished, loose=loose))
    return rates


def test_what_comes_in_the_middle_of_a_look_does_not_count_as_finished() -> None:
    rates = looks((100, 46, 4), (300, 43, 9), (500, 49, 1), (700, 50, 0), (900, 40, 20))
    assert rates.finished() == [0.0] * 4
    assert rates.written() == [200.0] * 4


def test_what_is_surely_finished_counts() -> None:
    """50 at most; then 54, 55 and 60 at least."""
    rates = looks((100, 46, 4), (300, 54, 4), (500, 55, 9), (700, 60, 1))
    assert rates.finished() == [8.0, 0.0, 6.0]


def test_lags_are_those_that_were_told() -> None:
    """Also where it is not sure how many were finished."""
    assert looks((100, 100, 0), (300, 280, 20), (300, 300, 0)).lags() == [0, 0]


def test_the_narrowest_look_says_how_many_were_finished_at_most() -> None:
    assert looks((100, 40, 20), (300, 41, 3), (500, 45, 20)).finished() == [0.0, 5.0]


def test_an_answer_about_the_group_that_is_older_keeps_the_history() -> None:
    """As in front of a cluster, where the broker hears of new records a little later."""
    assert looks((100, 50, 0), (300, 70, 0), (500, 60, 0)).finished() == [20.0, 0.0]
    assert looks((100, 50, 0), (300, 700, 0), (500, 60, 0)).finished() == []


def test_other_partitions_begin_anew() -> None:
    rates = Rates()
    one, other = TopicPartition("a", 0), TopicPartition("b", 0)
    rates.add(Counts(0.0, 10, 5, counted=frozenset({one})))
    rates.add(Counts(1.0, 12, 6, counted=frozenset({one})))
    rates.add(Counts(2.0, 27_212, 6, counted=frozenset({one, other})))
    assert rates.written() == []
    rates.add(Counts(3.0, 27_213, 8, counted=frozenset({other, one})))
    assert (rates.written(), rates.finished()) == ([1.0], [2.0])
