"""The coordinator beside a naive model, over all orders of requests, crashes and time.

The model knows what producers were told, and looks at outcomes alone:

* a transaction has one outcome, also over crashes;
* each of its partitions gets exactly that outcome's marker, under an epoch of its producer;
* a producer that somebody else was put in place of never succeeds again.
"""

from __future__ import annotations

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.transactions.coordinator import Record, TransactionCoordinator
from sharegroup.transactions.transaction import EPOCH_MAX, IdAndEpoch, Transaction

ID = "transfers"
PARTITIONS = [TopicPartition("jobs", number) for number in range(3)]
VERSIONS = st.sampled_from([0, 2])
TIMEOUT_MS = 100
EXPIRATION_MS = 5000


class Coordination(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.producer_ids = count(1)
        self.ids = self.new()
        self.log: list[Record] = []
        self.now_ms = 0
        self.told: list[IdAndEpoch] = []
        """Every producer that a client was told to be, in order."""
        self.fenced: set[IdAndEpoch] = set()
        """Those that a later one was put in place of."""
        self.begun: dict[IdAndEpoch, set[TopicPartition]] = {}
        """The partitions of open transactions, by the producer that began them."""
        self.ended: dict[IdAndEpoch, bool] = {}
        """The outcomes that clients were told."""
        self.decided = False
        """A client was told an outcome whose markers are not all written."""
        self.marked: set[tuple[IdAndEpoch, TopicPartition]] = set()

    def new(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            lambda: next(self.producer_ids), lambda: TIMEOUT_MS, lambda: EXPIRATION_MS
        )

    def producer(self, data: st.DataObject) -> IdAndEpoch:
        return data.draw(st.sampled_from(self.told[-4:]), label="producer")

    @rule(data=st.data(), goes_on=st.booleans())
    def initialize(self, data: st.DataObject, goes_on: bool) -> None:
        known = self.ids.find(ID) is not None  # one that has expired begins anew, for anybody
        expected = self.producer(data) if goes_on and self.told and known else None
        try:
            producer, records = self.ids.initialize(ID, TIMEOUT_MS, expected, self.now_ms)
        except KafkaError:
            return
        self.log += records
        if producer is None:
            return
        assert expected is None or expected not in self.fenced
        assert producer not in self.fenced
        if expected is None:
            assert producer not in self.told  # nobody else may be it
            self.fenced |= set(self.told)
        self.told.append(producer)

    @precondition(lambda self: self.told)
    @rule(data=st.data(), version=VERSIONS, where=st.sampled_from(PARTITIONS))
    def write(self, data: st.DataObject, version: int, where: TopicPartition) -> None:
        producer = self.producer(data)
        try:
            _, records = self.ids.add_partitions(ID, producer, {where}, version, self.now_ms)
            self.log += records
            self.ids.check_write(ID, producer, where)
        except KafkaError:
            return
        assert producer not in self.fenced
        assert not self.decided
        self.begun.setdefault(producer, set()).add(where)

    @precondition(lambda self: self.told)
    @rule(data=st.data(), version=VERSIONS, commit=st.booleans())
    def end(self, data: st.DataObject, version: int, commit: bool) -> None:
        producer = self.producer(data)
        try:
            following, records = self.ids.end(ID, producer, version, self.now_ms, commit=commit)
        except KafkaError:
            return
        self.log += records
        if records:
            assert producer not in self.fenced
            assert not self.decided
            self.ended[producer] = commit
            self.decided = True
        if following != producer and following not in self.told:
            self.told.append(following)

    @rule()
    def complete(self) -> None:
        """Write the markers of what is decided, as the shell does."""
        for decided in self.ids.decided():
            self.write_markers(decided, decided.partitions)
            marked = IdAndEpoch(decided.producer_id, decided.epoch)
            self.log += self.ids.completed(ID, marked, self.now_ms)[1]
        self.decided = False

    @rule(data=st.data())
    def complete_in_part(self, data: st.DataObject) -> None:
        """Write some markers; a crash may follow."""
        for decided in self.ids.decided():
            some = data.draw(st.sets(st.sampled_from(PARTITIONS)), label="partitions")
            self.write_markers(decided, decided.partitions & some)

    def write_markers(self, decided: Transaction, partitions: frozenset[TopicPartition]) -> None:
        marker = IdAndEpoch(decided.producer_id, decided.epoch)
        bumped = decided.client_version >= 2
        owner = marker._replace(epoch=marker.epoch - 1) if bumped else marker
        for where in partitions:
            open_here = where in self.begun.get(owner, set())
            assert decided.commits is self.ended.get(owner, decided.commits)
            if open_here:
                self.begun[owner].discard(where)
                self.marked.add((marker, where))
            else:  # written before a crash; the partition knows the marker
                assert (marker, where) in self.marked or not bumped

    @rule()
    def crash(self) -> None:
        """Everything written is durable here; tests of the broker lose writes."""
        self.ids = self.new()
        for record in self.log:
            self.ids.replay(record)

    @rule(by_ms=st.sampled_from([1, 50, TIMEOUT_MS, EXPIRATION_MS]))
    def time(self, by_ms: int) -> None:
        self.now_ms += by_ms
        due = self.ids.next_deadline_ms()
        records = self.ids.tick(self.now_ms)
        assert not records or (due is not None and due <= self.now_ms)
        self.log += records
        left = self.ids.next_deadline_ms()
        assert left is None or left > self.now_ms

    @rule()
    def use_up_epochs(self) -> None:
        """Give the id an epoch near the end, as after 32,000 transactions."""
        found = self.ids.find(ID)
        if found is None or found.state.name != "EMPTY" or self.begun.get(self.told[-1]):
            return
        self.fenced |= set(self.told)
        owner = IdAndEpoch(next(self.producer_ids), EPOCH_MAX - 2)
        self.log += self.ids._put(found.taken(owner, -1, TIMEOUT_MS, self.now_ms))
        self.told.append(owner)

    @invariant()
    def consistent(self) -> None:
        self.ids.check_invariants()
        assert all(producer.epoch < EPOCH_MAX for producer in self.told)
        found = self.ids.find(ID)
        for producer, partitions in self.begun.items():
            if partitions:  # open: the coordinator still knows that it must end
                assert found is not None
                assert partitions <= found.partitions, producer


TestCoordination = Coordination.TestCase
TestCoordination.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
