"""Order per key, beside a naive model that walks over all records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sharegroup.share.order.key_queues import KeyQueues

MEMBERS = st.sampled_from(["a", "b", "c"])


@dataclass
class Record:
    key: int
    holder: str | None = None


class Orders(RuleBasedStateMachine):
    """Random deliveries and answers; what may be delivered is computed anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.order = KeyQueues(0, 2)
        self.records: dict[int, Record] = {}
        self.blocked: set[int] = set()
        """Offsets."""
        self.failed: dict[int, int] = {}
        """The last record of each key that was given back."""
        self.widths: dict[int, int] = {}
        """What the width was when each key was last touched."""

    def earlier(self, offset: int) -> list[Record]:
        key = self.records[offset].key
        return [one for at, one in self.records.items() if one.key == key and at < offset]

    def deliverable(self, member: str) -> list[int]:
        """One after the other, as each delivery changes what may follow."""
        found: list[int] = []
        for offset, record in sorted(self.records.items()):
            before = self.earlier(offset)
            mine = [one for at, one in self.records.items() if one.key == record.key and
                    (one.holder == member or at in found)]  # fmt: skip
            if (
                record.holder is None
                and offset not in self.blocked
                and all(one in mine for one in before)
                and len(mine) < self.most_of(record.key)
            ):
                found.append(offset)
        return found

    def most_of(self, key: int) -> int:
        first = min(at for at, one in self.records.items() if one.key == key)
        free = not any(one.holder for one in self.records.values() if one.key == key)
        width = self.order.width if free else self.widths[key]
        return 1 if first <= self.failed.get(key, -1) else min(width, self.order.key_max)

    def touch(self, keys: Iterable[int]) -> None:
        self.widths |= dict.fromkeys(keys, self.order.width)

    @rule(keys=st.lists(st.integers(0, 5), max_size=12), skipped=st.integers(0, 3))
    def load(self, keys: list[int], skipped: int) -> None:
        first = self.order.end + skipped
        waits = {one.key for one in self.records.values() if not one.holder}
        offsets = range(first, first + len(keys))
        self.order.load(offsets, keys, first + len(keys))
        self.records |= {at: Record(key) for at, key in zip(offsets, keys, strict=True)}
        self.touch({*keys} - waits)

    @rule(member=MEMBERS, most=st.integers(1, 8), span=st.integers(1, 20))
    def take(self, member: str, most: int, span: int) -> None:
        may = self.deliverable(member)
        assert self.order.next_offset(member) == (may[0] if may else None)
        last = (may[0] if may else self.order.end) + span
        taken = self.order.take(member, last, most)
        within = [offset for offset in may if offset <= last]
        assert len(taken) == min(most, len(within))
        assert set(taken) <= set(within)
        assert not taken or taken[0] == within[0], "the oldest one comes first"
        held = {one.key for one in self.records.values() if one.holder}
        self.touch({self.records[offset].key for offset in taken} - held)
        for offset in taken:
            assert all(one.holder == member for one in self.earlier(offset))
            self.records[offset].holder = member

    @rule(key_max=st.integers(1, 4))
    def configure(self, key_max: int) -> None:
        if key_max != self.order.key_max:
            self.order.key_max = key_max
            self.touch(one.key for one in self.records.values())

    @rule(width=st.integers(1, 5))
    def narrow_or_widen(self, width: int) -> None:
        self.order.width = width

    @rule(which=st.integers(0, 99))
    def finish_a_held_one(self, which: int) -> None:
        held = [at for at, one in self.records.items() if one.holder and not self.earlier(at)]
        if held:
            offset = held[which % len(held)]
            self.touch([self.records[offset].key])
            del self.records[offset]
            self.order.finish([offset])

    @rule(which=st.integers(0, 99), count=st.integers(1, 3))
    def archive_any(self, which: int, count: int) -> None:
        """As when the log loses records."""
        gone = nsmallest(count, [at for at in self.records if at >= which])
        for offset in gone:
            self.touch([self.records[offset].key])
            del self.records[offset]
        self.order.finish(gone)

    @rule(which=st.integers(0, 99))
    def give_back(self, which: int) -> None:
        held = [at for at, one in self.records.items() if one.holder]
        if held:
            offset = held[which % len(held)]
            key = self.records[offset].key
            later = [at for at in sorted(held) if at > offset and self.records[at].key == key]
            assert self.order.give_back(offset) == later
            self.failed[key] = max(self.failed.get(key, -1), offset)
            self.touch([key])
            for at in (offset, *later):
                self.records[at].holder = None
            assert self.order.give_back(offset) == []

    @rule(which=st.integers(0, 99), blocks=st.booleans())
    def block(self, which: int, blocks: bool) -> None:
        """Any that nobody holds, also behind others of its key."""
        free = [at for at, one in self.records.items() if not one.holder]
        some = free if blocks else sorted(self.blocked)
        if some:
            offset = some[which % len(some)]
            (self.order.block if blocks else self.order.unblock)(offset)
            (self.blocked.add if blocks else self.blocked.discard)(offset)
            if not blocks:
                self.touch([self.records[offset].key])

    @rule(by=st.integers(0, 30))
    def move_start(self, by: int) -> None:
        start = min(self.records, default=self.order.end) + by
        for offset in sorted(at for at in self.records if at < start):
            self.touch([self.records[offset].key])
            del self.records[offset]
        self.order.move_start(start)

    @invariant()
    def agrees(self) -> None:
        self.order.check_invariants()
        self.blocked &= self.records.keys()
        assert self.order.blocked == self.blocked
        assert self.order.blocked_keys == len({self.records[at].key for at in self.blocked})
        assert len(self.order) == len(self.records)
        assert self.order.keys == len({one.key for one in self.records.values()})


TestOrders = Orders.TestCase
TestOrders.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_stalled_key_costs_nobody_else_anything() -> None:
    """A million records wait behind one key, and the next of another is found at once."""
    order = KeyQueues(0, 10)
    order.load([0], [7], 1)
    assert order.take("slow", 0, 10) == [0]
    order.load(range(1, 200_000), [7] * 199_999, 200_000)
    order.load([200_000], [8], 200_001)
    assert order.next_offset("quick") == 200_000
    assert order.take("quick", 200_000, 10) == [200_000]
    assert order.take("quick", 200_000, 10) == []
