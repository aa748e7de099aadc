"""No stretch of time sees more records than the limit and one bucket; what may go out, goes out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.share.rate import BURST_MS, Rate, RateLimit

LIMITS = st.builds(RateLimit, st.integers(1, 3_000), st.sampled_from([1, 7, 1_000, 60_000]))


def test_one_at_a_time_evenly() -> None:
    """600 a minute are one each 100 ms."""
    rate = Rate(RateLimit(600, 60_000), 0)
    assert rate.reserve(9, 0) == 1
    assert rate.reserve(9, 99) == 0
    assert rate.full_ms(99) == 100
    assert rate.reserve(9, 100) == 1
    assert rate.reserve(9, 60_000) == 1, "nothing is saved up"


def test_what_was_not_used_comes_back() -> None:
    rate = Rate(RateLimit(1_000, 1_000), 0)
    assert rate.reserve(500, 0) == BURST_MS
    assert rate.room(0) == 0
    rate.give_back(40)
    assert rate.reserve(500, 0) == 40


def test_a_changed_limit_holds_at_once() -> None:
    rate = Rate(RateLimit(1_000, 1_000), 0)
    assert rate.reserve(60, 0) == 60
    rate.change(RateLimit(100, 1_000), 0)
    assert rate.room(0) == 10, "no more than the new bucket holds"
    rate.change(RateLimit(1_000, 1_000), 0)
    assert rate.room(0) == 10
    assert rate.room(20) == 30


@given(
    LIMITS,
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 500), st.integers(0, 9)), max_size=40),
)
def test_no_stretch_of_time_sees_more(limit: RateLimit, steps: list[tuple[int, int, int]]) -> None:
    """The naive model: all that was given, with its time."""
    rate, now_ms = Rate(limit, 0), 0
    given_at: list[tuple[int, int]] = []
    bucket = max(1, limit.records * BURST_MS / limit.interval_ms)
    for pause_ms, wanted, unused in steps:
        now_ms += pause_ms
        granted = rate.reserve(wanted, now_ms)
        back = min(unused, granted)
        rate.give_back(back)
        rate.check_invariants()
        given_at.append((now_ms, granted - back))
        for since, (begin_ms, _) in enumerate(given_at):
            total = sum(records for _, records in given_at[since:])
            assert total <= bucket + limit.records * (now_ms - begin_ms) / limit.interval_ms + 1e-6


@given(LIMITS, st.integers(1, 500), st.integers(0, 1_000))
def test_the_bucket_is_full_when_it_says_so(limit: RateLimit, wanted: int, now_ms: int) -> None:
    rate = Rate(limit, 0)
    full = rate.room(0)
    rate.reserve(wanted, now_ms)
    at_ms = rate.full_ms(now_ms)
    assert rate.room(at_ms) == full
    if at_ms > now_ms:
        early = Rate(limit, 0)
        early.reserve(wanted, now_ms)
        early.room(at_ms - 1)
        assert early.full_ms(at_ms - 1) == at_ms


@given(LIMITS)
def test_a_group_that_always_asks_gets_all_of_its_limit(limit: RateLimit) -> None:
    """Over a minute, from bucket to bucket."""
    rate, now_ms, got = Rate(limit, 0), 0, 0
    while now_ms < 60_000 and got < 2_000:
        got += rate.reserve(10**6, now_ms)
        now_ms = max(now_ms + 1, rate.full_ms(now_ms))
    assert got >= limit.records * (now_ms - BURST_MS) / limit.interval_ms - 1 - now_ms / 50
