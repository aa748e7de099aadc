"""How many records of each tenant a group may be given in a time (``share.fairness.rate.…``).

Each tenant has a bucket of tokens (:class:`~sharegroup.share.rate.Rate`), which all partitions of
the group share. A full bucket is like one that was never used, so it is forgotten now and then:
only tenants that were given records lately take memory.
"""

from __future__ import annotations

from typing import Final

from sharegroup.share.rate import Rate, RateLimit

_FORGET_MIN: Final = 1_000
"""So many buckets are kept without a look for full ones."""


class TenantRates:
    """The buckets of one group's tenants, each with the same ``limit``."""

    def __init__(self, limit: RateLimit) -> None:
        self.limit = limit
        self._rates: dict[int, Rate] = {}
        self._look_at = _FORGET_MIN
        """With so many buckets, those that are full are looked for."""

    def __len__(self) -> int:
        return len(self._rates)

    def change(self, limit: RateLimit, now_ms: int) -> None:
        """Obey another limit from now on."""
        if limit != self.limit:
            self.limit = limit
            for rate in self._rates.values():
                rate.change(limit, now_ms)

    def room(self, tenant: int, now_ms: int) -> int:
        """How many records of the tenant may be given now."""
        return self._rate(tenant, now_ms).room(now_ms)

    def use(self, tenant: int, records: int, now_ms: int) -> None:
        """So many records of the tenant are given, no more than there is room for."""
        self._rate(tenant, now_ms).reserve(records, now_ms)

    def ready_ms(self, tenant: int, now_ms: int) -> int:
        """When the tenant's bucket is full, if nobody takes tokens until then."""
        return self._rate(tenant, now_ms).full_ms(now_ms)

    def _rate(self, tenant: int, now_ms: int) -> Rate:
        found = self._rates.get(tenant)
        if found is None:
            if len(self._rates) >= self._look_at:
                self._forget_full(now_ms)
            found = self._rates[tenant] = Rate(self.limit, now_ms)
        return found

    def _forget_full(self, now_ms: int) -> None:
        rates = self._rates
        self._rates = {key: one for key, one in rates.items() if one.full_ms(now_ms) > now_ms}
        self._look_at = max(_FORGET_MIN, 2 * len(self._rates))
