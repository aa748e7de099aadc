"""Which quota applies, and what a client's rate says, beside models of a few lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.limits import QUOTA_CLIENT_ID_CHARACTERS, QUOTA_CLIENTS_MAX
from sharegroup.quotas.alteration import entity_of
from sharegroup.quotas.client_rates import ClientRates
from sharegroup.quotas.entity import CLIENT_ID, USER, Entity
from sharegroup.quotas.precedence import Precedence
from sharegroup.quotas.rate import Rate, RateWindow

WINDOW = RateWindow(11, 1_000)


def entity(**names: str | None) -> Entity:
    kinds = {"user": USER, "client": CLIENT_ID}
    return entity_of((kinds[kind], name) for kind, name in names.items())


ORDER = [
    entity(user="u", client="c"),
    entity(user="u", client=None),
    entity(user="u"),
    entity(user=None, client="c"),
    entity(user=None, client=None),
    entity(user=None),
    entity(client="c"),
    entity(client=None),
]


@given(st.sets(st.sampled_from(range(8))))
def test_the_most_specific_quota_applies(there: set[int]) -> None:
    noise = {entity(user="v"): 99.0, entity(client="d"): 99.0, entity(user="v", client="c"): 99.0}
    found = Precedence({ORDER[at]: float(at) for at in there} | noise).find("u", "c")
    if there:
        assert found is not None
        assert (found.entity, found.value) == (ORDER[min(there)], float(min(there)))
    else:
        assert found is None


def test_a_client_without_an_id_is_under_the_quota_of_any_id() -> None:
    assert Precedence({entity(client=None): 1.0}).find("u", "")
    assert not Precedence({entity(client="c"): 1.0}).find("u", "")
    assert not Precedence({})


NAMES = st.sampled_from(["a", "b", ""])
QUOTAS = st.dictionaries(
    st.sampled_from(
        [
            *(entity(user=u, client=c) for u in ("a", None) for c in ("a", None)),
            *(entity(user=u) for u in ("a", "b", None)),
            *(entity(client=c) for c in ("a", "b", None)),
        ]
    ),
    st.integers(1, 500).map(float),
)
EVENTS = st.lists(st.tuples(NAMES, NAMES, st.integers(0, 4_000), st.integers(0, 2_000)))


@given(quotas=QUOTAS, events=EVENTS, later=QUOTAS)
def test_each_quota_has_a_rate_of_its_own_for_each_of_its_clients(
    quotas: dict[Entity, float], events: list[Any], later: dict[Entity, float]
) -> None:
    rates = ClientRates(WINDOW)
    rates.set_quotas(quotas)
    model: dict[tuple[Entity, str, str], Rate] = {}
    now_ms = 0
    for at, (user, client, amount, passed_ms) in enumerate(events):
        now_ms += passed_ms
        if at == len(events) // 2:
            rates.set_quotas(later)
            quotas = later
            model = {key: rate for key, rate in model.items() if key[0] in later}
        applied = Precedence(quotas).find(user, client)
        throttle_ms = rates.record(user, client, amount, now_ms)
        if applied is None:
            assert throttle_ms == 0
            assert rates.left(user, client, now_ms) is None
        else:
            of = dict(applied.entity)
            key = (applied.entity, user * (USER in of), client * (CLIENT_ID in of))
            rate = model.setdefault(key, Rate())
            rate.record(amount, WINDOW, now_ms)
            assert throttle_ms == rate.throttle_ms(applied.value, WINDOW, now_ms)
            left = rates.left(user, client, now_ms)
            assert left == pytest.approx(rate.left(applied.value, WINDOW, now_ms))
        rates.check_invariants()
    rates.forget_idle(now_ms + WINDOW.whole_ms)
    assert len(rates) == 0


def test_new_client_ids_find_no_memory_beyond_the_limit_and_share_a_rate() -> None:
    rates = ClientRates(WINDOW)
    rates.set_quotas({entity(client=None): 10.0})
    for number in range(QUOTA_CLIENTS_MAX):
        assert rates.record("u", f"c{number}", 100, 0) == 0
    assert len(rates) == QUOTA_CLIENTS_MAX
    assert rates.record("u", "x1", 100, 0) == 0, "all who come now have one allowance"
    assert rates.record("u", "x2", 100, 0) == 10_000
    assert rates.left("u", "x3", 0) == -100
    assert rates.record("u", "c0", 1, 0) == 100, "who was there before keeps its own"
    assert len(rates) == QUOTA_CLIENTS_MAX
    rates.check_invariants()
    assert rates.record("u", "x4", 100, 11_000) == 0, "the others are idle: there is room"
    assert len(rates) == 1


def test_a_long_client_id_is_known_by_its_beginning() -> None:
    rates = ClientRates(WINDOW)
    rates.set_quotas({entity(client=None): 1.0})
    begin = "x" * (QUOTA_CLIENT_ID_CHARACTERS - 1)
    rates.record("u", begin + "a", 10, 0)
    rates.record("u", begin + "ab" + "c" * 10_000, 10, 0)
    assert len(rates) == 1
    rates.record("u", begin + "b", 10, 0)
    assert len(rates) == 2
    rates.check_invariants()


def test_a_bounded_throttle() -> None:
    rates = ClientRates(WINDOW, throttle_ms_max=1_000)
    rates.set_quotas({entity(user="u"): 1.0})
    assert rates.record("u", "c", 1_000_000, 0) == 1_000


def test_asking_what_is_left_keeps_nothing() -> None:
    rates = ClientRates(WINDOW)
    rates.set_quotas({entity(client=None): 1.0})
    assert rates.left("u", "c", 0) == 10
    assert len(rates) == 0
