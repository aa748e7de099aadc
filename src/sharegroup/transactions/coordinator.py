"""The transaction coordinator: what may happen to a transactional id (Kafka classes
TransactionCoordinator and TransactionStateManager; KIP-98, KIP-360, KIP-890).

A method that decides changes the state at once and returns its result with the records to write.
If it raises, nothing has changed. The caller answers when the records are durable. Once a decided
outcome is durable, the caller writes the markers and then calls :meth:`completed`.

Kafka refuses requests while an earlier record of the same id is being written. Here the decision
holds at once, and the later answer waits for the earlier record, so no client has to retry.

As in Kafka, InitProducerId aborts an open transaction whatever epoch it names, as long as it names
the id's producer id. The caller's epoch is checked at its next call, when the transaction is
complete.

A commit that comes after the time-out has aborted the transaction is told TRANSACTION_ABORTABLE:
the producer aborts, gets its next epoch, and goes on. Kafka says INVALID_TXN_STATE, which Java's
producer takes for a fault of its own that no producer survives. After a load it is not known
whether the time-out or the producer aborted; then the answer is the same.

Invariants (:meth:`TransactionCoordinator.check_invariants`): the invariants of each transaction
hold; each transaction has a deadline unless its outcome is decided; no producer id belongs to two
transactional ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final, TypeAlias

from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.transactions.deadlines import Deadlines
from sharegroup.transactions.transaction import (
    EPOCH_PER_TRANSACTION,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Expired,
    IdAndEpoch,
    Transaction,
    TransactionStage,
    epochs_used_up,
)

Record: TypeAlias = Transaction | Expired

SERVER_VERSION: Final = 2
"""The transaction version of the aborts that the coordinator itself decides."""


class TransactionCoordinator:
    """The transactional ids of one partition of ``__transaction_state``. Times are wall-clock
    milliseconds.

    Args:
        new_producer_id: a producer id that was never given out before.
        timeout_max_ms: ``transaction.max.timeout.ms``, asked at each use.
        expiration_ms: ``transactional.id.expiration.ms``, asked at each use.
    """

    def __init__(
        self,
        new_producer_id: Callable[[], int],
        timeout_max_ms: Callable[[], int],
        expiration_ms: Callable[[], int],
    ) -> None:
        self._new_producer_id = new_producer_id
        self._timeout_max_ms = timeout_max_ms
        self._expiration_ms = expiration_ms
        self._transactions: dict[str, Transaction] = {}
        self._deadlines = Deadlines()
        self._by_state: Counter[TransactionStage] = Counter()
        self._open: dict[str, Transaction] = {}

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(list(self._transactions.values()))

    def find(self, transactional_id: str) -> Transaction | None:
        """The state of an id, or None."""
        return self._transactions.get(transactional_id)

    @property
    def by_state(self) -> Mapping[TransactionStage, int]:
        """How many ids there are in each state."""
        return self._by_state

    def oldest_started_ms(self) -> int | None:
        """When the oldest open transaction began; None: no transaction is open."""
        return min((each.started_ms for each in self._open.values()), default=None)

    # -- requests -----------------------------------------------------------------------------

    def initialize(
        self, transactional_id: str, timeout_ms: int, expected: IdAndEpoch | None, now_ms: int
    ) -> tuple[IdAndEpoch | None, Sequence[Record]]:
        """Give an id to a producer and fence all earlier ones (InitProducerId).

        ``expected``: who the producer has been, if it wants to go on (KIP-360).

        Returns None for the producer if an open transaction had to be aborted first: call again
        when the transaction is complete.

        Raises:
            InvalidTransactionTimeout: ``timeout_ms`` is not above 0, or is over
                ``transaction.max.timeout.ms``.
            ProducerFenced: ``expected`` has been replaced. During an open transaction only its
                producer id is checked.
            ConcurrentTransactions: the last transaction is not complete yet.
            KafkaStorageError: a new producer id could not be made durable.
        """
        if not 0 < timeout_ms <= self._timeout_max_ms():
            raise errors.InvalidTransactionTimeout
        old = self._transactions.get(transactional_id)
        if old is None:
            made = Transaction(
                transactional_id=transactional_id,
                producer_id=self._new_producer_id(),
                epoch=0,
                timeout_ms=timeout_ms,
                updated_ms=now_ms,
            )
            return IdAndEpoch(made.producer_id, 0), self._put(made)
        if old.prepared:
            raise errors.ConcurrentTransactions
        if expected is not None:
            _check_expected_id(old, expected)
        if old.state is TransactionStage.ONGOING:
            return None, self._put(_aborted_by_server(old, now_ms))
        if expected is not None:
            _check_expected_epoch(old, expected)
        owner, last_epoch = self._next_owner(old, expected)
        return owner, self._put(old.taken(owner, last_epoch, timeout_ms, now_ms))

    def _next_owner(self, old: Transaction, expected: IdAndEpoch | None) -> tuple[IdAndEpoch, int]:
        """The producer that gets the id, and the epoch with which the request may be repeated."""
        if old.exhausted:
            last_epoch = NO_EPOCH if expected is None else expected.epoch
            return IdAndEpoch(self._new_producer_id(), 0), last_epoch
        if expected is None:
            return IdAndEpoch(old.producer_id, old.epoch + 1), NO_EPOCH
        if expected.epoch == old.epoch and expected.producer_id == old.producer_id:
            return IdAndEpoch(old.producer_id, old.epoch + 1), old.epoch
        return IdAndEpoch(old.producer_id, old.epoch), old.last_epoch

    def add_partitions(
        self,
        transactional_id: str,
        producer: IdAndEpoch,
        partitions: Set[TopicPartition],
        version: int,
        now_ms: int,
    ) -> tuple[None, Sequence[Record]]:
        """Begin a transaction, or add partitions to it (AddPartitionsToTxn, AddOffsetsToTxn; since
        transaction version 2 also Produce and TxnOffsetCommit).

        Raises:
            ConcurrentTransactions: the last transaction is not complete yet. This is checked first:
                the producer may name the producer id that follows when the transaction is complete.
            InvalidProducerIdMapping, ProducerFenced: as their names say.
        """
        transaction = self._transactions.get(transactional_id)
        if transaction is not None and transaction.prepared:
            raise errors.ConcurrentTransactions
        transaction = self._of(transactional_id, producer)
        if transaction.state is TransactionStage.ONGOING and partitions <= transaction.partitions:
            return None, ()
        return None, self._put(transaction.with_partitions(partitions, version, now_ms))

    def check_write(
        self, transactional_id: str, producer: IdAndEpoch, partition: TopicPartition
    ) -> None:
        """Allow a producer to write to a partition of its transaction; changes nothing.

        Raises:
            InvalidProducerIdMapping, ProducerFenced: as their names say.
            ConcurrentTransactions: the last transaction is not complete yet.
            TransactionAbortable: the partition is not part of the transaction.
        """
        transaction = self._of(transactional_id, producer)
        if transaction.prepared:
            raise errors.ConcurrentTransactions
        if partition not in transaction.partitions:
            raise errors.TransactionAbortable(f"{partition} was not added to the transaction")

    def end(
        self,
        transactional_id: str,
        producer: IdAndEpoch,
        version: int,
        now_ms: int,
        *,
        commit: bool,
    ) -> tuple[IdAndEpoch, Sequence[Record]]:
        """Decide the outcome of a transaction (EndTxn). Returns the producer that may begin the
        next one. A retry gets the same answer.

        From transaction version 2 on, a transaction without partitions may be aborted too.

        Raises:
            ConcurrentTransactions: the last transaction is not complete yet.
            InvalidProducerIdMapping, ProducerFenced: as their names say.
            InvalidTxnState: there is no transaction, or its outcome is not the one asked for.
            TransactionAbortable: the transaction has timed out.
        """
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise errors.InvalidProducerIdMapping
        if transaction.prepared:
            raise errors.ConcurrentTransactions
        retry = version >= EPOCH_PER_TRANSACTION and _is_retry(transaction, producer)
        if not retry:
            self._of(transactional_id, producer)
        state = transaction.state
        if version < EPOCH_PER_TRANSACTION:
            retry = state is not TransactionStage.ONGOING
        if retry:
            return _answer_again(transaction, commit=commit), ()
        if state is not TransactionStage.ONGOING and commit:
            raise errors.InvalidTxnState
        next_id = NO_PRODUCER_ID
        if version >= EPOCH_PER_TRANSACTION and transaction.exhausted:
            next_id = self._new_producer_id()
        decided = transaction.decided(
            commit=commit, version=version, now_ms=now_ms, next_producer_id=next_id
        )
        return decided.successor, self._put(decided)

    def completed(
        self, transactional_id: str, marked: IdAndEpoch, now_ms: int
    ) -> tuple[None, Sequence[Record]]:
        """All markers of the decided transaction of the producer ``marked`` are durable. Does
        nothing if the transaction is complete already."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None or not transaction.prepared:
            return None, ()
        if marked != (transaction.producer_id, transaction.epoch):
            return None, ()
        return None, self._put(transaction.completed(now_ms))

    # -- time ---------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When :meth:`tick` should be called; that may be too early, never too late."""
        return self._deadlines.next_ms()

    def tick(self, now_ms: int) -> Sequence[Record]:
        """Abort transactions whose time-out has passed, and forget ids that nobody has used for
        ``transactional.id.expiration.ms``. Returns the records."""
        records: list[Record] = []
        for transactional_id in self._deadlines.due(now_ms):
            transaction = self._transactions.get(transactional_id)
            deadline_ms = None if transaction is None else self._deadline_ms(transaction)
            if transaction is None or deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._deadlines.set(transactional_id, deadline_ms)
            elif transaction.state is TransactionStage.ONGOING:
                records += self._put(_aborted_by_server(transaction, now_ms, overdue=True))
            else:
                self._forget(transactional_id)
                records.append(Expired(transactional_id))
        return records

    def _deadline_ms(self, transaction: Transaction) -> int | None:
        if transaction.prepared:
            return None
        if transaction.state is TransactionStage.ONGOING:
            return transaction.started_ms + transaction.timeout_ms
        return transaction.updated_ms + self._expiration_ms()

    # -- the log ------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """Apply a record of the log."""
        if isinstance(record, Expired):
            self._forget(record.transactional_id)
        else:
            aborted = record.state in (
                TransactionStage.PREPARE_ABORT,
                TransactionStage.COMPLETE_ABORT,
            )
            self._put(replace(record, overdue=aborted))

    def decided(self) -> list[Transaction]:
        """The transactions whose outcome is decided and that are not complete."""
        return [each for each in self._transactions.values() if each.prepared]

    def check_invariants(self) -> None:
        """Assert what the module's docstring lists."""
        ids: set[int] = set()
        waiting: set[str] = set(self._deadlines.keys())
        for transactional_id, transaction in self._transactions.items():
            assert transaction.transactional_id == transactional_id
            transaction.check_invariants()
            assert transaction.prepared or transactional_id in waiting, transaction
            own = {transaction.producer_id, transaction.next_producer_id} - {NO_PRODUCER_ID}
            assert not own & ids, transaction
            ids |= own
        assert +self._by_state == Counter(each.state for each in self._transactions.values())
        ongoing = TransactionStage.ONGOING
        assert list(self._open.items()) == [
            (each, self._transactions[each])
            for each in self._open
            if self._transactions[each].state is ongoing
        ]
        assert len(self._open) == self._by_state[ongoing]

    def _put(self, transaction: Transaction) -> Sequence[Record]:
        self._forget(transaction.transactional_id)
        self._transactions[transaction.transactional_id] = transaction
        self._by_state[transaction.state] += 1
        if transaction.state is TransactionStage.ONGOING:
            self._open[transaction.transactional_id] = transaction
        deadline_ms = self._deadline_ms(transaction)
        if deadline_ms is not None:
            self._deadlines.set(transaction.transactional_id, deadline_ms)
        return (transaction,)

    def _forget(self, transactional_id: str) -> None:
        old = self._transactions.pop(transactional_id, None)
        if old is not None:
            self._by_state[old.state] -= 1
            self._open.pop(transactional_id, None)

    def _of(self, transactional_id: str, producer: IdAndEpoch) -> Transaction:
        """The transaction of an id that ``producer`` owns."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.producer_id != producer.producer_id:
            raise errors.InvalidProducerIdMapping
        if transaction.epoch != producer.epoch:
            raise errors.ProducerFenced
        return transaction


def overview(
    transactions: Iterable[Transaction],
    *,
    states: Set[TransactionStage] = frozenset(),
    producer_ids: Set[int] = frozenset(),
    longer_than_ms: int = -1,
    now_ms: int = 0,
) -> list[Transaction]:
    """The transactions that pass all filters; an empty filter passes all (ListTransactions).

    A transaction that has not begun passes no filter by duration.
    """

    def passes(each: Transaction) -> bool:
        lasted_ms = now_ms - each.started_ms if each.started_ms >= 0 else -1
        return (
            (not states or each.state in states)
            and (not producer_ids or each.producer_id in producer_ids)
            and (longer_than_ms < 0 or lasted_ms > longer_than_ms)
        )

    return [each for each in transactions if passes(each)]


def _aborted_by_server(
    transaction: Transaction, now_ms: int, *, overdue: bool = False
) -> Transaction:
    """Abort a transaction and raise its epoch, so that late requests of the producer are refused.
    The largest epoch is left for this: no client gets it."""
    return transaction.decided(commit=False, version=SERVER_VERSION, now_ms=now_ms, overdue=overdue)


def _check_expected_id(old: Transaction, expected: IdAndEpoch) -> None:
    """KIP-360: a producer may go on with its current id, or repeat the request that gave it a new
    id because the epochs of the old id were used up."""
    if expected.producer_id == old.producer_id:
        return
    if expected.producer_id != old.previous_producer_id or not epochs_used_up(expected.epoch):
        raise errors.ProducerFenced


def _check_expected_epoch(old: Transaction, expected: IdAndEpoch) -> None:
    """KIP-360: a producer may go on with its current epoch, or repeat the request that raised
    it."""
    epochs = {old.last_epoch} - {NO_EPOCH}
    if expected.producer_id == old.producer_id:
        epochs.add(old.epoch)
    if expected.epoch not in epochs:
        raise errors.ProducerFenced


def _is_retry(transaction: Transaction, producer: IdAndEpoch) -> bool:
    """Whether ``producer`` has ended this transaction already: it names the epoch that the end of
    the transaction has raised."""
    if transaction.client_version < EPOCH_PER_TRANSACTION:
        return False
    if transaction.state in (TransactionStage.ONGOING, TransactionStage.EMPTY):
        return False
    if producer.producer_id == transaction.producer_id:
        return producer.epoch + 1 == transaction.epoch
    return (
        producer.producer_id == transaction.previous_producer_id
        and transaction.epoch == 0
        and epochs_used_up(producer.epoch)
    )


def _answer_again(transaction: Transaction, *, commit: bool) -> IdAndEpoch:
    """The answer to a retry of EndTxn."""
    newer = transaction.client_version >= EPOCH_PER_TRANSACTION
    if transaction.overdue and newer and commit:
        raise errors.TransactionAbortable("the transaction has timed out, and was aborted")
    if transaction.state is TransactionStage.EMPTY or transaction.commits is not commit:
        raise errors.InvalidTxnState
    return transaction.successor
