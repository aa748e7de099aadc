"""How fast each client is, against one kind of quota (Kafka class ClientQuotaManager).

Only clients that a quota applies to are followed, and only as long as they did something in the
window. There are QUOTA_CLIENTS_MAX of them at most. Further ones share one rate for each quota,
until there is room: who invents ever new client ids gets one allowance for all of them together,
not one each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from sharegroup.model.limits import QUOTA_CLIENT_ID_CHARACTERS, QUOTA_CLIENTS_MAX
from sharegroup.quotas.entity import Entity
from sharegroup.quotas.precedence import Applied, Precedence
from sharegroup.quotas.rate import Rate, Window

_Client: TypeAlias = tuple[Entity, str, str]


class ClientRates:
    """One kind of quota.

    Args:
        throttle_ms_max: a throttle is never longer; None: no bound.
    """

    def __init__(self, window: Window, throttle_ms_max: int | None = None) -> None:
        self._window = window
        self._throttle_ms_max = throttle_ms_max
        self._quotas = Precedence({})
        self._rates: dict[_Client, Rate] = {}  # the one that was used last is last
        self._shared: dict[Entity, Rate] = {}

    def __len__(self) -> int:
        """Clients followed on their own."""
        return len(self._rates)

    @property
    def active(self) -> bool:
        """Whether there is a quota."""
        return bool(self._quotas)

    def set_quotas(self, quotas: Mapping[Entity, float]) -> None:
        """The quotas from now on. What clients whose quota stays have done counts on."""
        self._quotas = Precedence(quotas)
        self._rates = {key: rate for key, rate in self._rates.items() if key[0] in quotas}
        self._shared = {key: rate for key, rate in self._shared.items() if key in quotas}

    def record(self, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """The client did something. Returns for how many milliseconds it is to be throttled."""
        applied = self._quotas.find(user, client_id)
        if applied is None:
            return 0
        rate = self._rate(applied, user, client_id, now_ms)
        rate.record(amount, self._window, now_ms)
        throttle_ms = rate.throttle_ms(applied.value, self._window, now_ms)
        if self._throttle_ms_max is not None:
            throttle_ms = min(throttle_ms, self._throttle_ms_max)
        return throttle_ms

    def left(self, user: str, client_id: str, now_ms: int) -> float | None:
        """The amount that the client may have now without a throttle, less than 0 if there is one;
        None: no quota."""
        applied = self._quotas.find(user, client_id)
        if applied is None:
            return None
        rate = self._rates.get(_key(applied, user, client_id))
        if rate is None and len(self._rates) >= QUOTA_CLIENTS_MAX:
            rate = self._shared.get(applied.entity)
        return (rate or Rate()).left(applied.value, self._window, now_ms)

    def forget_idle(self, now_ms: int) -> None:
        """Drop the rates of clients of which the window holds nothing."""
        while self._rates:
            key, rate = next(iter(self._rates.items()))
            last_ms = rate.last_ms
            if last_ms is not None and now_ms - last_ms < self._window.whole_ms:
                return
            del self._rates[key]

    def check_invariants(self) -> None:
        """Raise AssertionError if there are too many rates, or they are not in order."""
        assert len(self._rates) <= QUOTA_CLIENTS_MAX
        for rate in (*self._rates.values(), *self._shared.values()):
            rate.check_invariants(self._window)
        for _, user, client_id in self._rates:
            assert len(client_id) <= QUOTA_CLIENT_ID_CHARACTERS, (user, client_id)

    def _rate(self, applied: Applied, user: str, client_id: str, now_ms: int) -> Rate:
        key = _key(applied, user, client_id)
        rate = self._rates.pop(key, None)
        if rate is None:
            self.forget_idle(now_ms)
            if len(self._rates) >= QUOTA_CLIENTS_MAX:
                return self._shared.setdefault(applied.entity, Rate())
            rate = Rate()
        self._rates[key] = rate
        return rate


def _key(applied: Applied, user: str, client_id: str) -> _Client:
    return (
        applied.entity,
        user if applied.by_user else "",
        client_id[:QUOTA_CLIENT_ID_CHARACTERS] if applied.by_client_id else "",
    )
