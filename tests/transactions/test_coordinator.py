"""What may happen to a transactional id, question by question."""

from __future__ import annotations

from itertools import count

import pytest

from sharegroup.model.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.transactions.coordinator import TransactionCoordinator, overview
from sharegroup.transactions.transaction import (
    EPOCH_MAX,
    LABELS,
    Expired,
    IdAndEpoch,
    Transaction,
    TransactionStage,
)

ID = "transfers"
TIMEOUT_MS = 1000
TIMEOUT_MAX_MS = 5000
EXPIRATION_MS = 100_000
P0, P1 = TopicPartition("jobs", 0), TopicPartition("jobs", 1)
NEWEST, OLDEST = 2, 0
"""Transaction versions: with an epoch per transaction, and without."""


def coordinator() -> TransactionCoordinator:
    ids = count(1000)
    return TransactionCoordinator(lambda: next(ids), lambda: TIMEOUT_MAX_MS, lambda: EXPIRATION_MS)


def initialized(ids: TransactionCoordinator, expected: IdAndEpoch | None = None) -> IdAndEpoch:
    producer, _ = ids.initialize(ID, TIMEOUT_MS, expected, 0)
    assert producer is not None
    return producer


def state(ids: TransactionCoordinator) -> TransactionStage:
    found = ids.find(ID)
    assert found is not None
    found.check_invariants()
    return found.state


def complete(ids: TransactionCoordinator, now_ms: int = 0) -> None:
    found = ids.find(ID)
    assert found is not None
    ids.completed(ID, IdAndEpoch(found.producer_id, found.epoch), now_ms)
    assert not ids.decided()


def exhausted() -> tuple[TransactionCoordinator, IdAndEpoch]:
    """An id whose producer has the last epoch that a client may have."""
    ids = coordinator()
    last = Transaction(
        transactional_id=ID, producer_id=7, epoch=EPOCH_MAX - 1, timeout_ms=1000, updated_ms=0
    )
    ids.replay(last)
    return ids, IdAndEpoch(7, EPOCH_MAX - 1)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_from_begin_to_end(version: int, commit: bool) -> None:
    ids = coordinator()
    producer = initialized(ids)
    assert producer == (1000, 0)
    ids.add_partitions(ID, producer, {P0}, version, 10)
    ids.add_partitions(ID, producer, {P1}, version, 20)
    ids.check_write(ID, producer, P1)
    following, records = ids.end(ID, producer, version, 30, commit=commit)
    assert following == (1000, 1 if version else 0)
    (decided,) = records
    assert isinstance(decided, Transaction)
    assert (decided.commits, decided.partitions, decided.started_ms) == (commit, {P0, P1}, 10)
    assert ids.decided() == [decided]
    with pytest.raises(ConcurrentTransactions):
        ids.add_partitions(ID, following, {P0}, version, 40)
    complete(ids)
    ids.add_partitions(ID, following, {P0}, version, 50)
    assert state(ids) is TransactionStage.ONGOING
    ids.check_invariants()


def test_a_partition_that_is_part_already_needs_no_record() -> None:
    ids = coordinator()
    producer = initialized(ids)
    assert ids.add_partitions(ID, producer, {P0, P1}, NEWEST, 0)[1]
    assert ids.add_partitions(ID, producer, {P1}, NEWEST, 0)[1] == ()


def test_a_write_needs_its_partition_and_its_producer() -> None:
    ids = coordinator()
    producer = initialized(ids)
    with pytest.raises(TransactionAbortable):
        ids.check_write(ID, producer, P0)
    ids.add_partitions(ID, producer, {P0}, OLDEST, 0)
    ids.check_write(ID, producer, P0)
    with pytest.raises(TransactionAbortable):
        ids.check_write(ID, producer, P1)
    with pytest.raises(ProducerFenced):
        ids.check_write(ID, producer._replace(epoch=1), P0)
    with pytest.raises(InvalidProducerIdMapping):
        ids.check_write(ID, producer._replace(producer_id=1), P0)
    with pytest.raises(InvalidProducerIdMapping):
        ids.check_write("nobody", producer, P0)
    ids.end(ID, producer, OLDEST, 0, commit=True)
    with pytest.raises(ConcurrentTransactions):
        ids.check_write(ID, producer, P0)


