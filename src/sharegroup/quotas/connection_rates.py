"""How fast connections are made, by one address and by all (Kafka class ConnectionQuotas).

A connection over its address's quota (``connection_creation_rate``) is held for the throttle time,
then closed, and does not count. A connection over the broker's rate
(``max.connection.creation.rate``) waits for its turn. Kafka accepts no other connection meanwhile;
here each connection knows when it may begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple

from sharegroup.model.config import INT_MAX
from sharegroup.model.limits import QUOTA_CLIENTS_MAX
from sharegroup.quotas.entity import Entity
from sharegroup.quotas.rate import Rate, RateWindow


class ConnectionAdmission(NamedTuple):
    """What is done with a new connection: for ``wait_ms`` nothing is read from it, and then it is
    closed if ``refused``."""

    wait_ms: int
    refused: bool


AT_ONCE = ConnectionAdmission(0, refused=False)


def canonical(host: str) -> str | None:
    """An address in its one form, IPv4 in IPv6 as IPv4; None if ``host`` is not an address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


class ConnectionRates:
    """The rates of all addresses. At most QUOTA_CLIENTS_MAX addresses have a rate of their own;
    further addresses share one."""

    def __init__(self, window: RateWindow) -> None:
        self._window = window
        self._quotas: dict[str, float] = {}
        self._default: float | None = None
        self._rates: dict[str, Rate] = {}  # the rate that was used last is last
        self._shared = Rate()
        self._all = Rate()
        self._free_ms: int | None = None  # from when the next connection may begin

    def __len__(self) -> int:
        """Addresses followed on their own."""
        return len(self._rates)

    @property
    def active(self) -> bool:
        """Whether an address has a quota."""
        return bool(self._quotas) or self._default is not None

    def set_quotas(self, quotas: Mapping[Entity, float]) -> None:
        """Set the quotas of addresses."""
        self._quotas, self._default = {}, None
        for ((_, host),), value in quotas.items():
            if host is None:
                self._default = value
            else:
                self._quotas[canonical(host) or host] = value
        if not self.active:
            self._rates.clear()

    def admit(self, host: str, rate_max: int, now_ms: int) -> ConnectionAdmission:
        """A connection from ``host`` was made.

        Args:
            rate_max: ``max.connection.creation.rate``, connections per second; INT_MAX: no bound.
        """
        host = canonical(host) or host
        quota = self._quotas.get(host, self._default)
        if quota is not None:
            rate = self._rate(host, now_ms)
            over_ms = rate.throttle_ms(quota, self._window, now_ms, extra=1)
            if over_ms:
                return ConnectionAdmission(min(over_ms, self._window.sample_ms), refused=True)
            rate.record(1, self._window, now_ms)
        if rate_max == INT_MAX:
            return AT_ONCE
        return ConnectionAdmission(self._turn_ms(max(rate_max, 1), now_ms), refused=False)

    def forget_idle(self, now_ms: int) -> None:
        """Drop the rates of addresses that made no connection in the window."""
        while self._rates:
            host, rate = next(iter(self._rates.items()))
            if not rate.is_idle(self._window, now_ms):
                return
            del self._rates[host]

    def check_invariants(self) -> None:
        """Raise AssertionError if there are too many rates."""
        assert len(self._rates) <= QUOTA_CLIENTS_MAX
        for rate in (*self._rates.values(), self._shared, self._all):
            rate.check_invariants(self._window)

    def _turn_ms(self, rate_max: int, now_ms: int) -> int:
        """How long the connection waits: connections begin one after the other, at the rate."""
        begins_ms = now_ms if self._free_ms is None else max(now_ms, self._free_ms)
        self._all.record(1, self._window, begins_ms)
        over_ms = self._all.throttle_ms(rate_max, self._window, begins_ms)
        self._free_ms = begins_ms + min(over_ms, self._window.sample_ms)
        return self._free_ms - now_ms

    def _rate(self, host: str, now_ms: int) -> Rate:
        rate = self._rates.pop(host, None)
        if rate is None:
            self.forget_idle(now_ms)
            if len(self._rates) >= QUOTA_CLIENTS_MAX:
                return self._shared
            rate = Rate()
        self._rates[host] = rate
        return rate
