"""Acknowledgements of open transactions in durable state: kept until their transaction ends."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.dead_records import Cause, DeadRecords
from sharegroup.model.errors import MalformedMessage
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.pending_acks import EndRules, PendingAck, TransactionMark
from sharegroup.model.share_state import DelayedRow
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord, ShareUpdate
from sharegroup.wire.internal.share_state import decode_record, encode_record

KEY = SharePartitionKey("g", UUID(int=1), 0)
OTHER = SharePartitionKey("h", UUID(int=1), 0)
MARK = TransactionMark(7, 2)
ACCEPT, REJECT = 1, 3
RULES = EndRules(dead_letters=True, delivery_count_limit=5)
ROWS = (
    PendingAck(2, 4, 1, ACCEPT, MARK, "m"),
    PendingAck(5, 6, 2, REJECT, MARK, "m", "bad"),
)
OF_ANOTHER = PendingAck(9, 9, 1, ACCEPT, TransactionMark(8, 0), "n")


def waiting() -> ShareCoordinator:
    """A share partition that two transactions have acknowledged in."""
    stored = ShareCoordinator()
    stored.initialize(KEY, 0, 0, 0)
    stored.initialize(OTHER, 0, 0, 0)
    rows = (*ROWS, OF_ANOTHER)
    batches = tuple((one.first, one.last, 0, one.delivery_count) for one in rows)
    stored.write(KEY, 0, 0, 0, 0, batches, 0, pending=rows)
    return stored


def states(stored: ShareCoordinator) -> list[tuple[int, ...]]:
    return [tuple(batch) for batch in stored.read(KEY, 0, 0)[0].batches]


def test_a_commit_finishes_them_and_notes_the_dead() -> None:
    stored = waiting()
    later = TransactionMark(7, 3)
    assert stored.pending_of(later) == {KEY: list(ROWS)}
    [record] = stored.end_transaction(KEY, later, 50, RULES, committed=True)
    assert isinstance(record.value, ShareUpdate)
    assert record.value.ended == (later,)
    assert states(stored) == [(2, 4, 2, 1), (5, 6, 4, 2), (9, 9, 0, 1)]
    assert stored.dead(KEY) == [DeadRecords(5, 6, 2, Cause.REJECTED, "m", "bad", 50)]
    assert stored.pending_of(later) == {}
    assert stored.pending_of(OF_ANOTHER.transaction) == {KEY: [OF_ANOTHER]}
    assert not stored.end_transaction(KEY, later, 60, RULES, committed=True)


def test_an_abort_leaves_them_available() -> None:
    stored = waiting()
    stored.end_transaction(KEY, MARK, 50, RULES, committed=False)
    assert states(stored) == [(2, 4, 0, 1), (5, 6, 0, 2), (9, 9, 0, 1)]
    assert stored.dead(KEY) == []


def test_an_abort_gives_up_what_is_at_the_limit_and_lets_the_others_rest() -> None:
    stored = waiting()
    rules = EndRules(True, 2, due_ms=lambda count, first: 1_000 * count + first)
    [record] = stored.end_transaction(KEY, MARK, 50, rules, committed=False)
    assert isinstance(record.value, ShareUpdate)
    assert record.value.delayed == (DelayedRow(2, 4, 1, 1_002),)
    assert states(stored) == [(2, 4, 0, 1), (5, 6, 4, 2), (9, 9, 0, 1)]
    assert stored.dead(KEY) == [DeadRecords(5, 6, 2, Cause.RELEASED, "m", "bad", 50)]
    assert stored.read(KEY, 0, 0)[0].delayed == (DelayedRow(2, 4, 1, 1_002),)


def test_where_records_wait_for_an_operator_an_abort_gives_none_up() -> None:
    stored = waiting()
    stored.end_transaction(KEY, MARK, 50, EndRules(True, 2, blocks=True), committed=False)
    assert states(stored) == [(2, 4, 0, 1), (5, 6, 0, 2), (9, 9, 0, 1)]
    assert stored.dead(KEY) == []


def test_an_abort_leaves_what_was_finished_or_lost_meanwhile() -> None:
    stored = waiting()
    stored.write(KEY, 0, 0, 3, 0, ((6, 6, 2, 2),), 0)
    stored.end_transaction(KEY, MARK, 50, EndRules(True, 1), committed=False)
    assert states(stored) == [(3, 4, 4, 1), (5, 5, 4, 2), (6, 6, 2, 2), (9, 9, 0, 1)]
    assert [one[:2] for one in stored.dead(KEY)] == [(3, 4), (5, 5)]


def test_without_dead_letters_none_is_noted() -> None:
    stored = waiting()
    stored.end_transaction(KEY, MARK, 50, RULES._replace(dead_letters=False), committed=True)
    assert stored.dead(KEY) == []


def test_a_reset_and_a_deletion_forget_them() -> None:
    stored = waiting()
    stored.initialize(KEY, 1, 5, 0)
    assert stored.pending_of(MARK) == {}
    assert not stored.end_transaction(KEY, MARK, 0, RULES, committed=True)
    stored = waiting()
    stored.delete(KEY)
    assert stored.pending_of(MARK) == {}
    assert not stored.end_transaction(KEY, MARK, 0, RULES, committed=True)


def test_a_snapshot_leaves_out_what_the_log_has_lost() -> None:
    stored = waiting()
    stored.write(KEY, 0, 0, 7, 0, (), 0)
    [(_, snapshot)] = stored.cold_snapshots([KEY], 0)
    assert snapshot is not None
    assert snapshot.pending == (OF_ANOTHER,)


PENDING = st.builds(
    PendingAck,
    first=st.integers(0, 20),
    last=st.integers(20, 40),
    delivery_count=st.integers(0, 9),
    kind=st.sampled_from([ACCEPT, REJECT]),
    transaction=st.builds(TransactionMark, st.integers(0, 1 << 60), st.integers(0, 1 << 14)),
    member_id=st.text(max_size=3),
    reason=st.text(max_size=3),
)


@given(st.lists(PENDING, max_size=4), st.booleans())
def test_they_come_back_from_the_log(rows: list[PendingAck], in_snapshot: bool) -> None:
    stored, log = ShareCoordinator(), list[KeyedRecord]()
    log += stored.initialize(KEY, 0, 0, 0)
    marks = tuple({row.transaction for row in rows[:1]})
    log.append(stored.write(KEY, 0, 0, 0, 0, (), 0, pending=tuple(rows), ended=marks))
    if in_snapshot:
        log += stored.cold_snapshots([KEY], 0)
    replayed = ShareCoordinator()
    for offset, record in enumerate(log):
        again = decode_record(*encode_record(record))
        assert again == record
        replayed.replay(*again, offset)
    assert replayed.read(KEY, 0, 0)[0].pending == tuple(rows)


@pytest.mark.parametrize(
    "row", [ROWS[0]._replace(kind=2), ROWS[0]._replace(first=5), ROWS[0]._replace(first=-1)]
)
def test_what_cannot_be_is_malformed(row: PendingAck) -> None:
    stored = waiting()
    record = stored.write(KEY, 0, 0, 0, 0, (), 0, pending=(row,))
    with pytest.raises(MalformedMessage, match="pending records"):
        decode_record(*encode_record(record))