@pytest.mark.parametrize("timeout_ms", [-1, 0, TIMEOUT_MAX_MS + 1])
def test_the_timeout_has_bounds(timeout_ms: int) -> None:
    ids = coordinator()
    with pytest.raises(InvalidTransactionTimeout):
        ids.initialize(ID, timeout_ms, None, 0)
    assert len(ids) == 0
    ids.initialize(ID, TIMEOUT_MAX_MS, None, 0)
    ids.initialize("another", 1, None, 0)


def test_a_second_producer_fences_the_first() -> None:
    ids = coordinator()
    first = initialized(ids)
    second = initialized(ids)
    assert second == first._replace(epoch=1)
    for version in (OLDEST, NEWEST):
        with pytest.raises(ProducerFenced):
            ids.add_partitions(ID, first, {P0}, version, 0)
        with pytest.raises(ProducerFenced):
            ids.end(ID, first, version, 0, commit=False)
    with pytest.raises(ProducerFenced):
        initialized(ids, first)


def test_a_second_producer_aborts_the_open_transaction() -> None:
    ids = coordinator()
    first = initialized(ids)
    ids.add_partitions(ID, first, {P0}, OLDEST, 0)
    second, records = ids.initialize(ID, TIMEOUT_MS, None, 5)
    assert second is None
    assert state(ids) is TransactionStage.PREPARE_ABORT
    (decided,) = records
    assert isinstance(decided, Transaction)
    assert decided.epoch == first.epoch + 1  # its markers stop late records of the first
    with pytest.raises(ConcurrentTransactions):
        ids.initialize(ID, TIMEOUT_MS, None, 5)
    complete(ids)
    assert initialized(ids) == first._replace(epoch=2)


@pytest.mark.parametrize("wrong_by", [-1, 2])
def test_a_wrong_epoch_is_found_after_the_open_transaction_is_aborted(wrong_by: int) -> None:
    """As in Kafka, an old producer can abort the transaction of its successor."""
    ids = coordinator()
    initialized(ids)
    second = initialized(ids)
    ids.add_partitions(ID, second, {P0}, NEWEST, 0)
    wrong = second._replace(epoch=second.epoch + wrong_by)
    assert ids.initialize(ID, TIMEOUT_MS, wrong, 0)[0] is None
    assert state(ids) is TransactionStage.PREPARE_ABORT
    complete(ids)
    with pytest.raises(ProducerFenced):
        initialized(ids, wrong)
    assert initialized(ids) == second._replace(epoch=3)


def test_the_epoch_that_the_abort_has_given_is_found_to_be_right() -> None:
    ids = coordinator()
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, NEWEST, 0)
    future = producer._replace(epoch=1)
    assert ids.initialize(ID, TIMEOUT_MS, future, 0)[0] is None
    complete(ids)
    assert initialized(ids, future) == producer._replace(epoch=2)


def test_another_producer_id_aborts_nothing() -> None:
    ids = coordinator()
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, NEWEST, 0)
    for wrong in (IdAndEpoch(1, 0), IdAndEpoch(1, EPOCH_MAX - 1)):
        with pytest.raises(ProducerFenced):
            ids.initialize(ID, TIMEOUT_MS, wrong, 0)
    assert state(ids) is TransactionStage.ONGOING


def test_whatever_is_asked_before_the_transaction_is_complete_waits() -> None:
    ids, producer = exhausted()
    ids.add_partitions(ID, producer, {P0}, NEWEST, 0)
    following, _ = ids.end(ID, producer, NEWEST, 0, commit=True)
    for someone in (producer, following, IdAndEpoch(99, 5)):
        for version in (OLDEST, NEWEST):
            with pytest.raises(ConcurrentTransactions):
                ids.add_partitions(ID, someone, {P0}, version, 0)
            with pytest.raises(ConcurrentTransactions):
                ids.end(ID, someone, version, 0, commit=False)
        with pytest.raises(ConcurrentTransactions):
            ids.initialize(ID, TIMEOUT_MS, someone, 0)
    complete(ids)
    ids.add_partitions(ID, following, {P0}, NEWEST, 0)


