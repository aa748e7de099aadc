"""Owners of one log that come, are paused at any step, and go on: nothing answered is ever lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.fleet.terms import BEGIN_STEP, LogMovedBack, OwnedTail, Owner, Terms
from sharegroup.model.offsets import OffsetRange

Batch = tuple[Owner, int]
"""Its owner, and the number of what it says; 0: it is a claim."""


class Log:
    """A log of one record a batch, which takes anybody's."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.answered: list[int] = []

    def counting(self) -> list[int]:
        """By the rule: what a reader of the whole log takes in."""
        terms = Terms()
        return [number for owner, number in self.batches if terms.counts(owner) and number]


class Reader:
    """Takes in the log batch by batch."""

    def __init__(self, log: Log) -> None:
        self.terms = Terms()
        self.state: list[int] = []
        self.seen = 0
        self._log = log

    def step(self) -> None:
        owner, number = self._log.batches[self.seen]
        if self.terms.counts(owner) and number:
            self.state.append(number)
        self.seen += 1


def lives(log: Log, node: int, numbers: Iterator[int]) -> Iterator[None]:
    """An owner, step by step; between two steps anything may happen. It ends when it is fenced."""
    reader = Reader(log)
    terms, state = reader.terms, reader.state
    while True:
        while reader.seen < len(log.batches):
            reader.step()
            yield
        me = Owner(terms.next, node, bytes(16))
        yield  # the request is on its way
        first = len(log.batches)
        log.batches.append((me, 0))
        yield  # so is the answer
        while reader.seen < first:
            reader.step()
        if terms.next <= me.term:
            break
    assert terms.counts(me)
    tail = OwnedTail(first + 1, [first])
    while True:
        number = next(numbers)
        yield
        first = len(log.batches)
        log.batches.append((me, number))
        yield
        between = tail.appended(first, 1)
        tail.check_invariants()
        if between is not None:
            for at in range(between.first, between.last + 1):
                terms.counts(log.batches[at][0])
            if terms.owner != me:
                return  # the partition is lost: this was never answered
        assert set(log.answered) <= {*state}, "what was answered before is known to its owner"
        state.append(number)
        log.answered.append(number)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=300))
def test_an_owner_knows_all_that_was_answered_before_its_own_answers(turns: list[int]) -> None:
    log, numbers = Log(), iter(range(1, 10**6))
    running = [lives(log, node, numbers) for node in range(4)]
    for node in turns:
        try:
            next(running[node])
        except StopIteration:  # it takes the partition again later, as another process would
            running[node] = lives(log, node, numbers)
    counting = log.counting()
    assert set(log.answered) <= set(counting)
    assert [one for one in counting if one in set(log.answered)] == log.answered


def test_of_two_owners_with_one_term_the_first_counts() -> None:
    terms = Terms()
    one, other = Owner(3, 1, b"a" * 16), Owner(3, 2, b"b" * 16)
    assert terms.counts(one)
    assert not terms.counts(other)
    assert terms.counts(one)
    assert terms.next == 4


def test_an_earlier_owner_does_not_count_any_more() -> None:
    terms = Terms()
    early, late = Owner(1, 1, bytes(16)), Owner(2, 2, bytes(16))
    assert [terms.counts(one) for one in (early, late, early, late)] == [True, True, False, True]


def test_a_log_that_moved_back_is_said() -> None:
    tail = OwnedTail(10, [9])
    assert tail.appended(10, 2) is None
    assert tail.appended(14, 1) == OffsetRange(12, 13)
    with pytest.raises(LogMovedBack):
        tail.appended(14, 1)


def test_the_log_begins_with_a_batch_of_its_owner() -> None:
    tail = OwnedTail(10, [9])
    for first in range(10, 10 + 3 * BEGIN_STEP, 5):
        tail.appended(first, 5)
    assert tail.deletable(8) is None
    assert tail.deletable(9) == 9
    assert tail.deletable(9 + BEGIN_STEP) == 9
    begin = tail.deletable(10 + 2 * BEGIN_STEP)
    assert begin is not None
    assert 9 < begin <= 10 + 2 * BEGIN_STEP
    tail.deleted(begin)
    assert tail.deletable(begin - 1) is None
    assert tail.deletable(begin) == begin
    tail.check_invariants()
