"""The waiting records of each tenant, and whose turn it is (``share.fairness``).

A tenant is known by the hash of its key. What was loaded at once is one *block*, and a block has
the waiting records of each tenant as one sequence of offsets: a ``range`` if they adjoin. So a
tenant with a million records side by side takes as much memory as a tenant with one.

Each tenant has a *turn*: how many records it has got, by its weight, as time that only moves when
records are delivered. The tenant with the lowest turn is next. A tenant whose records all are
delivered has nothing to wait for: when it has records again, it is next, but continues from the
lowest turn of those that wait, so that nobody saves up turns. (Start-time fair queueing: Goyal, Vin
and Cheng, 1996.)

The window has the states of records. What waits here is a hint: a record may have been archived
since, and is dropped when it would be taken. Every available record below :attr:`Tenants.end` is
here, with its tenant. The records of a tenant that are not here any more, but not finished either,
are *held* by members or *rest*: these are known one by one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import compress, repeat
from typing import Final

from sharegroup.share.order.waiting_offsets import available, grouped, without
from sharegroup.share.window import Window

_LOOK: Final = 256
"""How many waiting records are looked at at once to find an available one."""
_STALE_MIN: Final = 64
_UNIT: Final = 1_000_000
"""What a record costs a tenant of weight 1 (the least), as its turn counts."""
ONE: Final = 100
"""The weight of a tenant that has none of its own. Weights are whole numbers, so that turns are."""


class _Tenant:
    __slots__ = ("blocks", "held", "turn")

    def __init__(self, turn: int) -> None:
        self.turn = turn
        """What it has got, or has missed while it had nothing that waited."""
        self.held = 0
        """How many of its records members hold."""
        self.blocks: list[int] = []
        """The first offsets of blocks that may have waiting records of the tenant, ascending."""


class _Block:
    """The records that were loaded at once: ``first`` up to ``end``, exclusive."""

    __slots__ = ("again", "end", "first", "fresh")

    def __init__(self, first: int, end: int) -> None:
        self.first = first
        self.end = end
        self.fresh: dict[int, Sequence[int]] = {}
        """Tenant → offsets that were not taken yet, ascending."""
        self.again: dict[int, list[int]] = {}
        """Tenant → offsets that came back, ascending."""

    def has(self, tenant: int) -> bool:
        return tenant in self.fresh or tenant in self.again


class Tenants:
    """See the module.

    Args:
        window: its start is where the records begin that will be loaded.
    """

    def __init__(self, window: Window) -> None:
        self.end = window.start
        """One past the last offset that was loaded."""
        self._window = window
        self._start = window.start
        self.weights: Mapping[int, int] = {}
        """Tenant → how much it gets, where :data:`ONE` is what others get."""
        self._held_max = 0
        self._tenants: dict[int, _Tenant] = {}
        self._blocks: list[_Block] = []
        self._turns: list[tuple[int, int]] = []
        """A heap of turn and tenant; entries may be out of date."""
        self._now = 0
        """The lowest turn of the tenants that wait, as it was found last."""
        self._latest = 0
        """The highest turn of all that have got records."""
        self._held: dict[int, int] = {}
        """Offset → tenant, of each record that a member holds."""
        self._resting: dict[int, int] = {}
        """The same for records that rest."""
        self.entries = 0
        """Sequences of offsets in all blocks: what memory depends on, beside the records of blocks
        with many tenants, which take 8 bytes each."""

    @property
    def held_max(self) -> int:
        """How many records of one tenant members may hold at once; 0: as many as they like. Records
        that are held already stay held when it falls."""
        return self._held_max

    @held_max.setter
    def held_max(self, held_max: int) -> None:
        if held_max == self._held_max:
            return
        self._held_max = held_max
        for tenant, one in self._tenants.items():
            one.turn = max(one.turn, self._now)
            self._line_up(tenant)

    def load(self, offsets: Sequence[int], hashes: Sequence[int], end: int) -> None:
        """Add records that nobody holds, with the hashes of their tenants' keys.

        Args:
            offsets: ascending, from :attr:`end` on.
            end: one past the last offset that was read.
        """
        block = _Block(self.end, end)
        self.end = end
        if not offsets:
            return
        self._blocks.append(block)
        for tenant, found in grouped(offsets, hashes):
            block.fresh[tenant] = found
            self.entries += 1
            self._wait(tenant, block)

    def rest(self, offsets: Sequence[int], hashes: Sequence[int]) -> None:
        """Note loaded records that rest since before they were loaded, with their tenants."""
        self._resting.update(zip(offsets, hashes, strict=True))

    # -- turns ------------------------------------------------------------------------------

    def next_offset(self) -> int | None:
        """The first available record of the tenant whose turn it is; None if no tenant has one."""
        turns = self._turns
        while turns:
            turn, tenant = turns[0]
            one = self._tenants.get(tenant)
            if one is None or one.turn != turn or not one.blocks or not self._may(one):
                heappop(turns)
                continue
            first = self._first_of(tenant, one)
            if first is not None:
                self._now = max(self._now, turn)
                return first
            heappop(turns)
            self._forget_idle([tenant])
        self._now = max(self._now, self._latest)  # nobody waits: whoever comes, begins here
        return None

    def take(self, first: int, end: int, records_max: int) -> list[int]:
        """Give a member up to ``records_max`` available records from ``first`` up to ``end``,
        exclusive: in turns, the tenant with the lowest turn first. Returns their offsets,
        ascending.

        No tenant gets more than ``records_max`` records, by its weight, ahead of the lowest turn of
        all, which may be of a tenant whose records lie elsewhere; but somebody gets a record if
        there is one.
        """
        self.next_offset()  # for the lowest turn
        lead = self._now + records_max * _UNIT // ONE
        there: dict[int, list[_Block]] = {}
        for block in self._between(first, end):
            for tenant in block.fresh.keys() | block.again.keys():
                there.setdefault(tenant, []).append(block)
        known = self._tenants
        heap = [(known[one].turn, one) for one in there if self._may(known[one])]
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
            if wanted <= 0:
                total -= weight
                continue
            found = self._taken_of(tenant, there[tenant], (first, end), wanted)
            if found:
                one.turn += len(found) * cost
                self._latest = max(self._latest, one.turn)
                one.held += len(found)
                self._held.update(zip(found, repeat(tenant)))
                taken += found
                self._line_up(tenant)
            if len(found) == wanted:
                heappush(heap, (one.turn, tenant))
            else:
                total -= weight
        self.next_offset()  # who comes now begins where the others are
        taken.sort()
        return taken

    # -- back, gone -------------------------------------------------------------------------

    def back(self, offsets: Sequence[int], *, rested: bool = False) -> None:
        """Records have become available that members held (or that ``rested``). Offsets of other
        records change nothing.

        Args:
            offsets: ascending.
        """
        tenants = self._no_longer_held(offsets)
        if rested and self._resting:
            rests = map(self._resting.pop, offsets, repeat(None))
            tenants = [a if a is not None else b for a, b in zip(tenants, rests, strict=True)]
        if tenants.count(None) == len(tenants):
            return
        known = [one is not None for one in tenants]
        ours = [one for one in tenants if one is not None]
        for tenant, found in grouped([*compress(offsets, known)], ours):
            self._put_back(found, tenant)
        self._forget_idle(ours)

    def pause(self, offsets: Sequence[int]) -> None:
        """Records that members held rest from now on, until :meth:`back` with ``rested``."""
        tenants = self._no_longer_held(offsets)
        self._resting.update(
            (offset, one) for offset, one in zip(offsets, tenants, strict=True) if one is not None
        )
        self._forget_idle(tenants)

    def put_off(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Records that waited rest from now on, until :meth:`back` with ``rested``.

        Args:
            ranges: their first and last offsets, ascending and disjoint.
        """
        resting = {at for first, last in ranges for at in range(first, last + 1)}
        if not resting:
            return
        idle: list[int] = []
        for block in self._between(min(resting), max(resting) + 1):
            for part in (block.fresh, block.again):
                for tenant, offsets in list(part.items()):
                    found = resting.intersection(offsets)
                    if found:
                        self._resting.update(zip(found, repeat(tenant)))
                        left = array("q", [at for at in offsets if at not in found])
                        self._keep(offsets, tenant, block, left)
                        idle.append(tenant)
        for tenant in set(idle):
            one = self._tenants[tenant]
            self._first_of(tenant, one)  # it forgets the blocks where nothing waits any more
        self._forget_idle(idle)

    def gone(self, offsets: range) -> None:
        """Records are finished. Those that wait are found to be so when they would be taken."""
        held = _known(self._held, offsets)
        if held:
            self._forget_idle(self._no_longer_held(held))
        for offset in _known(self._resting, offsets):
            self._resting.pop(offset, None)

    def move_start(self) -> None:
        """Forget all records below the window's start."""
        start = self._window.start
        if start <= self._start:
            return
        self.gone(range(self._start, start))
        self._start = start
        self.end = max(self.end, start)
        passed = bisect_right(self._blocks, start, key=lambda one: one.end)
        for block in self._blocks[:passed]:
            self.entries -= len(block.fresh) + len(block.again)
        del self._blocks[:passed]

    def _no_longer_held(self, offsets: Sequence[int]) -> list[int | None]:
        """Take records from their holders; returns the tenant of each, None where nobody held the
        record."""
        tenants = [*map(self._held.pop, offsets, repeat(None))]
        for tenant, records in Counter(tenants).items():
            if tenant is None:
                continue
            one = self._tenants[tenant]
            waited = self._may(one)
            one.held -= records
            if not waited:
                one.turn = max(one.turn, self._now)
                self._line_up(tenant)
        return tenants

    # -- where records wait -----------------------------------------------------------------

    def _weight(self, tenant: int) -> int:
        return self.weights.get(tenant, ONE)

    def _may(self, one: _Tenant) -> bool:
        """Whether the tenant's limit lets it have more records."""
        return not self._held_max or one.held < self._held_max

    def _wait(self, tenant: int, block: _Block) -> None:
        """Records of a tenant wait in a block in which none have waited."""
        one = self._tenants.get(tenant)
        if one is None:
            one = self._tenants[tenant] = _Tenant(self._now - 1)
        if not one.blocks:
            one.turn = max(one.turn, self._now - 1)  # before others with the lowest turn
        at = bisect_left(one.blocks, block.first)
        if block.first not in one.blocks[at : at + 1]:
            one.blocks.insert(at, block.first)
        self._line_up(tenant)

    def _line_up(self, tenant: int) -> None:
        one = self._tenants[tenant]
        if not one.blocks or not self._may(one):
            return
        heappush(self._turns, (one.turn, tenant))
        # A tenant that is lined up again leaves its entry there twice.
        if len(self._turns) > _STALE_MIN + 4 * len(self._tenants):
            self._turns = [
                (one.turn, key)
                for key, one in self._tenants.items()
                if one.blocks and self._may(one)
            ]
            heapify(self._turns)

    def _forget_idle(self, tenants: Iterable[int | None]) -> None:
        """Forget those that have no records here and hold none: their turns with them."""
        for tenant in set(tenants):
            one = None if tenant is None else self._tenants.get(tenant)
            if tenant is not None and one is not None and not one.blocks and not one.held:
                del self._tenants[tenant]

    def _put_back(self, offsets: Sequence[int], tenant: int) -> None:
        """Let records of a tenant wait again."""
        while offsets:
            at = bisect_right(self._blocks, offsets[0], key=lambda one: one.first) - 1
            block = self._blocks[at]
            there = bisect_left(offsets, block.end)
            waits = block.has(tenant)
            if tenant not in block.again:
                block.again[tenant] = []
                self.entries += 1
            again = block.again[tenant]
            behind = not again or again[-1] < offsets[0]
            again += offsets[:there]
            if not behind:
                again.sort()
            if not waits:
                self._wait(tenant, block)
            offsets = offsets[there:]

    def _block_at(self, first: int) -> _Block | None:
        """The block that begins at this offset; None if it is forgotten."""
        at = bisect_left(self._blocks, first, key=lambda one: one.first)
        found = self._blocks[at] if at < len(self._blocks) else None
        return found if found is not None and found.first == first else None

    def _between(self, first: int, end: int) -> Iterator[_Block]:
        """The blocks with offsets from ``first`` up to ``end``, exclusive."""
        at = bisect_right(self._blocks, first, key=lambda one: one.end)
        while at < len(self._blocks) and self._blocks[at].first < end:
            yield self._blocks[at]
            at += 1

    def _first_of(self, tenant: int, one: _Tenant) -> int | None:
        """The lowest available record of a tenant in the first block that has one, or None."""
        while one.blocks:
            block = self._block_at(one.blocks[0])
            if block is not None:
                found = [
                    self._first_in(offsets, tenant, block)
                    for offsets in (block.again.get(tenant), block.fresh.get(tenant))
                    if offsets is not None
                ]
                lowest = min((at for at in found if at is not None), default=None)
                if lowest is not None:
                    return lowest
            del one.blocks[0]
        return None

    def _first_in(self, offsets: Sequence[int], tenant: int, block: _Block) -> int | None:
        """The first available one of ``offsets``, which are the tenant's in this block. Those
        before it are dropped."""
        at = 0
        while at < len(offsets):
            found = available(self._window, offsets[at : at + _LOOK])
            if found:
                at = bisect_left(offsets, found[0])
                break
            at += _LOOK
        if at:
            self._keep(offsets, tenant, block, offsets[at:])
        return found[0] if at < len(offsets) else None

    def _keep(
        self, offsets: Sequence[int], tenant: int, block: _Block, rest: Sequence[int]
    ) -> None:
        """Let only ``rest`` of a tenant's ``offsets`` wait in this block."""
        if block.again.get(tenant) is offsets:
            if rest:
                block.again[tenant] = list(rest)
                return
            del block.again[tenant]
        else:
            if rest:
                block.fresh[tenant] = rest
                return
            del block.fresh[tenant]
        self.entries -= 1

    def _taken_of(
        self, tenant: int, blocks: Iterable[_Block], between: tuple[int, int], wanted: int
    ) -> list[int]:
        """Up to ``wanted`` available records of a tenant in these blocks, at or after the first
        offset in ``between`` and before the second one. They wait no longer."""
        found: list[int] = []
        for block in blocks:
            for offsets in (block.again.get(tenant), block.fresh.get(tenant)):
                if offsets is None or len(found) == wanted:
                    continue
                low, high = (bisect_left(offsets, offset) for offset in between)
                at = low
                while at < high and len(found) < wanted:
                    until = min(high, at + wanted - len(found))
                    found += available(self._window, offsets[at:until])
                    at = until
                if at > low:
                    self._keep(offsets, tenant, block, without(offsets, low, at))
        return found

    # -- for a checker ----------------------------------------------------------------------

    def check_invariants(self, held: Iterable[int], resting: Iterable[int]) -> None:
        """Assert that what is known agrees with the window, which has these records held and
        resting below :attr:`end`.

        Raises:
            AssertionError: it does not.
        """
        assert self._held.keys() == set(held), "held records differ"
        assert self._resting.keys() >= set(resting), "a resting record has no tenant"
        assert all(offset >= self._start for offset in self._resting)
        counts = Counter(self._held.values())
        assert counts == Counter({key: one.held for key, one in self._tenants.items() if one.held})
        waiting: list[int] = []
        entries = 0
        end = self._start
        for block in self._blocks:
            assert end <= block.end <= self.end, "blocks are out of order"
            end = block.end
            for part in (block.fresh, block.again):
                entries += len(part)
                for tenant, offsets in part.items():
                    assert offsets, "nothing waits there"
                    assert list(offsets) == sorted(set(offsets)), f"out of order: {offsets}"
                    waiting += offsets
                    one = self._tenants[tenant]
                    assert block.first in one.blocks, "a tenant does not know its block"
                    if self._may(one):
                        assert (one.turn, tenant) in self._turns, "a tenant gets no turn"
        assert entries == self.entries, "sequences miscounted"
        assert len(set(waiting)) == len(waiting), "a record waits twice"
        first, last = self._window.start, min(self.end, self._window.end) - 1
        free = [*available(self._window, range(first, last + 1))]
        assert set(free) <= set(waiting), "an available record does not wait"


def _known(known: Mapping[int, int], offsets: range) -> Sequence[int]:
    """``offsets``, or only those that are known, if these are fewer."""
    if len(offsets) <= len(known):
        return offsets
    return [offset for offset in known if offset in offsets]
