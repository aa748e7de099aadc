"""What a producer sends: records, which are checked, put into the buffer, and held back while it is
full; and the transactions of records and offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from sharegroup.client.core.committed_offsets import OffsetAndMetadata, as_commit
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.producer.delivery import Delivery
from sharegroup.client.producer.life import ProducerLife
from sharegroup.client.producer.outgoing import OutgoingRecord, TimeGiven, outgoing_record
from sharegroup.client.producer.parts import ProducerParts
from sharegroup.client.producer.transaction_block import Transaction
from sharegroup.model.errors import MessageTooLarge
from sharegroup.model.ids import TopicPartition


class Sending:
    """See the module. The blocking producer checks records on one thread, and hands them over on
    another.
    """

    def __init__(self, parts: ProducerParts, life: ProducerLife) -> None:
        self._parts = parts
        self._life = life
        self._buffer = parts.buffer
        self._transactions = parts.transactions
        self._size_max = parts.settings.record_size_max

    def outgoing(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None,
        headers: Sequence[tuple[str, bytes | None]],
        partition: int | None,
        timestamp_ms: int | None,
        message_id: bytes | str | None,
        expires_at: TimeGiven,
        deliver_at: TimeGiven,
    ) -> OutgoingRecord:
        """Check the arguments of ``Producer.send``. Any thread may call it.

        Raises:
            TypeError, ValueError, MessageTooLarge: as ``Producer.send``.
        """
        record = outgoing_record(
            topic, value, key, headers, partition, timestamp_ms, message_id, expires_at, deliver_at
        )
        if record.size > self._size_max:
            raise MessageTooLarge(
                f"the record has {record.size} bytes, and at most {self._size_max} are sent: "
                "see max_request_size and buffer_memory"
            )
        return record

    def check_may_send(self) -> None:
        """Raises IllegalState: the producer is closed, or no transaction is open."""
        self._life.check_open()
        if self._transactions is not None:
            self._transactions.machine.check_open()

    async def enqueue(self, record: OutgoingRecord) -> Delivery:
        """Put a record into the buffer, waiting for room. A refused record has a delivery too."""
        self.check_may_send()
        delivery = self._buffer.hand_over(record, waits=True)
        if self._buffer.crowded or not delivery.has_entered:
            await self.give_way(delivery)
        return delivery

    async def give_way(self, delivery: Delivery) -> None:
        """Wait until the record is in the buffer; if batches are full, let other tasks run."""
        if not delivery.has_entered:
            try:
                await asyncio.shield(delivery.entered())
            except asyncio.CancelledError:
                self._buffer.withdraw(delivery)
                raise
        if self._buffer.crowded:
            self._buffer.crowded = False
            await asyncio.sleep(0)  # a batch is full: let the sender and other tasks run

    def transaction(self) -> Transaction:
        """As ``Producer.transaction``."""
        self._life.check_open()
        return Transaction(self._parts)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], member: MemberIdentity
    ) -> None:
        """As ``Producer.send_offsets``."""
        self._life.check_open()
        await self._parts.own_transactions().send_offsets(as_commit(offsets), member)
