"""The real partition, its durable state included, against the naive one under random commands."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share import acknowledge, release, schedule, stretches
from sharegroup.share.acknowledge import AckBatch
from sharegroup.share.order import log_order
from sharegroup.share.partition import SharePartition
from sharegroup.share.pauses import BackOff
from sharegroup.share.record_state import Verb
from sharegroup.share.schedule import NotDue
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.state_changes import DelayedRow, StateChange
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord
from tests.share.durable import runs_of
from tests.share.naive import NaivePartition, Refused

KEY = SharePartitionKey("g", UUID(int=7), 0)
MEMBERS = st.sampled_from(["anna", "bert", "cleo"])
SETTINGS = st.builds(
    DeliverySettings,
    lock_ms=st.sampled_from([5, 10]),
    delivery_count_limit=st.sampled_from([1, 2, 3, 5, 6, 10]),
    record_locks_max=st.integers(1, 60),
    renew_enabled=st.sampled_from([True, True, True, False]),
    back_off=st.sampled_from([None, None, BackOff(3, 20, 2.0, 0.0), BackOff(40, 50, 1.5, 0.0)]),
    scheduled=st.booleans(),
)
DEFAULTS = DeliverySettings(lock_ms=10, delivery_count_limit=10, record_locks_max=60)


class Delivery(RuleBasedStateMachine):
    """One share partition under any commands, restarts included."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.settings = DEFAULTS
        self.log: list[tuple[int, int]] = []
        self.aborted: set[tuple[int, int]] = set()
        self.log_end = 3
        self.records: list[KeyedRecord] = []
        self.coordinator = ShareCoordinator(updates_per_snapshot=4)
        self.delayed: list[DelayedRow] = []
        """All that were ever delayed: rows that are out of date are ignored."""

    @initialize()
    def begin(self) -> None:
        self.records += self.coordinator.initialize(KEY, 1, 3, self.now_ms)
        self.naive = NaivePartition(start=3, durable_start=3)
        self._load()

    def _load(self) -> None:
        state, records = self.coordinator.read(KEY, 1, self.now_ms)
        self.records += records
        self.real = SharePartition(
            start_offset=state.start_offset,
            state_epoch=state.state_epoch,
            leader_epoch=1,
            batches=state.batches,
            delayed=self.delayed,
        )

    def _write(self, change: StateChange | None) -> None:
        if change is not None:
            for one, after in pairwise(change.batches):
                assert one[1] < after[0], "sorted and disjoint"
                assert (one[1] + 1, *one[2:]) != (after[0], *after[2:]), "joined"
            record = self.coordinator.write(
                KEY, 1, 1, change.start_offset, change.delivery_complete_count, change.batches, 0,
                lowers=change.lowers,
            )  # fmt: skip
            self.records.append(record)
            self.delayed[:0] = change.delayed

    @rule(
        batches=st.lists(
            st.tuples(
                st.integers(1, 12), st.sampled_from([0, 0, 0, 2]), st.sampled_from([False, True])
            ),
            max_size=5,
        )
    )
    def produce(self, batches: list[tuple[int, int, bool]]) -> None:
        for size, hole, aborted in batches:
            base = self.log_end + hole
            self.log.append((base, base + size - 1))
            if aborted:
                self.aborted.add(self.log[-1])
            self.log_end = base + size

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        self.log.remove(data.draw(st.sampled_from(self.log)))

    @rule(settings=SETTINGS)
    def configure(self, settings: DeliverySettings) -> None:
        self.settings = settings

    @rule(
        member=MEMBERS,
        records_max=st.integers(1, 12),
        batch_size=st.integers(1, 6),
        batches_max=st.integers(1, 4),
        strict=st.booleans(),
        committed=st.booleans(),
    )
    def acquire(
        self,
        member: str,
        records_max: int,
        batch_size: int,
        batches_max: int,
        strict: bool,
        committed: bool,
    ) -> None:
        offset = self.real.next_fetch_offset()
        batches = [batch for batch in self.log if batch[1] >= offset][:batches_max]
        aborted = [b for b in batches if b in self.aborted] if committed else []
        expected = self.naive.acquire(
            member,
            batches,
            offset,
            records_max,
            batch_size,
            strict,
            aborted,
            self.now_ms,
            self.settings,
        )
        got = self.real.acquire(
            member,
            batches,
            fetch_offset=offset,
            records_max=records_max,
            batch_size=batch_size,
            strict=strict,
            aborted=aborted,
            now_ms=self.now_ms,
            settings=self.settings,
        )
        given = [(o, r.delivery_count) for r in got.ranges for o in range(r.first, r.last + 1)]
        assert given == expected
        assert got.records == len(expected)

    @rule(
        batches_max=st.integers(1, 4),
        committed=st.booleans(),
        which=st.lists(st.booleans(), min_size=1, max_size=12),
    )
    def expire(self, batches_max: int, committed: bool, which: list[bool]) -> None:
        offset = self.real.next_fetch_offset()
        batches = [batch for batch in self.log if batch[1] >= offset][:batches_max]
        aborted = [b for b in batches if b in self.aborted] if committed else []
        good = [o for b in batches if b not in aborted for o in range(b[0], b[1] + 1)]
        expired = [o for at, o in enumerate(good) if which[at % len(which)]]
        self.naive.expire(batches, aborted, set(expired), self.settings)
        change = self.real.expire(
            [(run[0], run[-1]) for run in runs_of(expired)],
            batches,
            fetch_offset=offset,
            aborted=aborted,
            settings=self.settings,
        )
        self._write(change)

    @rule(
        batches_max=st.integers(1, 4),
        committed=st.booleans(),
        waits=st.lists(st.sampled_from([0, 0, 1, 2, 7, 30, 31, 90]), min_size=1, max_size=12),
    )
    def let_rest(self, batches_max: int, committed: bool, waits: list[int]) -> None:
        offset = self.real.next_fetch_offset()
        batches = [batch for batch in self.log if batch[1] >= offset][:batches_max]
        aborted = [b for b in batches if b in self.aborted] if committed else []
        good = [o for b in batches if b not in aborted for o in range(b[0], b[1] + 1)]
        later = {o: self.now_ms + ms for at, o in enumerate(good) if (ms := waits[at % len(waits)])}
        rows = [
            NotDue(run[0], run[-1], due)
            for due in set(later.values())
            for run in runs_of([o for o in sorted(later) if later[o] == due])
        ]
        expected = batches and self.naive.let_rest(
            batches, offset, aborted, later, self.now_ms, self.settings
        )
        got = self.real.let_rest(
            sorted(rows),
            batches,
            fetch_offset=offset,
            aborted=aborted,
            now_ms=self.now_ms,
            settings=self.settings,
        )
        assert got == (expected if batches else None)

    @rule(member=MEMBERS, data=st.data())
    def acknowledge(self, member: str, data: st.DataObject) -> None:
        batches, offset = [], self.naive.start - data.draw(st.integers(0, 2))
        for _ in range(data.draw(st.integers(1, 4))):
            offset += data.draw(st.integers(0, 4))
            size = data.draw(st.integers(1, 7))
            kinds = st.lists(st.integers(0, 4), min_size=size, max_size=size)
            one = st.integers(0, 4).map(lambda kind: [kind])
            batches.append((offset, offset + size - 1, data.draw(st.one_of(one, kinds))))
            offset += size
        pauses = st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(0, 9))
        self._acknowledge(
            member,
            batches,
            [
                (first, first + more, ms)
                for first, more, ms in data.draw(st.lists(pauses, max_size=2))
            ],
        )

    @rule(
        batches=st.sampled_from(
            [
                [(4, 3, [1])],
                [(-1, 3, [1])],
                [(3, 6, [])],
                [(3, 6, [1, 1])],
                [(3, 6, [5])],
                [(3, 5, [1]), (4, 5, [1])],
                [(9, 9, [1]), (3, 4, [1])],
            ]
        )
    )
    def acknowledge_badly(self, batches: list[AckBatch]) -> None:
        with pytest.raises(InvalidRequest):
            self.real.acknowledge("anna", batches, now_ms=self.now_ms, settings=self.settings)

    @rule(data=st.data())
    def acknowledge_held(self, data: st.DataObject) -> None:
        held = [span for span in self.real.spans() if span.lock and span.lock.member_id]
        if not held:
            return
        span = data.draw(st.sampled_from(held))
        first = data.draw(st.integers(span.first, span.last))
        last = data.draw(st.integers(first, span.last))
        kind = data.draw(st.integers(0, 4))
        assert span.lock is not None
        self._acknowledge(span.lock.member_id, [(first, last, bytes([kind]))])

    @rule(data=st.data(), kinds=st.lists(st.integers(0, 4), min_size=1, max_size=12))
    def acquire_and_answer(self, data: st.DataObject, kinds: list[int]) -> None:
        self.acquire(
            member="anna",
            records_max=data.draw(st.integers(1, 12)),
            batch_size=3,
            batches_max=3,
            strict=data.draw(st.booleans()),
            committed=data.draw(st.booleans()),
        )
        for first, last in [(s.first, s.last) for s in self.real.spans() if s.state == 1]:
            size = min(len(kinds), last - first + 1)
            self._acknowledge("anna", [(first, first + size - 1, kinds[:size])])

    @rule(
        times=st.integers(1, 5),
        batch_size=st.sampled_from([3, 20]),
        strict=st.booleans(),
        some=st.booleans(),
    )
    def deliver_in_vain(self, times: int, batch_size: int, strict: bool, some: bool) -> None:
        for _ in range(times):
            self.acquire("dora", 30, batch_size, 6, strict, committed=False)
            held = [s for s in self.real.spans() if s.lock and s.lock.member_id == "dora"]
            if some and held:
                first, last = held[0].first, max(held[0].first, held[0].last - 1)
                self._acknowledge("dora", [(first, last, [2])])
            else:
                self.release_member("dora")

    def _acknowledge(
        self,
        member: str,
        batches: list[AckBatch],
        pauses: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        def real() -> StateChange | None:
            return self.real.acknowledge(
                member, batches, now_ms=self.now_ms, settings=self.settings, pauses=pauses
            )

        try:
            self.naive.acknowledge(member, batches, self.now_ms, self.settings, list(pauses))
        except Refused:
            with pytest.raises((InvalidRecordState, InvalidRequest)):
                real()
        else:
            self._write(real())

    @rule(
        back=st.integers(-2, 30),
        size=st.integers(1, 30),
        kind=st.sampled_from([0, 1, 2, 2, 3, 4]),
        extend_ms=st.sampled_from([1, 30]),
    )
    def decide(self, back: int, size: int, kind: int, extend_ms: int) -> None:
        """An operator decides, over a range that may begin and end anywhere."""
        first = max(0, min(self.naive.start + back, self.log_end - 1))
        last = min(first + size, self.log_end) - 1
        if last < first:
            return
        expected = self.naive.decide(first, last, kind, self.now_ms, self.settings, extend_ms)
        records = held = 0
        while first <= last:
            done = self.real.decide(
                first, last, Verb(kind), now_ms=self.now_ms, settings=self.settings,
                extend_ms=extend_ms,
            )  # fmt: skip
            self._write(done.change)
            assert done.end > first, "it goes on"
            first, records, held = done.end, records + done.records, held + done.held
        assert (records, held) == expected

    @rule(step_ms=st.integers(1, 6))
    def tick(self, step_ms: int) -> None:
        self.now_ms += step_ms
        expired = self.naive.tick(self.now_ms, self.settings)
        assert self._tick() == expired

    @rule(member=MEMBERS)
    def release_member(self, member: str) -> None:
        released = self.naive.release_member(member, self.now_ms, self.settings)
        # Below, the real one does what is due. After a restart that may be rests that were over.
        released += self.naive.tick(self.now_ms, self.settings)
        change = self.real.release_member(member, now_ms=self.now_ms, settings=self.settings)
        self._write(change)
        released += self.naive.tick(self.now_ms, self.settings)  # rests of before a restart
        assert (change.expired if change else 0) + self._tick() == released

    def _tick(self) -> int:
        """Let the real partition do what is due: how many records it took back."""
        expired = 0
        while (due_ms := self.real.next_deadline_ms()) is not None and due_ms <= self.now_ms:
            change = self.real.tick(self.now_ms, self.settings)
            self.real.check_invariants()
            expired += change.expired if change else 0
            self._write(change)
        return expired

    @rule(ahead=st.sampled_from([-1, 0, 1, 2, 5, 20]))
    def log_start_moved(self, ahead: int) -> None:
        log_start = min(self.naive.start + ahead, self.log_end)
        self.log = [batch for batch in self.log if batch[1] >= log_start]
        self.naive.log_start_moved(log_start)
        self._write(self.real.log_start_moved(log_start))

    def _replayed(self) -> ShareCoordinator:
        coordinator = ShareCoordinator(updates_per_snapshot=4)
        for offset, (key, value) in enumerate(self.records):
            coordinator.replay(key, value, offset)
        return coordinator

    @rule()
    def restart(self) -> None:
        self.coordinator = self._replayed()
        self.naive.restart()
        self._load()

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "real"):
            self._agree(self.real, self.naive)
            self.coordinator.check_invariants()

    @invariant()
    def would_agree_after_a_restart(self) -> None:
        if not hasattr(self, "real"):
            return
        naive = deepcopy(self.naive)
        naive.restart()
        state, _ = self._replayed().read(KEY, 1, self.now_ms)
        real = SharePartition(
            start_offset=state.start_offset,
            state_epoch=1,
            leader_epoch=1,
            batches=state.batches,
            delayed=self.delayed,
        )
        self._agree(real, naive)

    def _agree(self, real: SharePartition, naive: NaivePartition) -> None:
        real.check_invariants()
        assert (real.start_offset, real.end_offset) == (naive.start, naive.end)
        assert real.next_fetch_offset() == naive.next_fetch_offset()
        real_ms, naive_ms = real.next_deadline_ms(), naive.deadline_ms()
        scheduled = any(record.scheduled for record in naive.records.values())
        assert real_ms == naive_ms or (scheduled and real_ms and naive_ms and real_ms < naive_ms)
        assert real.delivery_complete_count == naive.complete
        for span in real.spans():
            for offset in range(span.first, span.last + 1):
                record = naive.records[offset]
                assert span.state == record.state
                if span.state in (0, 1, 5):
                    assert span.delivery_count == record.count
                assert (span.lock.member_id if span.lock else "") == (record.member or "")
                if span.lock and record.scheduled:  # it may move to another lock until it is due
                    assert record.deadline_ms is not None
                    assert span.lock.deadline_ms <= record.deadline_ms
                elif span.lock:
                    assert span.lock.deadline_ms == record.deadline_ms


class DeliveryInSmallSteps(Delivery):
    """The same with short stretches, when what is taken back is taken back a few at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(release, "SPANS_MAX", 2)
        self.patch.setattr(release, "STRETCHES_MAX", 3)
        self.patch.setattr(log_order, "DECIDED_MAX", 2)
        self.patch.setattr(stretches, "SHORT", 4)
        self.patch.setattr(stretches, "LONG", 6)
        self.patch.setattr(stretches, "STATUSES_MAX", 3)
        self.patch.setattr(schedule, "PARTS", 2)
        self.patch.setattr(schedule, "FINE_MS", 1)
        self.patch.setattr(schedule, "LONG", 4)
        self.patch.setattr(schedule, "MOVED_MAX", 2)
        self.patch.setattr(acknowledge, "NEAR", 2)
        self.patch.setattr(acknowledge, "SHORT", 3)

    def teardown(self) -> None:
        self.patch.undo()


TestDelivery = Delivery.TestCase
TestDeliveryInSmallSteps = DeliveryInSmallSteps.TestCase
TestDeliveryInSmallSteps.settings = hypothesis_settings(stateful_step_count=40)
TestDelivery.settings = hypothesis_settings(stateful_step_count=40)
