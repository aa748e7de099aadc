"""The rates of groups (``share.rate.…``): how many records all members of a group get in a time.

A fetch reserves what it may give before it reads, and gives back what it has not given, so that
fetches of several partitions at once do not exceed the limit together. A fetch that gets less than
it asks for leaves a timer: when the bucket is full again, the group's waiting fetches look.
"""

from __future__ import annotations

from functools import partial

from sharegroup.broker.deadline_timer import DeadlineTimer
from sharegroup.broker.delivery.share_partitions import SharePartitions
from sharegroup.model.environment import Clock
from sharegroup.share.rate import Rate, RateLimit
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.tenant_rates import TenantRates


class GroupRates:
    """See the module. Groups without a limit are not known here."""

    def __init__(self, clock: Clock, share_partitions: SharePartitions) -> None:
        self._clock = clock
        self._share_partitions = share_partitions
        self._rates: dict[str, tuple[Rate, DeadlineTimer]] = {}
        self._of_tenants: dict[str, TenantRates] = {}

    def reserve(self, group_id: str, limit: RateLimit, records: int) -> int:
        """For up to ``records`` records of the group; returns for how many. The caller must give
        back what it does not use."""
        now_ms = self._clock.monotonic_ms()
        known = self._rates.get(group_id)
        if known is None:
            timer = DeadlineTimer(self._clock, partial(self._due, group_id))
            known = self._rates[group_id] = (Rate(limit, now_ms), timer)
        rate, timer = known
        if rate.limit != limit:
            rate.change(limit, now_ms)
        granted = rate.reserve(records, now_ms)
        if granted < records:
            timer.set(rate.full_ms(now_ms))
        return granted

    def give_back(self, group_id: str, records: int) -> None:
        """Of what was reserved, so many records were not given."""
        known = self._rates.get(group_id)
        if known is not None and records:
            known[0].give_back(records)

    def of_tenants(self, group_id: str, settings: DeliverySettings) -> TenantRates | None:
        """The rates of the group's tenants; None: they have no limit."""
        limit = settings.fairness.rate if settings.fairness else None
        if limit is None:
            if self._of_tenants:
                self._of_tenants.pop(group_id, None)
            return None
        rates = self._of_tenants.get(group_id)
        if rates is None:
            rates = self._of_tenants[group_id] = TenantRates(limit)
        rates.change(limit, self._clock.monotonic_ms())
        return rates

    def is_empty(self, group_id: str) -> bool:
        """Whether the group gets nothing now."""
        known = self._rates.get(group_id)
        return known is not None and not known[0].room(self._clock.monotonic_ms())

    def forget(self, group_id: str) -> None:
        """The group is deleted."""
        self.end_limit(group_id)
        self._of_tenants.pop(group_id, None)

    def end_limit(self, group_id: str) -> None:
        """The group as a whole has no limit any more."""
        known = self._rates.pop(group_id, None)
        if known is not None:
            known[1].close()

    def close(self) -> None:
        """Stop all timers."""
        for group_id in list(self._rates):
            self.end_limit(group_id)

    def _due(self, group_id: str) -> None:
        for led in self._share_partitions.all():
            if led.key.group_id == group_id:
                self._share_partitions.wake(led)
