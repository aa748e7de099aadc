"""How fast each client is, against one kind of quota (Kafka class ClientQuotaManager).

Only clients that a quota applies to are followed, and only as long as they did something in the
window.
"""

from __future__ import annotations

from collections.abc import Mapping

from sharegroup.quotas.client_table import ClientTable
from sharegroup.quotas.entity import Entity
from sharegroup.quotas.precedence import Precedence
from sharegroup.quotas.rate import Rate, RateWindow


class ClientRates:
    """One kind of quota.

    Args:
        throttle_ms_max: a throttle is never longer; None: no bound.
    """

    def __init__(self, window: RateWindow, throttle_ms_max: int | None = None) -> None:
        self._window = window
        self._throttle_ms_max = throttle_ms_max
        self._quotas = Precedence({})
        self._rates: ClientTable[Rate] = ClientTable(window, Rate)

    def __len__(self) -> int:
        """Clients followed on their own."""
        return len(self._rates)

    @property
    def active(self) -> bool:
        """Whether there is a quota."""
        return bool(self._quotas)

    def set_quotas(self, quotas: Mapping[Entity, float]) -> None:
        """Set the quotas. Clients whose quota stays keep their rate."""
        self._quotas = Precedence(quotas)
        self._rates.keep_only(quotas)

    def record(self, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Record ``amount`` for a client. Returns for how many milliseconds to throttle it."""
        applied = self._quotas.find(user, client_id)
        if applied is None:
            return 0
        rate = self._rates.use(applied, user, client_id, now_ms)
        rate.record(amount, self._window, now_ms)
        throttle_ms = rate.throttle_ms(applied.value, self._window, now_ms)
        if self._throttle_ms_max is not None:
            throttle_ms = min(throttle_ms, self._throttle_ms_max)
        return throttle_ms

    def left(self, user: str, client_id: str, now_ms: int) -> float | None:
        """The amount that the client may have now without a throttle, less than 0 while it is
        throttled; None: no quota."""
        applied = self._quotas.find(user, client_id)
        if applied is None:
            return None
        rate = self._rates.look(applied, user, client_id)
        return rate.left(applied.value, self._window, now_ms)

    def forget_idle(self, now_ms: int) -> None:
        """Drop the rates of clients that did nothing in the window."""
        self._rates.forget_idle(now_ms)

    def check_invariants(self) -> None:
        """Raise AssertionError if there are too many rates, or a rate contradicts itself."""
        self._rates.check_invariants()
