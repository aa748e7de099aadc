"""Connections of one address and of all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.config import INT_MAX
from sharegroup.model.limits import QUOTA_CLIENTS_MAX
from sharegroup.quotas.connection_rates import (
    AT_ONCE,
    ConnectionAdmission,
    ConnectionRates,
    canonical,
)
from sharegroup.quotas.entity import IP
from sharegroup.quotas.rate import RateWindow

WINDOW = RateWindow(11, 1_000)


def rates(**quotas: float) -> ConnectionRates:
    made = ConnectionRates(WINDOW)
    made.set_quotas(
        {((IP, None if host == "any" else host),): value for host, value in quotas.items()}
    )
    return made


def test_an_address_over_its_quota_is_refused_after_the_throttle_time_and_does_not_count() -> None:
    made = rates(any=2.0)
    for _ in range(20):
        assert made.admit("127.0.0.1", INT_MAX, 0) == AT_ONCE
    for _ in range(100):
        assert made.admit("127.0.0.1", INT_MAX, 0) == ConnectionAdmission(500, refused=True)
    assert made.admit("127.0.0.2", INT_MAX, 0) == AT_ONCE, "another address"
    assert made.admit("127.0.0.1", INT_MAX, 500) == AT_ONCE
    made.check_invariants()


def test_an_address_has_its_own_quota_however_it_is_written() -> None:
    made = ConnectionRates(WINDOW)
    made.set_quotas({((IP, "::ffff:10.0.0.1"),): 100.0, ((IP, None),): 0.05})
    assert [made.admit("10.0.0.1", INT_MAX, 0).refused for _ in range(5)] == [False] * 5
    assert made.admit("10.0.0.2", INT_MAX, 0).refused
    made.set_quotas({})
    assert not made.active
    assert len(made) == 0


def test_connections_over_the_rate_of_the_broker_begin_one_after_the_other() -> None:
    made = rates()
    waits = [made.admit("h", 10, 0).wait_ms for _ in range(1_100)]
    assert waits[:100] == [0] * 100, "a burst may use the window"
    assert waits[100:102] == [100, 200]
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(100_000, rel=0.15)
    assert not any(made.admit("h", 10, 0).refused for _ in range(5))
    made.check_invariants()


@given(st.lists(st.tuples(st.integers(0, 2_000), st.sampled_from("abc")), max_size=100))
def test_the_wait_of_a_connection_is_never_shorter_than_that_of_one_before(
    steps: list[tuple[int, str]],
) -> None:
    made, now_ms, begin_ms = rates(any=3.0), 0, 0
    begun: list[int] = []
    for passed_ms, host in steps:
        now_ms += passed_ms
        admission = made.admit(host, 2, now_ms)
        made.check_invariants()
        if not admission.refused:
            assert now_ms + admission.wait_ms >= begin_ms
            begin_ms = now_ms + admission.wait_ms
            begun.append(begin_ms)
    for at in begun:
        assert sum(at <= other < at + 10_000 for other in begun) <= 2 * 11 + 1


def test_addresses_beyond_the_limit_share_a_rate() -> None:
    made = rates(any=0.1)
    for number in range(QUOTA_CLIENTS_MAX):
        assert made.admit(f"10.0.{number // 256}.{number % 256}", INT_MAX, 0) == AT_ONCE
    assert made.admit("10.9.0.1", INT_MAX, 0) == AT_ONCE
    assert made.admit("10.9.0.2", INT_MAX, 0).refused
    assert len(made) == QUOTA_CLIENTS_MAX
    made.check_invariants()
    assert made.admit("10.9.0.3", INT_MAX, WINDOW.whole_ms) == AT_ONCE
    assert len(made) == 1


def test_addresses() -> None:
    assert canonical("::FFFF:127.0.0.1") == "127.0.0.1"
    assert canonical("fe80::1%eth0") == "fe80::1"
    assert canonical("example.org") is None
    assert canonical("") is None
