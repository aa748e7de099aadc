"""A share partition whose records come by class, beside a naive model of each record.

Random members fetch, answer, fall silent and leave; operators decide; records expire and are lost;
the partition is loaded again from what it said must be durable. Always: a member gets available
records only. Where tenants take turns, it gets something if there is something for it among what
was read, and no tenant has more records in flight than its limit. With priorities it gets exactly
what the model says. At the end a member that accepts everything finishes every record.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sharegroup.share.archived import Archived
from sharegroup.share.order.classed_order import fair_order, priority_order
from sharegroup.share.order.order import Order
from sharegroup.share.pauses import BackOff
from sharegroup.share.record_state import ACQUIRED, AVAILABLE, DELAYED, AckType, RecordState, Verb
from sharegroup.share.schedule import NotDue
from sharegroup.share.settings import DeliverySettings, Fairness, Priority
from sharegroup.share.window import Window
from tests.share.durable import Durable, runs_of
from tests.share.keyed import keyed_partition

MEMBERS = st.sampled_from(["a", "b", "c"])
LOCK_MS, LIMIT, LOCKS_MAX = 100, 3, 12
BATCH = 4
NO_RECORD = -1


@dataclass
class Record:
    """What the model knows of one."""

    tenant: int
    state: RecordState = AVAILABLE
    count: int = 0
    holder: str = ""
    deadline: int = 0
    """When its lock ends, or its rest."""

    @property
    def finished(self) -> bool:
        return self.state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)

    def back(self, state: RecordState = AVAILABLE) -> None:
        self.state, self.holder = state, ""


class FairMachine(RuleBasedStateMachine):
    """Tenants take turns; priorities differ in who is next."""

    def order(self, window: Window, archived: Archived) -> Order:
        return fair_order(window, archived)

    def expected(self, wanted: list[int], most: int) -> list[int] | None:
        """Exactly what a member gets of ``wanted``; None: something of it, if there is any."""
        return None

    def next(self, waiting: list[int]) -> list[int]:
        """Any of these may be the next record."""
        return waiting

    def __init__(self) -> None:
        super().__init__()
        self.partition = keyed_partition(order=self.order)
        self.records: dict[int, Record] = {}
        self.log_end = 0
        self.now_ms = 0
        self.settings = DeliverySettings(
            lock_ms=LOCK_MS,
            delivery_count_limit=LIMIT,
            record_locks_max=LOCKS_MAX,
            fairness=Fairness(),
            priority=Priority(b"p", 2),
        )
        self.durable = Durable()
        self.freed: set[int] = set()
        """Released by an operator before their time."""
        self.begun: int | None = None
        """Where a read of the log began that has not ended."""

    # -- the model --------------------------------------------------------------------------

    @property
    def tenant_max(self) -> int:
        return self.settings.fairness.held_max if self.settings.fairness else 0

    def in_flight(self) -> Counter[int]:
        return Counter(one.tenant for one in self.records.values() if one.holder)

    def wanted(self, first: int, end: int) -> list[int]:
        """Available records there, of tenants below their limit."""
        most, held = self.tenant_max, self.in_flight()
        return [
            at
            for at, one in sorted(self.records.items())
            if first <= at < end and one.state is AVAILABLE
            if not most or held[one.tenant] < most
        ]

    def fail(self, at: int) -> None:
        one = self.records[at]
        if one.count >= LIMIT:
            one.back(RecordState.ARCHIVED)
        elif self.settings.back_off:
            one.back(DELAYED)
            one.deadline = self.now_ms + min(30 * 2 ** (one.count - 1), 60)
        else:
            one.back()

    def held(self, member: str) -> list[int]:
        return [at for at, one in sorted(self.records.items()) if one.holder == member]

    def batches(self, base: int, end: int) -> list[tuple[int, int]]:
        return [(at, at + BATCH - 1) for at in range(base, end, BATCH)]

    def load(self, end: int) -> None:
        since = self.partition.order.loaded_end
        known = [at for at in sorted(self.records) if since - since % BATCH <= at < end]
        if end > since:
            self.partition.order.load(known, [self.records[at].tenant for at in known], end)

    # -- the log ----------------------------------------------------------------------------

    @initialize(rests=st.booleans())
    def begin(self, rests: bool) -> None:
        back_off = BackOff(30, 60, 2.0, 0.0) if rests else None
        self.settings = replace(self.settings, back_off=back_off)
        self.append([0, 0, 1, 0])

    @rule(tenants=st.lists(st.integers(NO_RECORD, 3), min_size=1, max_size=3 * BATCH))
    def append(self, tenants: list[int]) -> None:
        """Some offsets hold no record, as where the log was compacted."""
        while len(tenants) % BATCH:
            tenants = [*tenants, NO_RECORD]
        for tenant in tenants:
            if tenant != NO_RECORD:
                self.records[self.log_end] = Record(tenant)
            self.log_end += 1

    @rule(batches=st.integers(1, 4))
    def look_ahead(self, batches: int) -> None:
        since = self.partition.order.loaded_end
        self.load(min(since - since % BATCH + batches * BATCH, self.log_end))

    # -- members ----------------------------------------------------------------------------

    @rule(member=MEMBERS, most=st.integers(1, 9), batches=st.integers(1, 4))
    def fetch(self, member: str, most: int, batches: int) -> None:
        partition = self.partition
        begun, self.begun = self.begun, None
        offset = partition.next_fetch_offset(member) if begun is None else begun
        if offset >= self.log_end or not partition.can_acquire(self.settings, member):
            return
        base = offset - offset % BATCH
        end = min(base + batches * BATCH, self.log_end)
        if offset <= partition.order.loaded_end:
            self.load(end)
        wanted = self.wanted(base, min(end, partition.order.loaded_end))
        room = LOCKS_MAX - sum(self.in_flight().values())
        expected = None
        if offset <= partition.order.loaded_end:
            expected = self.expected(wanted, min(most, room))
        acquisition = partition.acquire(
            member,
            self.batches(base, end),
            fetch_offset=offset,
            records_max=most,
            batch_size=500,
            strict=True,
            now_ms=self.now_ms,
            settings=self.settings,
        )
        given = [(at, one.delivery_count) for one in acquisition.ranges
                 for at in range(one.first, one.last + 1)]  # fmt: skip
        assert given == sorted(given)
        assert len(given) <= min(most, room)
        if expected is not None:
            assert [at for at, _ in given] == sorted(expected)
        elif wanted and room > 0:
            assert given, f"one of {wanted} could have been delivered"
        for at, count in given:
            record = self.records[at]
            assert at in wanted
            record.state, record.holder = ACQUIRED, member
            record.count += 1
            record.deadline = self.now_ms + LOCK_MS
            assert count == record.count
        if self.tenant_max and given:
            now = self.in_flight()
            for tenant in {self.records[at].tenant for at, _ in given}:
                assert now[tenant] <= self.tenant_max

    @rule(
        waits=st.lists(st.sampled_from([0, 0, 10, 40, 300]), min_size=1, max_size=9),
        batches=st.integers(1, 4),
    )
    def let_rest(self, waits: list[int], batches: int) -> None:
        """Some records are not due yet."""
        offset = self.partition.next_fetch_offset("a")
        base = offset - offset % BATCH
        end = min(base + batches * BATCH, self.log_end)
        if base >= end:
            return
        read = [at for at in sorted(self.records) if base <= at < end]
        later = [
            NotDue(at, at, self.now_ms + ms)
            for number, at in enumerate(read)
            if (ms := waits[number % len(waits)])
        ]
        left = self.partition.let_rest(
            later,
            self.batches(base, end),
            fetch_offset=offset,
            now_ms=self.now_ms,
            settings=self.settings,
        )
        assert left is None
        for at, _, due_ms in later:
            one = self.records[at]
            known = self.partition.start_offset <= at < self.partition.order.loaded_end
            if known and (one.state, one.count) == (AVAILABLE, 0) and at not in self.freed:
                one.state, one.deadline = DELAYED, due_ms

    @rule(member=MEMBERS)
    def begin_to_read(self, member: str) -> None:
        """Much may happen until the read ends."""
        self.begun = self.partition.next_fetch_offset(member)

    @rule(member=MEMBERS, data=st.data())
    def acknowledge(self, member: str, data: st.DataObject) -> None:
        mine = self.held(member)
        kinds = data.draw(st.lists(st.sampled_from([None, *AckType]), max_size=len(mine)))
        said = {at: kind for at, kind in zip(mine, kinds, strict=False) if kind is not None}
        if said:
            self.say(member, said)

    def say(self, member: str, said: dict[int, AckType]) -> None:
        change = self.partition.acknowledge(
            member,
            [(at, at, [kind]) for at, kind in said.items()],
            now_ms=self.now_ms,
            settings=self.settings,
        )
        for at, kind in said.items():
            one = self.records[at]
            if kind is AckType.RENEW:
                one.deadline = self.now_ms + LOCK_MS
            elif kind is AckType.RELEASE:
                self.fail(at)
            else:
                accept = kind is AckType.ACCEPT
                one.back(RecordState.ACKNOWLEDGED if accept else RecordState.ARCHIVED)
        self.durable.write(change)

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        change = self.partition.release_member(member, now_ms=self.now_ms, settings=self.settings)
        for at in self.held(member):
            self.fail(at)
        self.durable.write(change)

    @rule(ms=st.integers(1, 150))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        for at, one in self.records.items():
            if one.deadline > self.now_ms:
                continue
            if one.state is DELAYED:
                one.back()
            elif one.holder:
                self.fail(at)
        self.durable.write(self.partition.tick(self.now_ms, self.settings))

    @rule(most=st.integers(0, 3))
    def configure(self, most: int) -> None:
        self.settings = replace(self.settings, fairness=Fairness(held_max=most))
        self.partition.order.configure(self.settings)

    # -- operators, expiry, loss ------------------------------------------------------------

    @rule(
        back=st.integers(-2, 12),
        size=st.integers(1, 12),
        verb=st.sampled_from([Verb.ACCEPT, Verb.RELEASE, Verb.RELEASE, Verb.REJECT, Verb.RENEW]),
    )
    def decide(self, back: int, size: int, verb: Verb) -> None:
        """An operator decides about any records, whoever holds them."""
        first = max(0, min(self.partition.start_offset + back, self.log_end - 1))
        last = min(first + size, self.log_end) - 1
        inside = range(first, last + 1)
        found = [one for at in inside if (one := self.records.get(at)) and not one.finished]
        if verb in (Verb.RELEASE, Verb.RENEW):
            found = [one for one in found if one.state is not AVAILABLE]
        while first <= last:
            done = self.partition.decide(
                first, last, verb, now_ms=self.now_ms, settings=self.settings, extend_ms=LOCK_MS
            )
            self.durable.write(done.change)
            first = done.end
        for one in found:
            if verb is Verb.RELEASE:
                if one.state is DELAYED and not one.count:
                    self.freed |= {at for at in inside if self.records.get(at) is one}
                one.back()
                one.count = min(one.count, LIMIT - 1)
            elif verb is Verb.RENEW and one.holder:
                one.deadline = max(one.deadline, self.now_ms + LOCK_MS)
            elif verb is not Verb.RENEW:
                accept = verb is Verb.ACCEPT
                one.back(RecordState.ACKNOWLEDGED if accept else RecordState.ARCHIVED)

    @rule(which=st.lists(st.booleans(), min_size=1, max_size=9), batches=st.integers(1, 4))
    def expire(self, which: list[bool], batches: int) -> None:
        """Some records are worthless by now, also such as rest."""
        offset = self.partition.next_fetch_offset("a")
        base = offset - offset % BATCH
        end = min(base + batches * BATCH, self.log_end)
        if base >= end:
            return
        read = [at for at in sorted(self.records) if base <= at < end]
        expired = [at for number, at in enumerate(read) if which[number % len(which)]]
        change = self.partition.expire(
            [(run[0], run[-1]) for run in runs_of(expired)],
            self.batches(base, end),
            fetch_offset=offset,
            settings=self.settings,
        )
        for at in expired:
            one = self.records[at]
            if at < self.partition.order.loaded_end and not one.finished and not one.holder:
                one.back(RecordState.ARCHIVED)
        self.durable.write(change)

    @rule(size=st.integers(1, 6), whole=st.booleans())
    def lose(self, size: int, whole: bool) -> None:
        """The log has lost records: at its start, or some that are damaged."""
        if whole:
            start = min(self.partition.start_offset + size, self.log_end)
            change = self.partition.log_start_moved(start)
            gone = [one for at, one in self.records.items() if at < start]
            for one in gone:
                if not one.finished:
                    one.back(RecordState.ARCHIVED)
        else:
            first = self.partition.next_fetch_offset("a")
            last = min(first + size, self.log_end) - 1
            if last < first:
                return
            change = self.partition.damaged(first, last)
            for at in range(first, last + 1):
                damaged = self.records.get(at)
                if damaged is not None and not damaged.finished and not damaged.holder:
                    damaged.back(RecordState.ARCHIVED)
        self.durable.write(change)

    # -- durable state ----------------------------------------------------------------------

    @rule(left=st.none() | MEMBERS, batches=st.integers(0, 4), ms=st.integers(0, 60))
    def load_again(self, left: str | None, batches: int, ms: int) -> None:
        """As after a restart: locks are gone, and so is what was not written. A member may have got
        records just before, and left, so that they rest. Some of the log is looked at again, and
        rests may end before anything else happens."""
        if left is not None:
            self.fetch(left, 4, 2)
            self.leave(left)
        durable, resting = self.durable, self.durable.resting
        self.begun = None
        self.partition = keyed_partition(
            durable.start, durable.rows, resting.values(), order=self.order
        )
        self.partition.order.configure(self.settings)
        self.freed = durable.freed
        for at, one in self.records.items():
            state, count = durable.states.get(at, (0, 0))
            if at < durable.start:
                assert one.finished, f"{at} is lost"
                continue
            if one.finished and state not in (2, 4):
                # Damage need not be written: the next read finds it again.
                assert one.state is RecordState.ARCHIVED
            else:
                assert one.finished == (state in (2, 4)), f"{at} is not as it was written"
            if state not in (2, 4):
                one.back()
                one.count = count
                if at in resting:
                    one.state, one.deadline = DELAYED, resting[at].due_ms
        self.look_ahead(batches)
        if ms:
            self.pass_time(ms)

    @invariant()
    def agrees(self) -> None:
        self.partition.check_invariants()
        for span in self.partition.spans():
            for at in range(span.first, span.last + 1):
                one = self.records.get(at)
                if one is not None:
                    holder = "" if span.lock is None else span.lock.member_id
                    assert (span.state, holder) == (one.state, one.holder), at
                    assert one.finished or span.delivery_count == one.count, at
        end = self.partition.order.loaded_end
        waiting = self.wanted(0, end)
        found = self.partition.next_fetch_offset("a")
        assert found == end if not waiting else found in self.next(waiting), "the next record"

    def teardown(self) -> None:
        """Everybody but one leaves, and this one accepts: every record is finished."""
        self.begun = None
        for member in ("a", "b", "c"):
            self.leave(member)
        self.pass_time(1_000)
        for _ in range(3 * self.log_end + 10):
            before = self.partition.order.loaded_end
            self.fetch("z", 9, 4)
            said = dict.fromkeys(self.held("z"), AckType.ACCEPT)
            if said:
                self.say("z", said)
            self.agrees()
            if not said and before == self.partition.order.loaded_end:
                break
        assert self.partition.start_offset == self.partition.order.loaded_end == self.log_end
        assert all(one.finished for one in self.records.values()), "a record is lost"


class PriorityMachine(FairMachine):
    def __init__(self) -> None:
        super().__init__()
        self.overtakes = 0
        self.overtakes_max = 2
        self.partition.order.configure(self.settings)

    def order(self, window: Window, archived: Archived) -> Order:
        return priority_order(window, archived)

    def first(self, waiting: list[int]) -> int:
        """The highest priority's first record, or the oldest one if it is due."""
        if self.overtakes_max and self.overtakes >= self.overtakes_max:
            return min(waiting)
        return max(waiting, key=lambda at: (self.records[at].tenant, -at))

    def next(self, waiting: list[int]) -> list[int]:
        return [self.first(waiting)]

    def expected(self, wanted: list[int], most: int) -> list[int] | None:
        waiting = self.wanted(0, self.partition.order.loaded_end)
        taken: list[int] = []

        def take(at: int) -> None:
            taken.append(at)
            waiting.remove(at)

        while waiting and len(taken) < most:
            first = self.first(waiting)
            if first not in wanted:
                break
            level = self.records[first].tenant
            if any(self.records[at].tenant > level for at in waiting):
                self.overtakes -= self.overtakes_max
                take(first)
                continue
            lower = [at for at in waiting if self.records[at].tenant < level]
            if not lower:
                self.overtakes = 0
            for at in [at for at in waiting if at in wanted and self.records[at].tenant == level]:
                if len(taken) < most:
                    self.overtakes += bool(lower) and min(lower) < at
                    take(at)
        return taken

    @rule(most=st.integers(0, 5))
    def configure(self, most: int) -> None:
        self.overtakes_max = most
        self.settings = replace(self.settings, priority=Priority(b"p", most))
        self.partition.order.configure(self.settings)

    @rule(left=st.none() | MEMBERS, batches=st.integers(0, 4), ms=st.integers(0, 60))
    def load_again(self, left: str | None, batches: int, ms: int) -> None:
        super().load_again(left, batches, ms)
        self.overtakes = 0


TestFair = FairMachine.TestCase
TestFair.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestPriority = PriorityMachine.TestCase
TestPriority.settings = TestFair.settings
