"""The idempotent producer's rules against a naive model that remembers every batch."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from sharegroup.transactions.producers import (
    BATCHES_KEPT,
    SEQUENCE_MAX,
    Duplicate,
    ProducerTable,
    sequence_after,
    sequence_before,
)

APPENDS = st.lists(
    st.tuples(
        st.integers(0, 2),  # producer
        st.integers(0, 2),  # epoch
        st.integers(-6, 2),  # base sequence, against the one that would be right
        st.integers(0, 2),  # last offset delta
    ),
    max_size=60,
)


def judge(
    history: list[tuple[int, int, int, int, int]],
    producer: int,
    epoch: int,
    base: int,
    delta: int,
) -> Duplicate | str | None:
    """Kafka's rules, read off the whole history of (producer, epoch, base, delta, offset)."""
    mine = [entry for entry in history if entry[0] == producer]
    if not mine:
        return None
    newest = max(entry[1] for entry in mine)
    if epoch < newest:
        return "epoch"
    if epoch > newest:
        return None if base == 0 else "order"
    mine = [entry for entry in mine if entry[1] == epoch]
    for _, _, known_base, known_delta, offset in mine[-BATCHES_KEPT:]:
        if (known_base, known_delta) == (base, delta):
            return Duplicate(offset, offset + known_delta)
    return None if base == sequence_after(mine[-1][2], mine[-1][3] + 1) else "order"


@given(appends=APPENDS, start=st.sampled_from([0, 5, SEQUENCE_MAX - 7]))
def test_agrees_with_the_whole_history(
    appends: list[tuple[int, int, int, int]], start: int
) -> None:
    table = ProducerTable()
    history: list[tuple[int, int, int, int, int]] = []
    end = 0
    for producer, epoch, shift, delta in appends:
        mine = [entry for entry in history if entry[0] == producer]
        right = sequence_after(mine[-1][2], mine[-1][3] + 1) if mine else start
        base = 0 if mine and epoch > mine[-1][1] and shift >= 0 else (right + shift) & SEQUENCE_MAX
        expected = judge(history, producer, epoch, base, delta)
        if isinstance(expected, str):
            error = InvalidProducerEpoch if expected == "epoch" else OutOfOrderSequenceNumber
            with pytest.raises(error):
                table.check(producer, epoch, base, delta)
            continue
        assert table.check(producer, epoch, base, delta) == expected
        if expected is None:
            table.applied(producer, epoch, base, end, end + delta, now_ms=0)
            history.append((producer, epoch, base, delta, end))
            end += delta + 1
        table.check_invariants()


@given(sequence=st.integers(0, SEQUENCE_MAX), steps=st.integers(0, 10_000))
def test_sequences_wrap_and_come_back(sequence: int, steps: int) -> None:
    later = sequence_after(sequence, steps)
    assert 0 <= later <= SEQUENCE_MAX
    assert sequence_before(later, steps) == sequence
    assert sequence_after(SEQUENCE_MAX) == 0


def test_a_snapshot_keeps_what_can_be_repeated() -> None:
    table = ProducerTable()
    for number in range(7):
        table.applied(4, 2, 3 * number, 3 * number, 3 * number + 2, now_ms=number)
    table.applied(5, 0, SEQUENCE_MAX, 21, 22, now_ms=9)
    again = ProducerTable()
    again.load(table.snapshot())
    again.check_invariants()
    assert again.snapshot() == table.snapshot()
    for first in range(6, 21, 3):
        assert again.check(4, 2, first, 2) == Duplicate(first, first + 2)
    assert again.check(4, 2, 21, 0) is None
    assert again.check(5, 0, SEQUENCE_MAX, 1) == Duplicate(21, 22)
    assert again.check(5, 0, 1, 0) is None
    with pytest.raises(OutOfOrderSequenceNumber):
        again.check(4, 2, 3, 2)


def test_silent_producers_expire() -> None:
    table = ProducerTable()
    table.applied(1, 0, 0, 0, 0, now_ms=10)
    table.applied(2, 0, 0, 1, 1, now_ms=20)
    assert table.expire(before_ms=15) == 1
    assert len(table) == 1
    assert table.check(1, 0, 77, 0) is None  # unknown: any sequence may begin


def test_a_replay_over_a_gap_forgets_earlier_batches() -> None:
    table = ProducerTable()
    table.applied(1, 0, 0, 0, 4, now_ms=0)
    table.applied(1, 0, 10, 10, 14, now_ms=0)
    table.check_invariants()
    assert table.check(1, 0, 10, 4) == Duplicate(10, 14)
    with pytest.raises(OutOfOrderSequenceNumber):
        table.check(1, 0, 0, 4)


