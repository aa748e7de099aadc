"""Pauses between attempts: growth, jitter, deadline, and pauses by key."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client import Backoff
from sharegroup.client.core.retry import JITTER, Pauses, PausesByKey, RetryPolicy

POLICY = RetryPolicy(100, 1_000)


def middle() -> float:
    """The draw that leaves a pause as it is."""
    return 0.5


def test_pauses_double_up_to_the_longest_and_a_success_begins_anew() -> None:
    pauses = Pauses(POLICY, middle)
    assert [pauses.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1_000, 1_000]
    assert pauses.failures == 6
    pauses.reset()
    assert pauses.next_ms() == 100


def test_there_is_no_pause_beyond_the_deadline() -> None:
    pauses = Pauses(POLICY, middle)
    assert pauses.next_within(now_ms=0, deadline_ms=100) == 100
    assert pauses.next_within(now_ms=100, deadline_ms=299) is None
    assert pauses.next_within(now_ms=100, deadline_ms=500) == 400


def test_each_key_has_its_own_pauses() -> None:
    pauses = PausesByKey[str](lambda: Pauses(POLICY, middle))
    assert not pauses
    assert [pauses.next_ms("a"), pauses.next_ms("a"), pauses.next_ms("b")] == [100, 200, 100]
    assert pauses.reset("a")
    assert not pauses.reset("a")
    assert pauses, "b still fails"
    assert pauses.next_ms("a") == 100


@given(
    first_ms=st.integers(0, 10_000),
    max_ms=st.integers(0, 10_000),
    failures=st.integers(1, 10**6),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_jitter_keeps_its_bounds(first_ms: int, max_ms: int, failures: int, draw: float) -> None:
    policy = RetryPolicy(first_ms, max_ms)
    plain = min(max_ms, first_ms * 2 ** min(failures - 1, 60))
    pause_ms = policy.pause_ms(failures, draw)
    assert plain * (1 - JITTER) <= pause_ms <= plain * (1 + JITTER) * (1 + 1e-12)


def test_a_draw_is_used_as_random_uniform_uses_it() -> None:
    chance, other = random.Random(7), random.Random(7)
    pauses = [POLICY.pause_ms(3, chance.random()) for _ in range(100)]
    assert pauses == [400 * other.uniform(0.8, 1.2) for _ in range(100)]


def test_a_workers_backoff_grows_by_the_same_policy() -> None:
    backoff = Backoff(first_s=1, factor=3, max_s=20, jitter=0)
    pauses = [backoff.pause_s(count, random.Random(1)) for count in (0, 1, 2, 3, 4, 10**6)]
    assert pauses == pytest.approx([1, 1, 3, 9, 20, 20])
    assert all(one <= two for one, two in pairwise(pauses))
