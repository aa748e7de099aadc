"""The buckets of tokens, beside a model that fills them millisecond by millisecond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.config import INT_MAX
from sharegroup.model.limits import QUOTA_CLIENTS_MAX
from sharegroup.quotas.entity import CLIENT_ID, USER
from sharegroup.quotas.mutation_rates import MutationRates
from sharegroup.quotas.rate import RateWindow

WINDOW = RateWindow(11, 1_000)
ANY_CLIENT = ((CLIENT_ID, None),)


def rates(per_s: float) -> MutationRates:
    made = MutationRates(WINDOW)
    made.set_quotas({ANY_CLIENT: per_s})
    return made


@given(
    per_s=st.integers(1, 20),
    steps=st.lists(
        st.tuples(st.integers(0, 3_000), st.integers(0, 60), st.booleans()), max_size=40
    ),
)
def test_a_bucket_fills_at_the_rate(per_s: int, steps: list[tuple[int, int, bool]]) -> None:
    made = rates(per_s)
    milli = 11 * per_s * 1_000  # thousandths of a token
    now_ms = 0
    for passed_ms, count, strict in steps:
        now_ms += passed_ms
        for _ in range(passed_ms):
            milli = min(11 * per_s * 1_000, milli + per_s)
        refused = strict and milli < 0
        if not refused:
            milli -= count * 1_000
        waits = milli < 0 and (refused or not strict)
        wait_ms = made.take("u", "c", count, now_ms, strict=strict)
        assert wait_ms == (pytest.approx(-milli / per_s, abs=1.1) if waits else 0)
        made.check_invariants()
    made.forget_idle(now_ms + 10_000_000)
    assert len(made) == 0


def test_a_debt_is_not_forgotten() -> None:
    made = rates(1)
    assert made.take("u", "c", 1_011, 0, strict=True) == 0, "the last taking may be of more"
    assert made.take("u", "c", 1, 0, strict=True) == 1_000_000
    made.forget_idle(60_000)
    assert made.take("u", "c", 1, 60_000, strict=True) == 940_000
    assert made.take("u", "d", 1, 60_000, strict=True) == 0, "another client"


def test_the_limit_of_clients() -> None:
    made = rates(1)
    for number in range(QUOTA_CLIENTS_MAX):
        assert made.take("u", f"c{number}", 1, 0, strict=True) == 0
    assert made.take("u", "x1", 12, 0, strict=True) == 0
    assert made.take("u", "x2", 1, 0, strict=True) == 1_000
    assert len(made) == QUOTA_CLIENTS_MAX


def test_odd_numbers() -> None:
    made = rates(1e-300)
    assert made.take("u", "c", 1, 0, strict=False) == INT_MAX
    made.set_quotas({((USER, "v"),): 1.0})
    assert made.active
    assert made.take("u", "c", 1_000, 0, strict=True) == 0, "no quota applies"
    assert len(made) == 0