def test_the_last_five_batches_are_kept() -> None:
    table = ProducerTable()
    for number in range(8):
        table.applied(1, 0, number, number, number, now_ms=0)
    answers = []
    for number in range(8):
        try:
            answers.append(table.check(1, 0, number, 0))
        except OutOfOrderSequenceNumber:
            answers.append(None)
    assert answers == [None] * 3 + [Duplicate(n, n) for n in range(3, 8)]
    assert all(a.first_offset < b.first_offset for a, b in pairwise(answers[3:]) if a and b)


def test_after_a_marker_a_producer_begins_at_0() -> None:
    """Also if the marker is all that is left of it, or all that there ever was."""
    table = ProducerTable()
    table.applied(1, 0, 0, 0, 3, now_ms=0, transactional=True)
    table.marked(1, 1, 4, 0, now_ms=0)
    table.marked(2, 2, 5, 0, now_ms=0)
    for producer, epoch in ((1, 1), (1, 2), (2, 2), (2, 3)):
        for sequence in (1, 4, 17):
            with pytest.raises(OutOfOrderSequenceNumber):
                table.check(producer, epoch, sequence, 0)
        assert table.check(producer, epoch, 0, 0) is None
    for producer, epoch in ((1, 0), (2, 1)):
        with pytest.raises(InvalidProducerEpoch):
            table.check(producer, epoch, 0, 0)
    again = ProducerTable()
    again.load(table.snapshot())
    with pytest.raises(OutOfOrderSequenceNumber):
        again.check(2, 2, 17, 0)


def test_a_marker_without_a_newer_epoch_leaves_the_sequences() -> None:
    table = ProducerTable()
    table.applied(1, 0, 0, 0, 3, now_ms=0, transactional=True)
    assert table.has_batches(1)
    table.marked(1, 0, 4, 0, now_ms=0)
    assert table.check(1, 0, 4, 0) is None
    assert table.check(1, 0, 0, 3) == Duplicate(0, 3)
    with pytest.raises(OutOfOrderSequenceNumber):
        table.check(1, 0, 5, 0)
    table.marked(1, 1, 5, 0, now_ms=0)
    assert not table.has_batches(1)
    assert not table.has_batches(7)


def test_markers_of_earlier_producers_and_coordinators_are_refused() -> None:
    table = ProducerTable()
    table.check_marker(1, 0, 0)
    table.marked(1, 5, 0, coordinator_epoch=3, now_ms=0)
    again = ProducerTable()
    again.load(table.snapshot())
    for known in (table, again):
        known.check_marker(1, 5, 3)
        known.check_marker(1, 6, 4, newer=True)
        for epoch, newer in ((4, False), (5, True)):
            with pytest.raises(InvalidProducerEpoch):
                known.check_marker(1, epoch, 3, newer=newer)
        with pytest.raises(TransactionCoordinatorFenced):
            known.check_marker(1, 5, 2)
        known.check_epoch(1, 5)
        with pytest.raises(InvalidProducerEpoch):
            known.check_epoch(1, 4)


def test_a_producer_with_an_open_transaction_neither_expires_nor_writes_outside() -> None:
    table = ProducerTable()
    table.applied(1, 0, 0, 0, 0, now_ms=10, transactional=True)
    assert table.expire(before_ms=1000) == 0
    with pytest.raises(InvalidTxnState):
        table.check(1, 0, 1, 0)
    assert table.check(1, 0, 1, 0, transactional=True) is None
    assert table.check(1, 0, 0, 0) == Duplicate(0, 0)
    table.marked(1, 1, 1, 0, now_ms=20)
    assert table.check(1, 1, 0, 0) is None
    assert table.expire(before_ms=1000) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_sequences_go_on_behind_the_largest(count: int) -> None:
    table = ProducerTable()
    table.applied(1, 0, SEQUENCE_MAX - count + 1, 0, count - 1, now_ms=0)
    with pytest.raises(OutOfOrderSequenceNumber):
        table.check(1, 0, 1, 0)
    assert table.check(1, 0, 0, 0) is None
    table.applied(1, 0, 0, count, count, now_ms=0)
    assert table.check(1, 0, SEQUENCE_MAX - count + 1, count - 1) == Duplicate(0, count - 1)
    table.check_invariants()
