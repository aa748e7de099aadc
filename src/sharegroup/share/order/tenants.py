"""Whose turn it is (``share.fairness``).

A tenant is known by the hash of its name. Each has a *turn*: how many records it has got, by its
weight, as time that only moves when records are delivered. The tenant with the lowest turn is next.
A tenant whose records all are delivered has nothing to wait for: when it has records again, it is
next, but continues from the lowest turn of those that wait, so that nobody saves up turns.
(Start-time fair queueing: Goyal, Vin and Cheng, 1996.)

A tenant at its limit of records in flight has no turn until members have answered, and a tenant
that has used up its rate has none until more of its records may go out. Either continues as one
that comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from sharegroup.share.acquire import Request
from sharegroup.share.order.waiting_records import RecordClass, WaitingRecords
from sharegroup.share.settings import DeliverySettings, Fairness
from sharegroup.share.tenant_rates import TenantRates
from sharegroup.share.window import Window

_STALE_MIN: Final = 64
_UNIT: Final = 1_000_000
"""What a record costs a tenant of weight 1 (the least), as its turn counts."""
ONE: Final = 100
"""The weight of a tenant that has none of its own. Weights are whole numbers, so that turns are."""


class Tenants:
    """The turns of tenants. See the module, and
    :class:`~sharegroup.share.order.classed_order.Classes`."""

    def __init__(self, window: Window) -> None:
        self.records = WaitingRecords(window)
        self._weights: Mapping[int, int] = {}
        """Tenant → how much it gets, where :data:`ONE` is what others get."""
        self._held_max = 0
        """How many records of one tenant members may hold at once; 0: as many as they like. Records
        that are held already stay held when it falls."""
        self._turns: list[tuple[int, int, int]] = []
        """A heap of turn, about the first record, and tenant; entries may be out of date. Of
        tenants with equal turns the one whose record came first is next."""
        self._now = 0
        """The lowest turn of the tenants that wait, as it was found last."""
        self._latest = 0
        """The highest turn of all that have got records."""
        self._short: dict[int, int] = {}
        """Tenant that has used up its rate → when more of its records may go out."""
        self.next_ms: int | None = None

    def configure(self, settings: DeliverySettings) -> None:
        """Obey the group's limits of each tenant, and their weights."""
        fairness = settings.fairness or Fairness()
        self._weights = fairness.weights
        if self._short and fairness.rate is None:
            self.come_ready(max(self._short.values()))
        if fairness.held_max != self._held_max:
            self._held_max = fairness.held_max
            self._begin_again(self.records.classes)

    def load(self, offsets: Sequence[int], classes: Sequence[int], end: int) -> None:
        """As in ``Classes``."""
        self._wait(self.records.load(offsets, classes, end))

    # -- turns ------------------------------------------------------------------------------

    def next_offset(self) -> int | None:
        """The first available record of the tenant whose turn it is; None if no tenant has one."""
        turns, tenants = self._turns, self.records.classes
        while turns:
            turn, _, tenant = turns[0]
            one = tenants.get(tenant)
            if one is None or one.turn != turn or not one.blocks or not self._may(tenant):
                heappop(turns)
                continue
            first = self.records.first_of(tenant)
            if first is not None:
                self._now = max(self._now, turn)
                return first
            heappop(turns)
            self.records.forget_idle([tenant])
        self._now = max(self._now, self._latest)  # nobody waits: whoever comes, begins here
        return None

    def take(self, first: int, end: int, records_max: int, request: Request) -> list[int]:
        """As in ``Classes``: in turns, the tenant with the lowest turn first.

        No tenant gets more than ``records_max`` records, by its weight, ahead of the lowest turn of
        all, which may be of a tenant whose records lie elsewhere; but somebody gets a record if
        there is one.
        """
        self.next_offset()  # for the lowest turn
        lead = self._now + records_max * _UNIT // ONE
        there = self.records.blocks_of_classes(first, end)
        known = self.records.classes
        heap = [(known[one].turn, one) for one in there if self._may(one)]
        heapify(heap)
        taken: list[int] = []
        total = sum(self._weight(tenant) for _, tenant in heap)
        while heap and len(taken) < records_max:
            turn, tenant = heappop(heap)
            left = records_max - len(taken)
            one, weight = known[tenant], self._weight(tenant)
            cost = _UNIT // weight
            ahead = max((lead - turn) // cost, 0 if taken else 1)  # somebody gets a record
            wanted = min(max(1, left * weight // total), ahead)
            wanted = min(wanted, self._held_max - one.held) if self._held_max else wanted
            if request.tenant_rates is not None:
                wanted = self._within_rate(tenant, wanted, request.tenant_rates, request.now_ms)
            if wanted <= 0:
                total -= weight
                continue
            found = self.records.take(tenant, there[tenant], (first, end), wanted)
            if found:
                one.turn += len(found) * cost
                self._latest = max(self._latest, one.turn)
                taken += found
                self._line_up(tenant)
                if request.tenant_rates is not None:
                    request.tenant_rates.use(tenant, len(found), request.now_ms)
            if len(found) == wanted:
                heappush(heap, (one.turn, tenant))
            else:
                total -= weight
        self.next_offset()  # who comes now begins where the others are
        taken.sort()
        return taken

    def come_ready(self, now_ms: int) -> None:
        """As in ``Classes``: more records of tenants that had used up their rates may go out."""
        ready = [tenant for tenant, ready_ms in self._short.items() if ready_ms <= now_ms]
        for tenant in ready:
            del self._short[tenant]
        self.next_ms = min(self._short.values(), default=None)
        self._begin_again(ready)

    def _within_rate(self, tenant: int, wanted: int, rates: TenantRates, now_ms: int) -> int:
        """How many of ``wanted`` records the tenant's rate lets go out now."""
        room = rates.room(tenant, now_ms)
        if wanted > 0 and not room:
            ready_ms = self._short[tenant] = rates.ready_ms(tenant, now_ms)
            self.next_ms = ready_ms if self.next_ms is None else min(self.next_ms, ready_ms)
        return min(wanted, room)

    # -- back, gone -------------------------------------------------------------------------

    def back(self, offsets: Sequence[int], *, rested: bool = False) -> None:
        """As in :class:`WaitingRecords`."""
        moved = self.records.back(offsets, rested=rested)
        self._freed(moved.freed)
        self._wait(moved.waiting)
        self.records.forget_idle(moved.freed)

    def pause(self, offsets: Sequence[int]) -> None:
        """As in :class:`WaitingRecords`."""
        self._freed(self.records.pause(offsets), idle=True)

    def put_off(self, ranges: Iterable[tuple[int, int]]) -> None:
        """As in :class:`WaitingRecords`."""
        self.records.forget_idle(self.records.put_off(ranges))

    def gone(self, offsets: range) -> None:
        """As in :class:`WaitingRecords`."""
        self._freed(self.records.gone(offsets), idle=True)

    def move_start(self) -> None:
        """As in :class:`WaitingRecords`."""
        self._freed(self.records.move_start(), idle=True)

    def _freed(self, freed: Mapping[int, int], *, idle: bool = False) -> None:
        """Members hold so many records less of each tenant. ``idle``: such a tenant may have no
        others."""
        if self._held_max:
            for tenant, number in freed.items():
                held = self.records.classes[tenant].held
                if held < self._held_max <= held + number:
                    self._begin_again([tenant])
        if idle:
            self.records.forget_idle(freed)

    # -- who waits --------------------------------------------------------------------------

    def _weight(self, tenant: int) -> int:
        return self._weights.get(tenant, ONE)

    def _may(self, tenant: int) -> bool:
        """Whether the tenant's limits let it have more records."""
        if tenant in self._short:
            return False
        return not self._held_max or self.records.classes[tenant].held < self._held_max

    def _wait(self, tenants: Iterable[int]) -> None:
        """These tenants have records that wait, and had none before."""
        for tenant in tenants:
            one = self.records.classes[tenant]
            one.turn = max(one.turn, self._now - 1)  # before others with the lowest turn
            self._line_up(tenant)

    def _begin_again(self, tenants: Iterable[int]) -> None:
        """These tenants may have more records, and could not for a while."""
        for tenant in tenants:
            one = self.records.classes.get(tenant)
            if one is not None:
                one.turn = max(one.turn, self._now)
                self._line_up(tenant)

    def _line_up(self, tenant: int) -> None:
        tenants = self.records.classes
        one = tenants[tenant]
        if not one.blocks or not self._may(tenant):
            return
        heappush(self._turns, self._place(tenant, one))
        # A tenant that is lined up again leaves its entry there twice.
        if len(self._turns) > _STALE_MIN + 4 * len(tenants):
            self._turns = [
                self._place(key, one)
                for key, one in tenants.items()
                if one.blocks and self._may(key)
            ]
            heapify(self._turns)

    def _place(self, tenant: int, one: RecordClass) -> tuple[int, int, int]:
        return one.turn, self.records.about_first_of(tenant), tenant

    def check_invariants(self, held: Iterable[int], resting: Iterable[int]) -> None:
        """As in ``Classes``."""
        self.records.check_invariants(held, resting)
        lined_up = {(turn, tenant) for turn, _, tenant in self._turns}
        for tenant, one in self.records.classes.items():
            if one.blocks and self._may(tenant):
                assert (one.turn, tenant) in lined_up, "a tenant gets no turn"
        assert self.next_ms == min(self._short.values(), default=None)
