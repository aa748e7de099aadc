"""What transactions hold, in memory and in durable state, against one entry for each offset."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.dead_records import Cause, DeadRecords
from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.pending_acks import TransactionMark
from sharegroup.share.order.key_order import KeyOrder
from sharegroup.share.partition import SharePartition
from sharegroup.share.pauses import BackOff
from sharegroup.share.pending import end_rules
from sharegroup.share.record_state import AVAILABLE, DELAYED, RecordState, Verb
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.state_changes import StateChange
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord
from sharegroup.wire.internal.share_state import decode_record, encode_record

LIMIT, LAST = 3, 19
SETTINGS = DeliverySettings(
    lock_ms=100, delivery_count_limit=LIMIT, record_locks_max=50, dead_letters=True
)
KEY = SharePartitionKey("g", UUID(int=1), 0)
ACCEPT, RELEASE, REJECT = 1, 2, 3
MEMBER_ID_LONGEST = 36


@dataclass(frozen=True)
class One:
    """What the model knows of an offset. ``stored``: the delivery count in durable state."""

    state: str = "available"
    count: int = 0
    stored: int = 0
    holder: str = ""
    kind: int = 0


class Naive:
    """One entry for each offset up to LAST, delivered or not."""

    def __init__(self) -> None:
        self.of = {offset: One() for offset in range(LAST + 1)}

    def finish(self, offset: int, kind: int) -> None:
        state = "acknowledged" if kind == ACCEPT else "archived"
        self.of[offset] = One(state)

    def give_back(self, offset: int) -> None:
        """A release, or an ended lock."""
        one = self.of[offset]
        if one.count >= LIMIT:
            self.finish(offset, REJECT)
        else:
            self.of[offset] = One("available", one.count, one.count)

    def held_by(self, holder: str) -> list[int]:
        return [at for at, one in self.of.items() if one.holder == holder]

    def restart(self) -> None:
        for at, one in self.of.items():
            if one.state == "acquired" and not one.kind:
                self.of[at] = One("available", one.stored, one.stored)


class Both:
    """A share partition with its durable state, and the model."""

    def __init__(self) -> None:
        self.naive = Naive()
        self.log: list[KeyedRecord] = []
        self.dead: list[DeadRecords] = []
        self.stored = ShareCoordinator(updates_per_snapshot=3)
        self.log += self.stored.initialize(KEY, 0, 0, 0)
        self.real = self.loaded()

    def loaded(self) -> SharePartition:
        """As after a restart: from the log alone."""
        self.stored = ShareCoordinator(updates_per_snapshot=3)
        for offset, (key, value) in enumerate(self.log):
            self.stored.replay(key, value, offset)
        state, records = self.stored.read(KEY, 0, 0)
        self.log += records
        return SharePartition(
            start_offset=state.start_offset,
            state_epoch=0,
            leader_epoch=0,
            batches=state.batches,
            pending=state.pending,
        )

    def write(self, change: StateChange | None) -> None:
        if change is None:
            return
        self.dead += change.dead
        record = self.stored.write(
            KEY, 0, 0, change.start_offset, change.delivery_complete_count, change.batches, 0,
            lowers=change.lowers, pending=change.pending, ended=change.ended,
        )  # fmt: skip
        assert decode_record(*encode_record(record)) == record
        self.log.append(record)

    # -- steps ------------------------------------------------------------------------------

    def acquire(self, member: str) -> None:
        offset = self.real.next_fetch_offset(member)
        if offset > LAST:
            return
        got = self.real.acquire(
            member, [(offset, LAST)], fetch_offset=offset, records_max=4, batch_size=4,
            strict=True, now_ms=0, settings=SETTINGS,
        )  # fmt: skip
        for first, last, count in got.ranges:
            for at in range(first, last + 1):
                before = self.naive.of[at]
                assert (before.state, before.count) == ("available", count - 1)
                self.naive.of[at] = replace(before, state="acquired", count=count, holder=member)

    def hold(self, member: str, first: int, last: int, kind: int, number: int) -> None:
        mark = TransactionMark(number, 0)
        named = range(max(first, self.real.start_offset), last + 1)
        own = {self.naive.of[at].holder for at in named} <= {member, mark.holder}
        asked = [(first, last, [kind])]
        if not own or kind == RELEASE or last >= self.real.end_offset:
            before = list(self.real.spans())
            with suppress(InvalidRecordState, InvalidRequest):  # what is finished is left out
                assert self.real.hold(member, asked, mark) is None
            assert list(self.real.spans()) == before
            return
        self.write(self.real.hold(member, asked, mark))
        for at in named:
            one = self.naive.of[at]
            if one.holder == member:
                self.naive.of[at] = replace(one, holder=mark.holder, kind=kind, stored=one.count)

    def end(self, number: int, *, committed: bool, loaded: bool) -> None:
        """``loaded``: the share partition is in memory; else it is loaded after the end."""
        mark = TransactionMark(number, 1)
        pending = self.stored.pending_of(mark).get(KEY, [])
        if not loaded:
            self.naive.restart()
            rules = end_rules(SETTINGS, 0)
            self.log += self.stored.end_transaction(KEY, mark, 0, rules, committed=committed)
            self.real = self.loaded()
        elif pending:
            change = self.real.end_transaction(
                pending, committed=committed, now_ms=0, settings=SETTINGS
            )
            self.write(change)
        for at in self.naive.held_by(TransactionMark(number, 0).holder):
            one = self.naive.of[at]
            if committed:
                self.naive.finish(at, one.kind)
            else:
                self.naive.give_back(at)
        assert not self.stored.pending_of(mark)

    def answer(self, member: str, kind: int) -> None:
        for at in self.naive.held_by(member):
            self.write(
                self.real.acknowledge(member, [(at, at, [kind])], now_ms=0, settings=SETTINGS)
            )
            self.naive.give_back(at) if kind == RELEASE else self.naive.finish(at, kind)

    def leave(self, member: str) -> None:
        self.write(self.real.release_member(member, now_ms=0, settings=SETTINGS))
        for at in self.naive.held_by(member):
            self.naive.give_back(at)

    def by_hand(self, first: int, last: int, kind: int) -> None:
        last = min(last, self.real.end_offset - 1)
        if last < first:
            return
        done = self.real.decide(first, last, Verb(kind), now_ms=0, settings=SETTINGS)
        self.write(done.change)
        for at in range(first, last + 1):
            if self.naive.of[at].state in ("available", "acquired") and not self.naive.of[at].kind:
                self.naive.finish(at, kind)

    def restart(self) -> None:
        self.naive.restart()
        self.real = self.loaded()

    def check(self) -> None:
        self.real.check_invariants()
        self.stored.check_invariants()
        for span in self.real.spans():
            for at in range(span.first, span.last + 1):
                one = self.naive.of[at]
                assert span.state.name.lower() == one.state, at
                if span.lock is not None:
                    assert (span.lock.member_id, span.delivery_count) == (one.holder, one.count)
        done = ("acknowledged", "archived")
        behind = [at for at in range(self.real.start_offset) if self.naive.of[at].state not in done]
        assert not behind
        pending = [
            (at, one.kind, one.transaction.holder)
            for number in (1, 2)
            for one in self.stored.pending_of(TransactionMark(number, 0)).get(KEY, [])
            for at in range(one.first, one.last + 1)
        ]
        known = [(at, one.kind, one.holder) for at, one in self.naive.of.items() if one.kind]
        assert sorted(pending) == known


MEMBERS, NUMBERS = st.sampled_from("ab"), st.sampled_from([1, 2])
OFFSETS = st.tuples(st.integers(0, LAST), st.integers(0, LAST)).map(sorted).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("acquire"), MEMBERS),
        st.tuples(st.just("hold"), MEMBERS, OFFSETS, st.sampled_from([1, 1, 1, 2, 3]), NUMBERS),
        st.tuples(st.just("end"), NUMBERS, st.booleans(), st.booleans()),
        st.tuples(st.just("answer"), MEMBERS, st.sampled_from([ACCEPT, RELEASE, REJECT])),
        st.tuples(st.just("leave"), MEMBERS),
        st.tuples(st.just("by_hand"), OFFSETS, st.sampled_from([ACCEPT, REJECT])),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


@given(STEPS)
def test_like_one_entry_for_each_offset(steps: list[tuple[Any, ...]]) -> None:
    both = Both()
    for step in steps:
        match step:
            case ("hold", member, (first, last), kind, number):
                both.hold(member, first, last, kind, number)
            case ("end", number, committed, loaded):
                both.end(number, committed=committed, loaded=loaded)
            case ("by_hand", (first, last), kind):
                both.by_hand(first, last, kind)
            case (name, *words):
                getattr(both, name)(*words)
        both.check()


def held(*asked: tuple[int, int, int], count: int = 1) -> tuple[SharePartition, StateChange]:
    """Ten records that a member holds, some of them given to a transaction."""
    real = SharePartition(
        start_offset=0, state_epoch=0, leader_epoch=0, batches=[(0, 9, 0, count - 1)]
    )
    real.acquire(
        "m", [(0, 9)], fetch_offset=0, records_max=10, batch_size=10, now_ms=0, settings=SETTINGS
    )
    batches = [(first, last, [kind]) for first, last, kind in asked]
    change = real.hold("m", batches, TransactionMark(7, 2))
    assert change is not None
    real.check_invariants()
    return real, change


def test_durable_state_has_them_available() -> None:
    real, change = held((2, 4, ACCEPT), (5, 6, REJECT), (8, 8, ACCEPT))
    assert change.batches == ((2, 6, 0, 1), (8, 8, 0, 1))
    assert [(one.first, one.last, one.kind) for one in change.pending] == [
        (2, 4, ACCEPT), (5, 6, REJECT), (8, 8, ACCEPT)
    ]  # fmt: skip
    assert real.statistics().members == 1, "a transaction is no member"


def test_no_lock_of_a_transaction_expires() -> None:
    real, _ = held((0, 9, ACCEPT))
    assert real.next_deadline_ms() is None
    assert real.tick(1 << 60, SETTINGS) is None
    assert real.statistics().acquired == 10


def test_no_member_can_have_the_name_of_a_transaction() -> None:
    assert len(TransactionMark(0, 0).holder) > MEMBER_ID_LONGEST


def test_the_cause_of_a_dead_letter_names_the_member() -> None:
    real, change = held((0, 3, REJECT))
    said = (change.pending[0]._replace(last=1, reason="x"), change.pending[0]._replace(first=2))
    ended = real.end_transaction(said, committed=True, now_ms=0, settings=SETTINGS)
    assert ended.dead == (
        DeadRecords(0, 1, 1, Cause.REJECTED, "m", "x"),
        DeadRecords(2, 3, 1, Cause.REJECTED, "m"),
    )


def test_an_abort_at_the_delivery_limit_gives_up_the_record() -> None:
    real, change = held((0, 0, ACCEPT), count=LIMIT)
    ended = real.end_transaction(change.pending, committed=False, now_ms=0, settings=SETTINGS)
    assert ended.batches == ()
    assert (ended.start_offset, real.start_offset) == (1, 1)
    assert ended.dead == (DeadRecords(0, 0, LIMIT, Cause.RELEASED, "m"),)


@pytest.mark.parametrize("back_off", [None, BackOff(40_000, 90_000), BackOff(5, 5, jitter=0)])
@pytest.mark.parametrize("dead_letters", [False, True])
def test_an_abort_ends_alike_in_memory_and_in_durable_state(
    back_off: BackOff | None, dead_letters: bool
) -> None:
    """Not even the times differ: the clocks are the same here."""
    now_ms = 1_000
    for limit in (1, 2):
        settings = replace(
            SETTINGS, delivery_count_limit=limit, back_off=back_off, dead_letters=dead_letters
        )
        real, held_now = held((2, 4, ACCEPT), (5, 6, REJECT), (8, 8, ACCEPT))
        stored = ShareCoordinator()
        stored.initialize(KEY, 0, 0, 0)
        stored.write(KEY, 0, 0, 0, 0, held_now.batches, 0, pending=held_now.pending)
        change = real.end_transaction(
            held_now.pending, committed=False, now_ms=now_ms, settings=settings
        )
        mark = held_now.pending[0].transaction
        stored.end_transaction(KEY, mark, now_ms, end_rules(settings, now_ms), committed=False)
        dead = [one._replace(failed_ms=-1) for one in stored.dead(KEY)]
        assert dead == list(change.dead)
        state, _ = stored.read(KEY, 0, 0)
        loaded = SharePartition(
            start_offset=state.start_offset,
            state_epoch=0,
            leader_epoch=0,
            batches=state.batches,
            delayed=state.delayed,
        )
        at = [2, 3, 4, 5, 6, 8]
        assert statuses(loaded, at) == statuses(real, at)
        found = {status[0] for status in statuses(loaded, at)}
        resting = AVAILABLE if back_off is None else DELAYED
        assert found == {RecordState.ARCHIVED if limit == 1 else resting}


def statuses(real: SharePartition, offsets: list[int]) -> list[tuple[RecordState, int, int]]:
    """State, delivery count, and the end of the pause."""
    return [
        (span.state, span.delivery_count, 0 if span.lock is None else span.lock.deadline_ms)
        for offset in offsets
        for span in real.spans()
        if span.first <= offset <= span.last
    ]


def test_what_the_log_has_lost_is_nothing_to_acknowledge() -> None:
    real, change = held((0, 3, ACCEPT))
    real.log_start_moved(6)
    ended = real.end_transaction(change.pending, committed=True, now_ms=0, settings=SETTINGS)
    assert ended == StateChange(6, 0, (), ended=(TransactionMark(7, 2),))


def test_with_order_per_key_nothing_is_held() -> None:
    real = SharePartition(start_offset=0, state_epoch=0, leader_epoch=0, order=KeyOrder)
    with pytest.raises(InvalidRequest, match="Where records come by key"):
        real.hold("m", [(0, 0, [ACCEPT])], TransactionMark(7, 2))


def test_the_end_of_a_transaction_ends_earlier_epochs_of_its_producer() -> None:
    mark = TransactionMark(7, 2)
    assert mark.ends(mark)
    assert TransactionMark(7, 3).ends(mark)
    assert not TransactionMark(7, 1).ends(mark)
    assert not TransactionMark(8, 3).ends(mark)