def test_a_producer_goes_on_with_a_higher_epoch() -> None:
    ids = coordinator()
    first = initialized(ids)
    bumped = initialized(ids, first)
    assert bumped == first._replace(epoch=1)
    assert initialized(ids, first) == bumped  # the same again: the answer was lost
    assert initialized(ids, bumped) == first._replace(epoch=2)
    with pytest.raises(ProducerFenced):
        initialized(ids, first)
    with pytest.raises(ProducerFenced):
        initialized(ids, IdAndEpoch(1, 2))


def test_a_producer_goes_on_after_its_transaction_timed_out() -> None:
    ids = coordinator()
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, NEWEST, 0)
    ids.tick(TIMEOUT_MS)
    complete(ids)
    assert initialized(ids, producer) == producer._replace(epoch=1)


@pytest.mark.parametrize("commit", [True, False])
def test_ending_again_gets_the_same_answer(commit: bool) -> None:
    ids = coordinator()
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, NEWEST, 0)
    following, _ = ids.end(ID, producer, NEWEST, 0, commit=commit)
    for again in (commit, not commit):
        with pytest.raises(ConcurrentTransactions):
            ids.end(ID, producer, NEWEST, 0, commit=again)
    complete(ids)
    assert ids.end(ID, producer, NEWEST, 0, commit=commit) == (following, ())
    with pytest.raises(InvalidTxnState):
        ids.end(ID, producer, NEWEST, 0, commit=not commit)


@pytest.mark.parametrize("commit", [True, False])
def test_older_clients_may_end_again_too(commit: bool) -> None:
    ids = coordinator()
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, OLDEST, 0)
    ids.end(ID, producer, OLDEST, 0, commit=commit)
    for again in (commit, not commit):
        with pytest.raises(ConcurrentTransactions):
            ids.end(ID, producer, OLDEST, 0, commit=again)
    complete(ids)
    assert ids.end(ID, producer, OLDEST, 0, commit=commit) == (producer, ())
    with pytest.raises(InvalidTxnState):
        ids.end(ID, producer, OLDEST, 0, commit=not commit)


def test_a_transaction_without_partitions() -> None:
    ids = coordinator()
    producer = initialized(ids)
    for version in (OLDEST, NEWEST):
        with pytest.raises(InvalidTxnState):
            ids.end(ID, producer, version, 0, commit=True)
    with pytest.raises(InvalidTxnState):
        ids.end(ID, producer, OLDEST, 0, commit=False)
    for epoch in (1, 2):  # the newer clients raise their epoch by an abort
        producer, _ = ids.end(ID, producer, NEWEST, 0, commit=False)
        assert producer.epoch == epoch
        complete(ids)
    with pytest.raises(InvalidTxnState):
        ids.end(ID, producer, NEWEST, 0, commit=True)


def test_the_end_of_the_epochs_brings_a_new_producer_id() -> None:
    ids, producer = exhausted()
    ids.add_partitions(ID, producer, {P0}, NEWEST, 0)
    following, (decided,) = ids.end(ID, producer, NEWEST, 0, commit=True)
    assert following == (1000, 0)
    assert isinstance(decided, Transaction)
    assert (decided.producer_id, decided.epoch) == (7, EPOCH_MAX)  # that of the markers
    ids.check_invariants()
    complete(ids)
    assert ids.end(ID, producer, NEWEST, 0, commit=True) == (following, ())
    ids.add_partitions(ID, following, {P0}, NEWEST, 0)


@pytest.mark.parametrize("goes_on", [True, False])
def test_initialising_at_the_end_of_the_epochs(goes_on: bool) -> None:
    ids, producer = exhausted()
    following = initialized(ids, producer if goes_on else None)
    assert following == (1000, 0)
    if goes_on:
        assert initialized(ids, producer) == following  # the same again
    else:
        with pytest.raises(ProducerFenced):
            initialized(ids, producer)
    ids.check_invariants()


