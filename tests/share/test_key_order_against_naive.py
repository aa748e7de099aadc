"""A share partition with order per key, beside a naive model that knows each record by itself.

Random members fetch, accept, release, reject, renew, fall silent and leave; the partition is loaded
again from what it said must be durable. Two things hold always: no record is accepted while an
earlier one of its key is unfinished, and no two members hold records of one key. At the end members
that accept everything finish every record: nothing is lost.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharegroup.model.errors import InvalidRecordState
from sharegroup.share.order.key_order import SOFT_LIMIT
from sharegroup.share.pauses import BackOff
from sharegroup.share.record_state import AckType, RecordState, Verb
from sharegroup.share.schedule import NotDue
from sharegroup.share.settings import DeliverySettings
from tests.share.durable import Durable, runs_of
from tests.share.keyed import Record, key_order, keyed_partition

MEMBERS = st.sampled_from(["a", "b", "c"])
LOCK_MS, LIMIT, LOCKS_MAX = 100, 3, 12
BATCH = 4
NO_RECORD = -1


class OrderedMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.partition = keyed_partition()
        self.records: dict[int, Record] = {}
        self.log_end = 0
        self.now_ms = 0
        self.settings = DeliverySettings(
            lock_ms=LOCK_MS, delivery_count_limit=LIMIT, record_locks_max=LOCKS_MAX, key_max=3
        )
        self.durable = Durable()
        self.freed: set[int] = set()
        """Released by an operator before their time."""
        self.failed: dict[int, int] = {}
        """The last record of each key that has failed: up to it, one is held at a time."""
        self.accepted: list[int] = []
        self.begun: int | None = None
        """Where a read of the log began that has not ended."""

    # -- the model --------------------------------------------------------------------------

    def of_key(self, offset: int) -> list[tuple[int, Record]]:
        key = self.records[offset].key
        return [(at, one) for at, one in sorted(self.records.items()) if one.key == key]

    def is_early(self, offset: int) -> bool:
        return any(at < offset and not one.finished for at, one in self.of_key(offset))

    def most_of(self, key: int) -> int:
        first = min(at for at, one in self.records.items() if one.key == key and not one.finished)
        return 1 if first <= self.failed.get(key, -1) else self.settings.key_max

    def take_back_later(self, offset: int) -> None:
        key = self.records[offset].key
        self.failed[key] = max(self.failed.get(key, -1), offset)
        for at, one in self.of_key(offset):
            if at > offset and one.state == RecordState.ACQUIRED:
                one.back(one.count - 1)

    def fail(self, offset: int) -> None:
        one = self.records[offset]
        if one.count >= LIMIT and not self.settings.blocks:
            one.state, one.holder = RecordState.ARCHIVED, ""
        else:
            self.rest(one)

    def rest(self, one: Record) -> None:
        """It goes back, and rests if its group has a back-off."""
        one.back(one.count)
        if self.settings.back_off and one.count < LIMIT:
            one.state = RecordState.DELAYED
            one.deadline = self.now_ms + min(30 * 2 ** (one.count - 1), 60)

    def blocked(self) -> list[int]:
        return [
            at
            for at, one in sorted(self.records.items())
            if self.settings.blocks and one.state == RecordState.AVAILABLE and one.count >= LIMIT
        ]

    def end_locks(self, ended: list[int]) -> None:
        for offset in ended:
            if self.records[offset].state == RecordState.ACQUIRED:
                self.take_back_later(offset)
                self.fail(offset)

    def held(self, member: str) -> list[int]:
        return [at for at, one in sorted(self.records.items()) if one.holder == member]

    # -- the log ----------------------------------------------------------------------------

    @initialize(blocks=st.booleans(), rests=st.booleans())
    def begin(self, blocks: bool, rests: bool) -> None:
        back_off = BackOff(30, 60, 2.0, 0.0) if rests else None
        self.settings = replace(self.settings, blocks=blocks, back_off=back_off)
        self.append([0, 0, 1, 0])

    @rule(keys=st.lists(st.integers(NO_RECORD, 3), min_size=1, max_size=3 * BATCH))
    def append(self, keys: list[int]) -> None:
        """Some offsets hold no record, as where the log was compacted."""
        while len(keys) % BATCH:
            keys = [*keys, NO_RECORD]
        for key in keys:
            if key != NO_RECORD:
                self.records[self.log_end] = Record(key)
            self.log_end += 1

    # -- members ----------------------------------------------------------------------------

    @rule(member=MEMBERS, most=st.integers(1, 9), batches=st.integers(1, 4), strict=st.booleans())
    def fetch(self, member: str, most: int, batches: int, strict: bool = True) -> None:
        partition = self.partition
        offset = self.begun
        if offset is None:
            offset = partition.next_fetch_offset(member)
        self.begun = None
        if offset >= self.log_end or not partition.can_acquire(self.settings, member):
            return
        base = offset - offset % BATCH
        end = min(base + batches * BATCH, self.log_end)
        stuck = self.blocked()
        known = [at for at in sorted(self.records) if base <= at < end]
        if end > partition.order.loaded_end:
            partition.order.load(known, [self.records[at].key for at in known], end)
        acquisition = partition.acquire(
            member,
            [(at, at + BATCH - 1) for at in range(base, end, BATCH)],
            fetch_offset=offset,
            records_max=most,
            batch_size=500,
            strict=strict,
            now_ms=self.now_ms,
            settings=self.settings,
        )
        given = [(at, one.delivery_count) for one in acquisition.ranges
                 for at in range(one.first, one.last + 1)]  # fmt: skip
        assert len(given) <= (most if strict else SOFT_LIMIT * most)
        for at, count in given:
            record = self.records[at]
            assert base <= at < end, "not among what was read"
            assert record.state == RecordState.AVAILABLE
            assert at not in stuck, "it waits for an operator"
            for before, one in self.of_key(at):
                assert one.finished or one.holder == member or before >= at, "out of order"
                assert one.holder in ("", member), "two members hold records of one key"
            record.state, record.holder = RecordState.ACQUIRED, member
            record.count += 1
            record.deadline = self.now_ms + LOCK_MS
            assert count == record.count
            mine = [one for _, one in self.of_key(at) if one.holder == member]
            assert len(mine) <= self.most_of(record.key), "it would be taken back again"
        assert len([one for one in self.records.values() if one.holder]) <= LOCKS_MAX

    @rule(which=st.lists(st.booleans(), min_size=1, max_size=9), batches=st.integers(1, 4))
    def expire(self, which: list[bool], batches: int) -> None:
        """Some records are worthless by now, also such as rest or wait for an operator."""
        offset = self.partition.next_fetch_offset("a")
        base = offset - offset % BATCH
        end = min(base + batches * BATCH, self.log_end)
        if base >= end:
            return
        read = [at for at in sorted(self.records) if base <= at < end]
        expired = [at for number, at in enumerate(read) if which[number % len(which)]]
        change = self.partition.expire(
            [(run[0], run[-1]) for run in runs_of(expired)],
            [(at, at + BATCH - 1) for at in range(base, end, BATCH)],
            fetch_offset=offset,
            settings=self.settings,
        )
        for at in expired:
            one = self.records[at]
            if at < self.partition.order.loaded_end and not one.finished and not one.holder:
                one.state = RecordState.ARCHIVED
        self.durable.write(change)

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
            NotDue(at, at, self.now_ms + waits[number % len(waits)])
            for number, at in enumerate(read)
            if waits[number % len(waits)]
        ]
        left = self.partition.let_rest(
            later,
            [(at, at + BATCH - 1) for at in range(base, end, BATCH)],
            fetch_offset=offset,
            now_ms=self.now_ms,
            settings=self.settings,
        )
        assert left is None
        for at, _, due_ms in later:
            one = self.records[at]
            known = self.partition.start_offset <= at < self.partition.order.loaded_end
            if known and (one.state, one.count) == (0, 0) and at not in self.freed:
                one.state, one.deadline = RecordState.DELAYED, due_ms

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

    @rule(member=MEMBERS, which=st.integers(0, 99), last=st.booleans())
    def fail_again_and_again(self, member: str, which: int, last: bool) -> None:
        """One record, alone, up to the limit; with ``last`` one behind others of its key."""
        self.fetch(member, 9, 4)
        mine = self.held(member)
        if not mine:
            return
        at = mine[which % len(mine)]
        if last:
            at = max(other for other in mine if self.records[other].key == self.records[at].key)
        for _ in range(LIMIT):
            if self.records[at].holder == member:
                self.say(member, {at: AckType.RELEASE})
                self.fetch(member, 9, 4)

    def say(self, member: str, said: dict[int, AckType]) -> None:
        change = self.partition.acknowledge(
            member,
            [(at, at, [kind]) for at, kind in said.items()],
            now_ms=self.now_ms,
            settings=self.settings,
        )
        early = self.answer(said)
        assert early == (0 if change is None else change.late), (
            "an accept is confirmed, or counts not"
        )
        self.durable.write(change)

    def answer(self, said: dict[int, AckType]) -> int:
        """Those that end a record first, then what is accepted, then what goes back; how many
        accepts are out of order and not behind a release."""
        self.end(said)
        early = []
        for at, kind in said.items():
            if kind is AckType.ACCEPT and self.is_early(at):
                early.append(at)
            elif kind is AckType.ACCEPT:
                self.records[at].state, self.records[at].holder = RecordState.ACKNOWLEDGED, ""
                self.accepted.append(at)
        explained: set[int] = set()
        for at in sorted(said):
            record = self.records[at]
            if record.state != RecordState.ACQUIRED:
                continue
            if said[at] is AckType.RELEASE:
                held = [one for one, its in self.of_key(at) if its.state == RecordState.ACQUIRED]
                explained.update(one for one in held if one > at)
                self.take_back_later(at)
                self.rest(record)
            elif at in early:
                self.take_back_later(at)
                record.back(record.count - 1)
        for at, kind in said.items():
            if kind is AckType.RENEW and self.records[at].state == RecordState.ACQUIRED:
                self.records[at].deadline = self.now_ms + LOCK_MS
        return len(set(early) - explained)

    def end(self, said: dict[int, AckType]) -> None:
        """Archive what is rejected, and what is released too often."""
        for at, kind in said.items():
            exhausted = kind is AckType.RELEASE and self.records[at].count >= LIMIT
            exhausted = exhausted and not self.settings.blocks
            if exhausted or kind in (AckType.GAP, AckType.REJECT):
                self.records[at].state, self.records[at].holder = RecordState.ARCHIVED, ""

    @rule(member=MEMBERS, which=st.integers(0, 99), kind=st.sampled_from(AckType))
    def answer_late(self, member: str, which: int, kind: AckType) -> None:
        """About a record that the member does not hold: it changes nothing."""
        inside = range(self.partition.start_offset, self.partition.end_offset)
        others = [at for at in inside if at in self.records and self.records[at].holder != member]
        if not others:
            return
        at = others[which % len(others)]
        late = key_order(self.partition).disorder.late + self.partition.late
        try:
            self.partition.acknowledge(
                member, [(at, at, [kind])], now_ms=self.now_ms, settings=self.settings
            )
        except InvalidRecordState:
            assert key_order(self.partition).disorder.late + self.partition.late == late + 1
        else:
            raise AssertionError(f"{member} has answered for {at}")

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        held = self.held(member)
        change = self.partition.release_member(member, now_ms=self.now_ms, settings=self.settings)
        self.end_locks(held)
        self.durable.write(change)

    @rule(ms=st.integers(1, 150))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        for one in self.records.values():
            if one.state == RecordState.DELAYED and one.deadline <= self.now_ms:
                one.state = RecordState.AVAILABLE
        due = [at for at, one in sorted(self.records.items())
               if one.holder and one.deadline <= self.now_ms]  # fmt: skip
        change = self.partition.tick(self.now_ms, self.settings)
        self.end_locks(due)
        self.durable.write(change)
        deadline = self.partition.next_deadline_ms()
        assert deadline is None or deadline > self.now_ms

    @rule(most=st.integers(1, 4), blocks=st.booleans())
    def configure(self, most: int, blocks: bool) -> None:
        self.settings = replace(self.settings, key_max=most, blocks=blocks)

    @precondition(lambda self: self.blocked())
    @rule(which=st.integers(0, 99), archive=st.booleans())
    def decide(self, which: int, archive: bool) -> None:
        """An operator lets a key go on."""
        inside = range(self.partition.start_offset, self.partition.end_offset)
        stuck = [at for at in self.blocked() if at in inside]
        for at in inside:
            assert key_order(self.partition).is_blocked(at, self.settings) == (at in stuck)
        if stuck:
            at = stuck[which % len(stuck)]
            self.decided(at, at, Verb.REJECT if archive else Verb.RELEASE)
            if archive:
                self.records[at].state = RecordState.ARCHIVED
            else:
                self.records[at].count = LIMIT - 1

    def decided(self, first: int, last: int, verb: Verb) -> int:
        """How many records a decision by hand was about."""
        records = 0
        while first <= last:
            done = self.partition.decide(
                first, last, verb, now_ms=self.now_ms, settings=self.settings, extend_ms=LOCK_MS
            )
            self.durable.write(done.change)
            first, records = done.end, records + done.records
        return records

    @rule(
        back=st.integers(-2, 12),
        size=st.integers(1, 12),
        verb=st.sampled_from([Verb.ACCEPT, Verb.RELEASE, Verb.RELEASE, Verb.REJECT, Verb.RENEW]),
    )
    def decide_range(self, back: int, size: int, verb: Verb) -> None:
        """An operator decides about any records, whoever holds them."""
        first = max(0, min(self.partition.start_offset + back, self.log_end - 1))
        last = min(first + size, self.log_end) - 1
        found = [at for at in range(first, last + 1) if at in self.records]
        found = [at for at in found if not self.records[at].finished]
        self.decided(first, last, verb)
        if verb is Verb.RELEASE:
            self.release_by_hand(found)
        for at in found:
            one = self.records[at]
            if verb is Verb.RENEW and one.state == RecordState.ACQUIRED:
                one.deadline = max(one.deadline, self.now_ms + LOCK_MS)
            elif verb in (Verb.ACCEPT, Verb.REJECT):
                one.back(one.count)
                accept = verb is Verb.ACCEPT
                one.state = RecordState.ACKNOWLEDGED if accept else RecordState.ARCHIVED

    def release_by_hand(self, found: list[int]) -> None:
        for at in found:
            one = self.records[at]
            if one.state == RecordState.ACQUIRED:
                self.take_back_later(at)
            if one.state == RecordState.DELAYED and not one.count:
                self.freed.add(at)
            if one.state != RecordState.AVAILABLE or one.count >= LIMIT:
                one.back(min(one.count, LIMIT - 1))

    # -- durable state ----------------------------------------------------------------------

    @rule()
    def load_again(self) -> None:
        """As after a restart: locks are gone, and so is what was not written."""
        durable, resting = self.durable, self.durable.resting
        self.begun = None
        self.failed.clear()
        self.partition = keyed_partition(durable.start, durable.rows, resting.values())
        self.freed = durable.freed
        for at, one in self.records.items():
            state, count = durable.states.get(at, (0, 0))
            if at >= durable.start:
                assert one.finished == (state in (2, 4)), f"{at} is not as it was written"
                if not one.finished:
                    one.back(count)
                if not one.finished and at in resting:
                    one.state, one.deadline = RecordState.DELAYED, resting[at].due_ms
            else:
                assert one.finished, f"{at} is lost"

    @invariant()
    def agrees(self) -> None:
        self.partition.check_invariants()
        for span in self.partition.spans():
            for at in range(span.first, span.last + 1):
                one = self.records.get(at)
                if one is not None and at < self.partition.end_offset:
                    holder = "" if span.lock is None else span.lock.member_id
                    assert (span.state, holder) == (one.state, one.holder), at
                    assert one.finished or span.delivery_count == one.count, at
        assert all(one.finished for at, one in self.records.items()
                   if at < self.partition.start_offset)  # fmt: skip

    def teardown(self) -> None:
        """Everybody but one leaves, and this one accepts: every record is finished, in order."""
        self.begun = None
        for member in ("a", "b", "c"):
            self.leave(member)
        self.pass_time(1_000)
        while stuck := self.blocked():
            assert self.partition.start_offset <= stuck[0]
            self.decided(stuck[0], stuck[0], Verb.RELEASE)
            self.records[stuck[0]].count = LIMIT - 1
        for _ in range(2 * self.log_end + 10):
            before = self.partition.order.loaded_end, len(self.accepted)
            self.fetch("z", 9, 4)
            said = dict.fromkeys(self.held("z"), AckType.ACCEPT)
            if said:
                acks = [(at, at, [kind]) for at, kind in said.items()]
                self.durable.write(self.partition.acknowledge(
                    "z", acks, now_ms=self.now_ms, settings=self.settings))  # fmt: skip
                self.answer(said)
            self.agrees()
            if before == (self.partition.order.loaded_end, len(self.accepted)):
                break
        assert self.partition.start_offset == self.partition.order.loaded_end == self.log_end
        assert all(one.finished for one in self.records.values()), "a record is lost"
        for key in {one.key for one in self.records.values()}:
            mine = [at for at in self.accepted if self.records[at].key == key]
            assert mine == sorted(set(mine)), f"{mine} of key {key} were accepted in this order"


TestOrdered = OrderedMachine.TestCase
TestOrdered.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
