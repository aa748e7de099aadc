"""The rate over samples, beside one that keeps every event."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.config import INT_MAX
from sharegroup.quotas.rate import Rate, RateWindow

TEN_SECONDS = RateWindow(11, 1_000)


class NaiveRate:
    """Finds the samples anew from all events, at each question."""

    def __init__(self) -> None:
        self.events: list[tuple[int, float]] = []

    def samples(self, window: RateWindow, now_ms: int) -> list[tuple[int, int, float]]:
        """(start, last event, amount) of those that count."""
        found: list[tuple[int, int, float]] = []
        for at_ms, amount in self.events:
            if found and at_ms - found[-1][0] < window.sample_ms:
                start_ms, _, before = found[-1]
                found[-1] = (start_ms, at_ms, before + amount)
            else:
                found.append((at_ms, at_ms, amount))
        return [each for each in found if now_ms - each[1] < window.samples * window.sample_ms]

    def per_second(self, window: RateWindow, now_ms: int) -> float:
        counted = self.samples(window, now_ms)
        elapsed_ms = now_ms - counted[0][0] if counted else 0
        while elapsed_ms // window.sample_ms < window.samples - 1:
            elapsed_ms += window.sample_ms
        return sum(each[2] for each in counted) * 1000 / max(elapsed_ms, 1)


WINDOWS = st.builds(RateWindow, st.integers(1, 12), st.integers(1, 2_000))
STEPS = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 1_000)), max_size=60)


@given(window=WINDOWS, steps=STEPS, quota=st.floats(0.01, 10_000))
def test_it_is_what_all_events_say(
    window: RateWindow, steps: list[tuple[int, int]], quota: float
) -> None:
    rate, naive, now_ms = Rate(), NaiveRate(), 0
    for passed_ms, amount in steps:
        now_ms += passed_ms
        rate.record(amount, window, now_ms)
        naive.events.append((now_ms, amount))
        rate.check_invariants(window)
        observed = rate.amount(window, now_ms) * 1000 / rate.window_ms(window, now_ms)
        assert observed == pytest.approx(naive.per_second(window, now_ms))
        left = rate.left(quota, window, now_ms)
        throttle_ms = rate.throttle_ms(quota, window, now_ms)
        if abs(left) > 1e-6:
            assert (throttle_ms > 0) <= (left < 0)
        extra_ms = rate.throttle_ms(quota, window, now_ms, extra=max(left, 0) + quota)
        assert extra_ms == pytest.approx(1_000 + max(throttle_ms, 0), abs=1)


def test_a_first_burst_may_use_the_window_and_what_is_more_is_waited_for() -> None:
    rate = Rate()
    rate.record(1_000, TEN_SECONDS, 5)
    assert rate.throttle_ms(100, TEN_SECONDS, 5) == 0
    rate.record(1, TEN_SECONDS, 5)
    assert rate.throttle_ms(100, TEN_SECONDS, 5) == 10
    rate.record(999, TEN_SECONDS, 5)
    assert rate.throttle_ms(100, TEN_SECONDS, 5) == 10_000


def test_after_the_window_nothing_is_left() -> None:
    rate = Rate()
    rate.record(5_000, TEN_SECONDS, 0)
    assert rate.throttle_ms(100, TEN_SECONDS, 10_999) > 0
    assert rate.throttle_ms(100, TEN_SECONDS, 11_000) == 0
    assert rate.is_idle(TEN_SECONDS, 11_000)


def test_the_longest_throttle_fits_into_the_answer() -> None:
    rate = Rate()
    rate.record(1e300, TEN_SECONDS, 0)
    assert rate.throttle_ms(1e-300, TEN_SECONDS, 0) == INT_MAX


@given(
    amounts=st.lists(st.integers(1, 5_000), min_size=1, max_size=200),
    quota=st.integers(10, 1_000),
)
def test_a_client_that_waits_as_told_keeps_to_its_quota(amounts: list[int], quota: int) -> None:
    rate, now_ms, total = Rate(), 0, 0
    for amount in amounts:
        rate.record(amount, TEN_SECONDS, now_ms)
        total += amount
        now_ms += rate.throttle_ms(quota, TEN_SECONDS, now_ms)
    burst = 11 * quota
    # What is older than the window is forgotten, and with it the fraction of a sample each time.
    assert total <= burst + quota * now_ms / 1000 * 1.15 + max(amounts)
