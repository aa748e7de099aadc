"""Lets transactional records only into partitions that are part of the transaction, so that each of
these partitions gets a marker (KIP-890).

With transaction version 2 the first write to a partition adds it to the transaction. Before that, a
client adds its partitions itself and the write is only verified.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.broker.coordination.offset_coordinator import (
    OffsetTransaction,
)
from sharegroup.broker.coordination.transaction_coordinator import BrokerTransactions
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.keyed_locks import KeyedLocks
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import OwnedLog, ProducerStates
from sharegroup.transactions.transaction import EPOCH_PER_TRANSACTION, IdAndEpoch
from sharegroup.wire.batch import BatchHeader

IMPLICIT_FROM: Final = 12
"""The version of Produce that adds partitions by itself."""

ABORTABLE_FROM: Final = 11
"""The version of Produce whose clients know TRANSACTION_ABORTABLE."""

OFFSETS_IMPLICIT_FROM: Final = 5
"""The version of TxnOffsetCommit that adds the group by itself."""

OFFSETS_ABORTABLE_FROM: Final = 4
"""The version of TxnOffsetCommit whose clients know TRANSACTION_ABORTABLE."""


LOWEST_MAX: Final = 10_000
"""How many refused first batches are remembered: more than producers have in a bad moment."""


class Write(NamedTuple):
    """A transactional batch that a producer wants to append."""

    log: OwnedLog
    header: BatchHeader

    @property
    def producer(self) -> IdAndEpoch:
        """The producer of the batch."""
        return IdAndEpoch(self.header.producer_id, self.header.producer_epoch)

    @property
    def begun(self) -> bool:
        """Whether the producer has an open transaction in the partition. Then the transaction's
        marker comes later, and nothing needs to be checked."""
        return self.log.producer_states.in_transaction(*self.producer)

    @property
    def is_late(self) -> bool:
        """Whether the partition knows a later epoch of the producer."""
        return self.log.producer_states.epoch_of(self.producer.producer_id) > self.producer.epoch

    @property
    def is_first(self) -> bool:
        """Whether the partition has no batch of the producer's latest epoch."""
        return not self.log.producer_states.has_batches(self.header.producer_id)


class TransactionalWrites:
    """The transactional batches of one Produce request."""

    def __init__(
        self,
        transactions: BrokerTransactions,
        transactional_id: str,
        version: int,
        *,
        verifies: bool,
        lowest: LowestSequences,
    ) -> None:
        self._transactions = transactions
        self._transactional_id = transactional_id
        self._version = version
        self._verifies = verifies
        self._lowest = lowest
        self._refused: dict[TopicPartition, errors.KafkaError] = {}

    async def add(self, writes: Sequence[Write]) -> None:
        """Add the partitions of the writes to the transaction, if the client leaves adding to the
        broker."""
        if self._version < IMPLICIT_FROM:
            return
        new: dict[IdAndEpoch, set[TopicPartition]] = defaultdict(set)
        for write in writes:
            if not write.begun and not write.is_late:
                new[write.producer].add(write.log.topic_partition)
        for producer, partitions in new.items():
            try:
                await self._transactions.add_partitions(
                    self._transactional_id, producer, partitions, EPOCH_PER_TRANSACTION
                )
            except errors.KafkaError as error:
                refusal = _for_client(error, self._version)
                self._refused.update(dict.fromkeys(partitions, refusal))

    def check(self, write: Write) -> None:
        """Allow a write that the caller makes before its next ``await``.

        Raises:
            KafkaError: the partition is not part of the transaction, or the producer is fenced.
        """
        _check_epoch(self._transactions, write.log.producer_states, write.producer)
        if write.begun:
            return
        where = write.log.topic_partition
        if where in self._refused:
            raise self._refused[where]
        implicit = self._version >= IMPLICIT_FROM
        if self._verifies and not implicit:
            self._lowest.note(write)
        if implicit or self._verifies:
            try:
                self._transactions.check_write(self._transactional_id, write.producer, where)
            except errors.KafkaError as error:
                raise _for_client(error, self._version) from error
        if self._verifies and not implicit:
            self._lowest.check(write)
        if implicit and write.header.base_sequence != 0 and write.is_first:
            # An earlier batch was refused: every transaction has its own epoch, and the sequence of
            # an epoch begins at 0.
            raise errors.OutOfOrderSequenceNumber(
                f"The transaction of producer {write.header.producer_id} begins in {where} with "
                f"sequence {write.header.base_sequence}"
            )

    def appended(self, write: Write) -> None:
        """The batch of an allowed write is in the log."""
        self._lowest.forget(write)