@pytest.mark.parametrize("goes_on", [True, False])
def test_fencing_at_the_end_of_the_epochs(goes_on: bool) -> None:
    ids, producer = exhausted()
    ids.add_partitions(ID, producer, {P0}, NEWEST, 0)
    ids.tick(TIMEOUT_MS)
    complete(ids)
    following = initialized(ids, producer if goes_on else None)
    assert following == (1000, 0)
    ids.check_invariants()


def test_a_transaction_times_out() -> None:
    ids = coordinator()
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, NEWEST, 100)
    ids.add_partitions(ID, producer, {P1}, NEWEST, 900)
    assert ids.next_deadline_ms() == 100 + TIMEOUT_MS
    assert ids.tick(99 + TIMEOUT_MS) == []
    (aborted,) = ids.tick(100 + TIMEOUT_MS)
    assert isinstance(aborted, Transaction)
    assert aborted.state is TransactionStage.PREPARE_ABORT
    complete(ids, 2000)
    with pytest.raises(ProducerFenced):
        ids.add_partitions(ID, aborted_producer(producer), {P0}, NEWEST, 2000)
    with pytest.raises(TransactionAbortable):
        ids.end(ID, producer, NEWEST, 2000, commit=True)
    with pytest.raises(ProducerFenced):
        ids.end(ID, producer, OLDEST, 2000, commit=True)
    loaded = coordinator()
    for each in ids:
        loaded.replay(each)
    with pytest.raises(TransactionAbortable):  # nobody knows any more who aborted it
        loaded.end(ID, producer, NEWEST, 2000, commit=True)
    following, _ = ids.end(ID, producer, NEWEST, 2000, commit=False)
    assert following == producer._replace(epoch=producer.epoch + 1)
    ids.add_partitions(ID, following, {P0}, NEWEST, 2000)
    ids.end(ID, following, NEWEST, 2000, commit=True)
    complete(ids, 2000)
    with pytest.raises(InvalidTxnState):  # the time-out is long over
        ids.end(ID, following, NEWEST, 2000, commit=False)


def aborted_producer(producer: IdAndEpoch) -> IdAndEpoch:
    """The producer as it knows itself: nobody has told it."""
    return producer


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    ids = coordinator()
    producer = initialized(ids)
    assert ids.tick(EXPIRATION_MS - 1) == []
    ids.add_partitions(ID, producer, {P0}, OLDEST, EXPIRATION_MS - 1)
    ids.end(ID, producer, OLDEST, EXPIRATION_MS, commit=True)
    assert ids.tick(10 * EXPIRATION_MS) == []  # markers are missing: never forgotten
    complete(ids, 10 * EXPIRATION_MS)
    assert ids.tick(11 * EXPIRATION_MS - 1) == []
    assert ids.tick(11 * EXPIRATION_MS) == [Expired(ID)]
    assert ids.find(ID) is None
    with pytest.raises(InvalidProducerIdMapping):
        ids.add_partitions(ID, producer, {P0}, OLDEST, 0)


def test_what_is_complete_is_not_completed_again() -> None:
    ids = coordinator()
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, NEWEST, 0)
    first = IdAndEpoch(producer.producer_id, 1)
    assert ids.completed(ID, first, 0) == (None, ())
    ids.end(ID, producer, NEWEST, 0, commit=True)
    assert ids.completed(ID, producer, 0) == (None, ())  # another transaction's
    assert len(ids.completed(ID, first, 0)[1]) == 1
    assert ids.completed(ID, first, 0) == (None, ())
    assert ids.completed("nobody", first, 0) == (None, ())


def test_an_overview_by_state_producer_and_duration() -> None:
    ids = coordinator()
    ids.initialize("idle", TIMEOUT_MS, None, 0)
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, NEWEST, 100)
    everything = list(ids)
    assert len(overview(everything)) == 2

    def names(**filters: object) -> list[str]:
        return [each.transactional_id for each in overview(everything, **filters)]  # type: ignore[arg-type]

    assert names(states={TransactionStage.ONGOING}) == [ID]
    assert names(states={TransactionStage.EMPTY}) == ["idle"]
    assert names(producer_ids={producer.producer_id, 5}) == [ID]
    assert names(longer_than_ms=400, now_ms=501) == [ID]
    assert names(longer_than_ms=400, now_ms=500) == []


