"""Transactions beside a naive model: each has one end, and what failed is aborted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.outbox import ProducerIdentity
from sharegroup.client.core.transaction import ProducerTransactions, ProducerTransactionState
from sharegroup.client.errors import IllegalState
from sharegroup.model.errors import MessageTooLarge, ProducerFenced, TransactionAbortable
from sharegroup.model.ids import TopicPartition

WHERES = [TopicPartition("t", number) for number in range(2)]
steps = st.lists(
    st.tuples(
        st.sampled_from(["begin", "accept", "send", "add", "fail", "finish", "commit", "abort"]),
        st.integers(0, 1),
    ),
    max_size=40,
)


class World:
    """The real machine, and what a transaction is: open or not, finishing or not, spoilt or not,
    its partitions."""

    def __init__(self, version: int) -> None:
        self.real = ProducerTransactions()
        self.version = version
        self.epoch = 0
        self.real.identify(ProducerIdentity(9, self.epoch), version)
        self.open = self.finishing = self.spoilt = False
        self.added: set[TopicPartition] = set()
        self.told = False

    def do(self, what: str, number: int) -> None:
        real = self.real
        if what == "begin":
            self._begin()
        elif what == "accept":
            self._accept()
        elif what == "send":
            in_it = self.version == 2 or WHERES[number] in self.added
            expected = self.open and not self.spoilt and in_it
            assert real.may_send(WHERES[number]) == expected
            self.told = self.told or expected
        elif what == "add" and (wheres := real.to_add()):
            real.added(wheres)
            self.added |= wheres
            self.told = True
        elif what == "fail":
            real.failed(MessageTooLarge())
            self.spoilt = self.spoilt or self.open
        elif what == "finish":
            self._finish()
        elif what in ("commit", "abort"):
            self._end(commit=what == "commit")
        real.check_invariants()
        assert real.drops_records == self.spoilt
        assert real.repeats_requests == (not self.spoilt)

    def _begin(self) -> None:
        if self.open:
            with pytest.raises(IllegalState):
                self.real.begin()
            return
        self.real.begin()
        self.open, self.told = True, False

    def _accept(self) -> None:
        """Records are taken until the end begins, and not after."""
        if self.open and not self.finishing and not self.spoilt:
            self.real.check_open()
            return
        spoilt = self.spoilt and not self.finishing
        with pytest.raises(MessageTooLarge if spoilt else IllegalState):
            self.real.check_open()

    def _finish(self) -> None:
        if not self.open:
            with pytest.raises(IllegalState):
                self.real.finish()
            return
        self.real.finish()
        self.finishing = True

    def _end(self, *, commit: bool) -> None:
        if not self.finishing or (commit and self.spoilt):
            with pytest.raises(MessageTooLarge if self.finishing else IllegalState):
                self.real.end(commit=commit)
            return
        assert self.real.end(commit=commit) == self.told
        self.real.check_invariants()
        assert not self.real.may_send(WHERES[0]), "it would come after the end"
        self.epoch += self.version == 2
        identity = ProducerIdentity(9, self.epoch)
        self.real.ended(identity, committed=commit)
        assert self.real.identity == identity
        self.open = self.finishing = self.spoilt = False
        self.added = set()


@pytest.mark.parametrize("version", [1, 2])
@given(what=steps)
def test_each_transaction_has_one_end(version: int, what: list[tuple[str, int]]) -> None:
    world = World(version)
    for one in what:
        world.do(*one)


def test_a_fenced_producer_does_nothing_more() -> None:
    real = ProducerTransactions()
    real.identify(ProducerIdentity(9, 0), 2)
    real.begin()
    real.fenced(ProducerFenced())
    for call in (real.begin, real.check_open, lambda: real.end(commit=False)):
        with pytest.raises(ProducerFenced):
            call()
    assert real.state is ProducerTransactionState.FENCED
    assert not real.may_send(WHERES[0])


def test_after_an_abort_without_a_new_epoch_the_producer_needs_one() -> None:
    real = ProducerTransactions()
    real.identify(ProducerIdentity(9, 0), 1)
    real.begin()
    real.finish()
    assert not real.end(commit=False)
    real.ended(None, committed=False)
    assert real.must_identify


def test_a_refused_commit_is_aborted() -> None:
    real = ProducerTransactions()
    real.identify(ProducerIdentity(9, 0), 2)
    real.begin()
    assert real.may_send(WHERES[0])
    real.finish()
    assert real.end(commit=True)
    assert real.repeats_requests
    real.refused(TransactionAbortable())
    real.check_invariants()
    assert not real.repeats_requests, "only its end is wanted"
    with pytest.raises(TransactionAbortable):
        real.end(commit=True)
    assert real.end(commit=False)
    assert real.repeats_requests, "the abort is"
    real.ended(ProducerIdentity(9, 1), committed=False)
    real.begin()
    assert real.error is None
