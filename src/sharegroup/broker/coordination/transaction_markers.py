"""Writes the markers of a decided transaction to its partitions, in this process (Kafka class
TransactionMarkerChannelManager).

A partition whose producer has no open transaction and the marker's epoch or a later one has its
marker already, or needs none. So a repetition after a crash writes no second one. Only group
offsets may get one; it changes nothing.
"""

from __future__ import annotations

from typing import Final, Protocol

from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.broker.topics import Topics
from sharegroup.model.environment import Clock
from sharegroup.model.errors import UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import TrustedLog
from sharegroup.transactions.transaction import Transaction
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
        """Write all markers and wait until they are durable. Adds the finished partitions to
        ``done``, and leaves those in it out. Deleted partitions need none.

        Raises:
            KafkaError: a log failed.
        """
        marker = MarkerType.COMMIT if transaction.commits else MarkerType.ABORT
        written: list[tuple[TopicPartition, TrustedLog, int]] = []
        offsets = []
        for where in sorted(transaction.partitions - done):
            try:
                log = self._topics.internal_log(*where)
            except UnknownTopicOrPartition:
                done.add(where)
                continue
            if where.topic == CONSUMER_OFFSETS:
                offsets.append(where)
                continue
            if not log.producer_states.is_marked(transaction.producer_id, transaction.epoch):
                self.append(log, marker, transaction.producer_id, transaction.epoch)
            written.append((where, log, log.log_end_offset))
        for where, log, end_offset in written:
            await log.wait_durable(end_offset)
            done.add(where)
        for where in offsets:
            # Even if it has the marker: offsets may be on their way, and must not come behind it.
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