def test_the_largest_epoch_can_still_be_aborted() -> None:
    """No client has it, but a log may."""
    ids = coordinator()
    ids.replay(
        Transaction(
            transactional_id=ID,
            producer_id=7,
            epoch=EPOCH_MAX,
            timeout_ms=TIMEOUT_MS,
            updated_ms=0,
            started_ms=0,
            state=TransactionStage.ONGOING,
            partitions=frozenset({P0}),
        )
    )
    (aborted,) = ids.tick(TIMEOUT_MS)
    assert isinstance(aborted, Transaction)
    assert aborted.epoch == EPOCH_MAX
    ids.check_invariants()
    complete(ids)
    assert initialized(ids) == (1000, 0)


def test_an_id_that_was_forgotten_begins_anew_whoever_asks() -> None:
    assert initialized(coordinator(), IdAndEpoch(5, 5)) == (1000, 0)


def test_a_clock_that_goes_back_is_tolerated() -> None:
    ids = coordinator()
    ids.initialize(ID, TIMEOUT_MS, None, 900)
    for number, commit in enumerate([True, False]):
        at_ms = 800 - 400 * number
        producer, _ = ids.initialize(ID, TIMEOUT_MS, None, at_ms)
        assert producer is not None
        ids.add_partitions(ID, producer, {P0}, NEWEST, at_ms - 100)
        ids.add_partitions(ID, producer, {P1}, NEWEST, at_ms - 200)
        ids.end(ID, producer, NEWEST, at_ms - 300, commit=commit)
        complete(ids, at_ms - 350)
        ids.check_invariants()
    found = ids.find(ID)
    assert found is not None
    assert (found.state, found.updated_ms) == (TransactionStage.COMPLETE_ABORT, 50)


def test_states_have_kafkas_numbers_and_names() -> None:
    assert {state.value: state.label for state in TransactionStage} == {
        0: "Empty",
        1: "Ongoing",
        2: "PrepareCommit",
        3: "PrepareAbort",
        4: "CompleteCommit",
        5: "CompleteAbort",
        6: "Dead",
        7: "PrepareEpochFence",
    }
    assert [LABELS[state.label] for state in TransactionStage] == list(TransactionStage)


@pytest.mark.parametrize("commit", [True, False])
def test_an_abort_with_the_next_epoch_is_a_transaction_of_its_own(commit: bool) -> None:
    ids = coordinator()
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, NEWEST, 0)
    following, _ = ids.end(ID, producer, NEWEST, 0, commit=commit)
    complete(ids)
    with pytest.raises(InvalidTxnState):
        ids.end(ID, following, NEWEST, 0, commit=True)
    raised, (aborted,) = ids.end(ID, following, NEWEST, 7, commit=False)
    assert raised == following._replace(epoch=2)
    assert isinstance(aborted, Transaction)
    assert (aborted.state, aborted.started_ms) == (TransactionStage.PREPARE_ABORT, 7)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_only_its_own_producer_ends_a_transaction(version: int) -> None:
    ids = coordinator()
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, version, 0)
    for wrong, error in (
        (IdAndEpoch(99, 0), InvalidProducerIdMapping),
        (producer._replace(epoch=1), ProducerFenced),
        (producer._replace(epoch=-1), ProducerFenced),
    ):
        for commit in (True, False):
            with pytest.raises(error):
                ids.end(ID, wrong, version, 0, commit=commit)
    assert state(ids) is TransactionStage.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_is_never_forgotten_and_one_at_rest_is(commit: bool) -> None:
    ids = coordinator()
    producer = initialized(ids)
    ids.add_partitions(ID, producer, {P0}, NEWEST, 0)
    ids.end(ID, producer, NEWEST, 0, commit=commit)
    assert ids.tick(10 * EXPIRATION_MS) == []
    complete(ids)
    assert ids.tick(EXPIRATION_MS) == [Expired(ID)]
    ids.check_invariants()