class LowestSequences:
    """The lowest sequence of each producer whose first batch in a partition was refused (Kafka
    class VerificationStateEntry).

    A producer sends several batches at once. If the first was refused and a later one let in, the
    later batch would be taken for the beginning, and the first could not be appended any more.
    """

    def __init__(self) -> None:
        self._lowest: dict[tuple[UUID, int, int], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._lowest)

    def note(self, write: Write) -> None:
        """Note the sequence of a producer's first batch, whatever becomes of it."""
        if not write.is_first:
            return
        key, sequence, epoch = _key(write), write.header.base_sequence, write.producer.epoch
        known_epoch, lowest = self._lowest.pop(key, (epoch, sequence))
        if epoch > known_epoch:
            known_epoch, lowest = epoch, sequence
        elif epoch == known_epoch:
            lowest = min(lowest, sequence)
        self._lowest[key] = known_epoch, lowest
        if len(self._lowest) > LOWEST_MAX:
            del self._lowest[next(iter(self._lowest))]

    def check(self, write: Write) -> None:
        """Allow a producer's first batch, which :meth:`note` was told. The transaction is checked
        before this, as in Kafka.

        Raises:
            OutOfOrderSequenceNumber: an earlier batch was refused, and has not come again.
        """
        sequence = write.header.base_sequence
        _, lowest = self._lowest.get(_key(write), (0, sequence))
        if write.is_first and sequence > lowest:
            raise errors.OutOfOrderSequenceNumber(
                f"Out of order sequence number for producer {write.producer.producer_id}: "
                f"{sequence} (incoming seq. number), {lowest} (earliest seen sequence)"
            )

    def forget(self, write: Write) -> None:
        """The batch is in the log, which knows the producer's sequence from now on."""
        self._lowest.pop(_key(write), None)


def _key(write: Write) -> tuple[UUID, int, int]:
    log = write.log
    return log.topic_id, log.topic_partition.partition, write.header.producer_id


class TransactionWrites:
    """See the module. ``verifies``: ``transaction.partition.verification.enable``, asked at each
    use."""

    def __init__(self, transactions: BrokerTransactions, verifies: Callable[[], bool]) -> None:
        self._transactions = transactions
        self._verifies = verifies
        self._locks = KeyedLocks()
        self._lowest = LowestSequences()

    @asynccontextmanager
    async def admission(
        self, transactional_id: str, version: int
    ) -> AsyncIterator[TransactionalWrites]:
        """Inside the block, later requests of the same transactional id wait: batches must not
        overtake each other while partitions are being added."""
        async with self._locks.holding(transactional_id):
            yield TransactionalWrites(
                self._transactions,
                transactional_id,
                version,
                verifies=self._verifies(),
                lowest=self._lowest,
            )


class OffsetAdmission:
    """Lets offsets of a group into a transaction (TxnOffsetCommit); implements
    ``offset_coordinator.TransactionCheck``. ``states_of``: what a partition of
    ``__consumer_offsets`` knows about its producers; None if the topic does not exist yet."""

    def __init__(
        self,
        transactions: BrokerTransactions,
        states_of: Callable[[int], ProducerStates | None],
    ) -> None:
        self._transactions = transactions
        self._states_of = states_of

    async def __call__(self, transaction: OffsetTransaction, offsets_partition: int) -> None:
        """See ``TransactionCheck``."""
        transactional_id, producer = (
            transaction.transactional_id,
            IdAndEpoch(*transaction.producer),
        )
        where = TopicPartition(CONSUMER_OFFSETS, offsets_partition)
        implicit = transaction.version >= OFFSETS_IMPLICIT_FROM
        states = self._states_of(offsets_partition)
        if states is not None:
            _check_epoch(self._transactions, states, producer)
            if states.in_transaction(*producer):  # as for records: the marker comes later
                return
        try:
            if implicit:
                await self._transactions.add_partitions(
                    transactional_id, producer, {where}, EPOCH_PER_TRANSACTION
                )
            self._transactions.check_write(transactional_id, producer, where)
        except errors.ProducerFenced:
            raise errors.InvalidProducerEpoch from None
        except errors.TransactionAbortable as error:
            if transaction.version < OFFSETS_ABORTABLE_FROM:
                raise errors.InvalidTxnState(error.message) from error
            raise
        except errors.ConcurrentTransactions as error:
            if not implicit:
                raise errors.CoordinatorNotAvailable(error.message) from error
            raise


def _check_epoch(
    transactions: BrokerTransactions, states: ProducerStates, producer: IdAndEpoch
) -> None:
    """Before the transaction is checked, refuse a producer if the partition knows a later epoch of
    it (Kafka class UnifiedLog).

    Raises:
        InvalidProducerEpoch: the partition knows a later epoch.
    """
    try:
        states.check_epoch(*producer)
    except errors.InvalidProducerEpoch:
        transactions.fenced += 1
        raise


def _for_client(error: errors.KafkaError, version: int) -> errors.KafkaError:
    """The error that a producer of this version understands (Kafka class ReplicaManager)."""
    match error:
        case errors.ProducerFenced():
            return errors.InvalidProducerEpoch()
        case errors.TransactionAbortable() if version < ABORTABLE_FROM:
            return errors.InvalidTxnState(error.message)
        case errors.ConcurrentTransactions() if version >= IMPLICIT_FROM:
            return error
        case (
            errors.ConcurrentTransactions()
            | errors.CoordinatorLoadInProgress()
            | errors.CoordinatorNotAvailable()
            | errors.NotCoordinator()
            | errors.KafkaStorageError()
        ):
            return errors.NotEnoughReplicas(
                f"the transaction cannot be verified now: {error.message}"
            )
    return error
