"""Writes the markers of a decided transaction to its partitions, in this process (Kafka class
TransactionMarkerChannelManager).

All markers of a transaction are written in one step, and so share a round of syncs.

From transaction version 2 on each transaction has an epoch of its own. If a partition has no open
transaction of the producer, and knows the transaction's epoch or a later one, then it has the
marker already. So a repetition after a crash writes no second marker. Before version 2, and for
group offsets, a repetition may write a second marker, as in Kafka; this changes nothing. A
partition that knows a later epoch of the producer gets no marker.

Partitions of ``__share_group_state`` get none either: what a transaction has acknowledged there is
ordinary share state, which says itself that it is pending. It is carried out or given back. A
repetition finds nothing pending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from sharegroup.broker.coordination.log import EndOfTransaction, ProducerEpoch, TransactionLog
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from sharegroup.model.errors import KafkaError, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition
from sharegroup.model.pending_acks import TransactionMark
from sharegroup.transactions.transaction import EPOCH_PER_TRANSACTION, Transaction

COORDINATOR_EPOCH: Final = 0
"""One node leads the transaction log for ever."""


class TransactionalOffsets(Protocol):
    """The coordinator of group offsets, as transactions see it."""

    def partition_of(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that holds the offsets of a group."""
        ...

    async def complete_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        coordinator_epoch: int,
    ) -> None:
        """Commit or forget the offsets of a producer's transaction, durably.

        Raises:
            KafkaError: the log failed.
        """
        ...


class TransactionalAcknowledgements(Protocol):
    """The acknowledgements of share groups, as transactions see them."""

    async def end(
        self, state_partition: int, transaction: TransactionMark, *, committed: bool
    ) -> None:
        """Carry out, durably, what a transaction has acknowledged in share partitions whose state
        is in this partition of ``__share_group_state``; or give it back.

        Raises:
            KafkaError: the log failed.
        """
        ...


class TransactionMarkers:
    """See the module."""

    def __init__(
        self,
        log_of: Callable[[TopicPartition], TransactionLog],
        offsets: TransactionalOffsets,
        acknowledgements: TransactionalAcknowledgements,
    ) -> None:
        self._log_of = log_of
        self._offsets = offsets
        self._acknowledgements = acknowledgements
        self.partition_of_group = offsets.partition_of

    async def write(self, transaction: Transaction, done: set[TopicPartition]) -> None:
        """Write all markers and wait until they are durable. Partitions in ``done`` are left out,
        and finished partitions are added to it. Deleted partitions need no marker.

        Raises:
            KafkaError: a log failed.
        """
        own_epoch = transaction.client_version >= EPOCH_PER_TRANSACTION
        producer = ProducerEpoch(transaction.producer_id, transaction.epoch)
        end = EndOfTransaction(producer, transaction.commits, COORDINATOR_EPOCH)
        waits = []
        for where in sorted(transaction.partitions - done):
            if where.topic == SHARE_GROUP_STATE:
                waits.append(_done(self._end_acknowledgements(where, end), where, done))
                continue
            try:
                log = self._log_of(where)
                if where.topic == CONSUMER_OFFSETS:
                    # Even if it has the marker: this keeps offsets that were checked, and are not
                    # written yet, from coming after the marker.
                    waits.append(_done(self._end_offsets(where, end), where, done))
                    continue
                lacks = log.lacks_end(end, own_epoch=own_epoch)
                ticket = log.submit_end(end) if lacks else log.submitted()
            except UnknownTopicOrPartition:
                done.add(where)
            except KafkaError as error:
                waits.append(_failed(error))
            else:
                waits.append(_done(ticket.durable(), where, done))
        for failed in filter(None, await asyncio.gather(*waits, return_exceptions=True)):
            raise failed

    async def write_by_hand(
        self, where: TopicPartition, end: EndOfTransaction, *, newer: bool
    ) -> None:
        """End a producer's transaction in one partition, whatever its coordinator says; returns
        when that is durable. ``newer`` as in ``log.TransactionLog.check_end``.

        Raises:
            UnknownTopicOrPartition: there is no such partition.
            InvalidProducerEpoch, TransactionCoordinatorFenced: somebody later has been here.
            KafkaError: the log failed.
        """
        log = self._log_of(where)
        log.check_end(end, newer=newer)
        if where.topic == SHARE_GROUP_STATE:
            await self._end_acknowledgements(where, end)
            return
        if where.topic == CONSUMER_OFFSETS:
            await self._end_offsets(where, end)
        else:
            await log.submit_end(end).durable()

    async def _end_acknowledgements(self, where: TopicPartition, end: EndOfTransaction) -> None:
        mark = TransactionMark(*end.producer)
        await self._acknowledgements.end(where.partition, mark, committed=end.committed)

    async def _end_offsets(self, where: TopicPartition, end: EndOfTransaction) -> None:
        await self._offsets.complete_transaction(
            where.partition,
            *end.producer,
            committed=end.committed,
            coordinator_epoch=end.coordinator_epoch,
        )


async def _done(work: Awaitable[object], where: TopicPartition, done: set[TopicPartition]) -> None:
    await work
    done.add(where)


async def _failed(error: KafkaError) -> None:
    raise error
