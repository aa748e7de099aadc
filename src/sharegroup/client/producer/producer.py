"""The producer: sends records in batches, in order and exactly once (KIP-98), even when connections
break.

::

    async with Producer("127.0.0.1:9092") as producer:
        where = await producer.send("flights", value=flight, key=carrier)  # durable
        for flight in flights:
            await producer.enqueue("flights", value=flight)  # in the buffer
        await producer.flush()  # all are durable
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack

from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.shown_settings import shows
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.producer.delivery import Delivery, RecordMetadata
from sharegroup.client.producer.life import CLOSE_S, ProducerLife
from sharegroup.client.producer.parts import producer_parts
from sharegroup.client.producer.sending import Sending
from sharegroup.client.producer.settings import (
    CheckedProducerSettings,
    ProducerSettings,
    checked_settings,
)
from sharegroup.client.producer.transaction_block import Transaction
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.client")


class Producer:
    """An asynchronous producer with ``acks=all``.

    Args:
        bootstrap_servers: ``host:port,…`` or a list.
        cluster: connections to share with other clients; :meth:`close` does not close them.
        settings: see :class:`~sharegroup.client.producer.settings.ProducerSettings`.

    Raises:
        ConfigError: a setting is wrong, or two contradict each other.
        TypeError: there is no such setting.
    """

    @shows(CheckedProducerSettings)
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        *,
        cluster: Cluster | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        self._parts = producer_parts(bootstrap_servers, checked_settings(settings), cluster)
        self._buffer = self._parts.buffer
        self._life = ProducerLife(self._parts)
        self._sending = Sending(self._parts, self._life)

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; ``async with`` and the first record do it by themselves.

        Raises:
            BootstrapError: no broker could be reached.
        """
        await self._life.start()

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Flush, then disconnect. A second call does nothing.

        The close takes at most ``timeout_s``; records not confirmed by then fail with
        RequestTimedOut. Cancelling the close ends it at once, in the same way. No task and no
        connection is left behind.

        Raises:
            SharegroupError: as :meth:`flush`.
        """
        await self._life.close(timeout_s)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except SharegroupError as failure:
            if error is None:
                raise
            log.error("records were not delivered: %s", failure)

    def __del__(self) -> None:
        life = getattr(self, "_life", None)
        if life is None or not life.left_open:
            return
        warnings.warn(
            f"{self!r} was not closed: write `async with Producer(...)`, or await its close()",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        life.forsake()

    # --- producing --------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        message_id: bytes | str | None = None,
        expires_at: datetime | int | None = None,
        deliver_at: datetime | int | None = None,
    ) -> Delivery:
        """Send one record. Await the returned delivery: the record is then durable::

            where = await producer.send("orders", b"...", key=b"customer-7")
            print(where.offset)

        Without ``await``, the call returns at once and the record is under way: await the delivery
        later, or call :meth:`flush`. An error that is never awaited is logged, and :meth:`flush`
        and :meth:`close` raise it.

        Text is encoded as UTF-8. Records with the same key go to the same partition, as with Java's
        producer. When the buffer is full, each task may have one record waiting for room; a second
        one fails with BufferExhausted, which bounds memory. :meth:`enqueue` waits instead.

        A topic with ``deduplication.window.ms`` appends only the first record of a ``message_id``
        in each partition. The delivery of a later one says where the first is, and ``repeated``.

        ``expires_at`` is when the record is worthless, a datetime with its time zone or
        milliseconds since 1970: it stands in the header ``sharegroup.expires.at``, which share
        groups with ``share.record.expiry.header.enable`` obey.

        ``deliver_at`` is when the record is to be delivered, and not before, given in the same way:
        it stands in the header ``sharegroup.deliver.at``, which share groups with
        ``share.record.schedule.header.enable`` obey. Other readers get the record at once.

        Raises:
            TypeError, ValueError: not a record; the text says what to write.
            MessageTooLarge: the record alone is larger than a request may be.
            BufferExhausted: the buffer is full, and this task has a record waiting already.
            IllegalState: the producer is closed, or no event loop runs here; or it has a
                ``transactional_id``, and no transaction is open, or the open one is being ended.

        The delivery raises:
            InvalidPartitions: the topic has no such partition.
            UnknownTopicOrPartition: there is no such topic, and the broker does not create it.
            BufferExhausted: no room in ``buffer_memory`` for ``max_block_ms``.
            RequestTimedOut: not confirmed within ``delivery_timeout_ms``.
            BootstrapError: no broker could be reached.
            KafkaError: the broker refuses the record.
        """
        self._sending.check_may_send()
        record = self._sending.outgoing(
            topic, value, key, headers, partition, timestamp_ms, message_id, expires_at, deliver_at
        )
        return self._buffer.hand_over(record, waits=False)

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        message_id: bytes | str | None = None,
        expires_at: datetime | int | None = None,
        deliver_at: datetime | int | None = None,
    ) -> RecordMetadata:
        """The same as ``await producer.send(...)``."""
        return await self.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            message_id=message_id,
            expires_at=expires_at,
            deliver_at=deliver_at,
        )

    async def enqueue(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        message_id: bytes | str | None = None,
        expires_at: datetime | int | None = None,
        deliver_at: datetime | int | None = None,
    ) -> Delivery:
        """Put one record into the buffer, waiting while it is full: the way to send many records.
        The record is **not** durable when this returns: await the delivery, or :meth:`flush`.

        After a cancelled call, the record may or may not be in the buffer. Raises as :meth:`send`
        and its delivery, for errors known when the record enters the buffer.
        """
        record = self._sending.outgoing(
            topic, value, key, headers, partition, timestamp_ms, message_id, expires_at, deliver_at
        )
        self._sending.check_may_send()
        delivery = self._buffer.hand_over(record, waits=True)
        if self._buffer.crowded or not delivery.has_entered:  # not awaited for nothing: it costs
            await self._sending.give_way(delivery)
        if delivery.done():
            await delivery  # refused: raise it here
        return delivery

    async def flush(self) -> None:
        """Send all records now, and wait until every record so far is durable or has failed.

        Raises:
            SharegroupError: the first error among records whose delivery nobody awaited; its note
                says how many failed.
        """
        await self._life.flush()

    # --- transactions -----------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """A block whose records, and offsets of :meth:`send_offsets`, all take effect, or none::

            async with producer.transaction() as transaction:
                await producer.enqueue("orders", b"...")
                transaction.acknowledge(share_consumer, record)

        The end of the block waits until all records are durable, and commits. An exception in the
        block aborts the transaction, and is raised. One transaction at a time is open.

        Raises:
            IllegalState: the producer has no ``transactional_id``, or a transaction is open.
            ProducerFenced: a newer producer with the same ``transactional_id`` runs.
            KafkaError: a record, or the commit, was refused: the transaction was aborted. If the
                time ran out during the commit, its outcome is not known, and this producer cannot
                go on.
        """
        return self._sending.transaction()

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        member: MemberIdentity,
    ) -> None:
        """Commit offsets of a consumer group as part of the open transaction.

        Args:
            member: ``consumer.group_metadata()`` of the consumer that read the records.

        Raises:
            IllegalState: no transaction is open.
            KafkaError: the member has lost its partitions, or the offsets were refused for another
                reason; the transaction can only be aborted.
        """
        await self._sending.send_offsets(offsets, member)
