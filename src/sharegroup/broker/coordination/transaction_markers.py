"""Writes the markers of a decided transaction to its partitions, in this process (Kafka class
TransactionMarkerChannelManager).

All markers of a transaction are written in one step, and so share a round of syncs.

From transaction version 2 on each transaction has an epoch of its own. If a partition has no open
transaction of the producer, and knows the transaction's epoch or a later one, then it has the
marker already. So a repetition after a crash writes no second marker. Before version 2, and for
group offsets, a repetition may write a second marker, as in Kafka; this changes nothing. A
partition that knows a later epoch of the producer gets no marker.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.broker.topics import Topics
from sharegroup.model.environment import Clock
from sharegroup.model.errors import KafkaError, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import TrustedLog
from sharegroup.transactions.transaction import EPOCH_PER_TRANSACTION, Transaction
from sharegroup.wire.markers import MarkerType, encode_marker

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


class TransactionMarkers:
    """See the module."""

    def __init__(self, topics: Topics, clock: Clock, offsets: TransactionalOffsets) -> None:
        self._topics = topics
        self._clock = clock
        self.partition_of_group = offsets.partition_of
        self.complete_offsets = offsets.complete_transaction

    async def write(self, transaction: Transaction, done: set[TopicPartition]) -> None:
        """Write all markers and wait until they are durable. Partitions in ``done`` are left out,
        and finished partitions are added to it. Deleted partitions need no marker.

        Raises:
            KafkaError: a log failed.
        """
        marker = MarkerType.COMMIT if transaction.commits else MarkerType.ABORT
        own_epoch = transaction.client_version >= EPOCH_PER_TRANSACTION
        producer_id, epoch = transaction.producer_id, transaction.epoch
        waits = []
        for where in sorted(transaction.partitions - done):
            try:
                log = self._topics.internal_log(*where)
                if where.topic == CONSUMER_OFFSETS:
                    # Even if it has the marker: this keeps offsets that were checked, and are not
                    # written yet, from coming after the marker.
                    waits.append(self._end_offsets(transaction, where, done))
                    continue
                states = log.producer_states
                later = states.epoch_of(producer_id) > epoch
                if not later and not (own_epoch and states.is_marked(producer_id, epoch)):
                    self.append(log, marker, producer_id, epoch)
            except UnknownTopicOrPartition:
                done.add(where)
            except KafkaError as error:
                waits.append(_failed(error))
            else:
                waits.append(_durable(log, log.log_end_offset, where, done))
        for failed in filter(None, await asyncio.gather(*waits, return_exceptions=True)):
            raise failed

    async def _end_offsets(
        self, transaction: Transaction, where: TopicPartition, done: set[TopicPartition]
    ) -> None:
        await self.complete_offsets(
            where.partition,
            transaction.producer_id,
            transaction.epoch,
            committed=transaction.commits,
            coordinator_epoch=COORDINATOR_EPOCH,
        )
        done.add(where)

    def append(
        self,
        log: TrustedLog,
        marker: MarkerType,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int = COORDINATOR_EPOCH,
    ) -> int:
        """Append one marker, not yet durable. Returns the end of the log.

        Raises:
            KafkaStorageError: the disk failed.
        """
        batch = encode_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=self._clock.wall_ms(),
            coordinator_epoch=coordinator_epoch,
        )
        return log.append_trusted(batch).last_offset + 1


async def _durable(
    log: TrustedLog, end_offset: int, where: TopicPartition, done: set[TopicPartition]
) -> None:
    await log.wait_durable(end_offset)
    done.add(where)


async def _failed(error: KafkaError) -> None:
    raise error
