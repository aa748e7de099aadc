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

import asyncio
import logging
import random
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self

from sharegroup.client.clock import wall_ms
from sharegroup.client.closing import ended
from sharegroup.client.core.committed_offsets import OffsetAndMetadata, as_commit
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.errors import IllegalState
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.producer.buffer import BufferSettings, ProduceBuffer
from sharegroup.client.producer.delivery import Delivery, RecordMetadata
from sharegroup.client.producer.outgoing import OutgoingRecord, outgoing_record
from sharegroup.client.producer.sender import ProduceSender
from sharegroup.client.producer.starting import ProducerStart
from sharegroup.client.producer.transactions import Transaction, TransactionCoordinator
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.model.errors import (
    ConfigError,
    KafkaError,
    MessageTooLarge,
    RequestTimedOut,
    SharegroupError,
)
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.client")

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CLOSE_S: Final = 30.0


class Producer:
    """An asynchronous producer with ``acks=all``.

    Args:
        bootstrap_servers: ``host:port,…`` or a list.
        enable_idempotence: no duplicates and no reordering when requests are sent again.
        transactional_id: for :meth:`transaction`; a name that outlives the process. A new producer
            with the same name fences the older one.
        transaction_timeout_ms: the broker aborts a transaction that is open for longer.
        acks: ``"all"`` or 1; which replicas have the records before the broker answers.
        compression: ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``, per batch.
        batch_size: a batch is closed when it has this many bytes. A share group takes batches
            whole: with large batches, one consumer gets many records and others none.
        linger_ms: how long a batch may wait for more records. With 0, a batch holds the records
            sent before the event loop runs again, or while a request is under way.
        buffer_memory: bytes that may wait to be sent.
        max_block_ms: how long a record waits for room in the buffer, or for the leaders of its
            topic. A topic that does not exist is an error after 5 s.
        max_request_size: the most bytes that one request may have, and one record.
        delivery_timeout_ms: a record that is not confirmed within this time fails.
        clock_ms: the wall clock, for records without a timestamp.
        security: TLS and SASL: a :class:`~sharegroup.client.Security`, or the properties of Java's
            clients or librdkafka for them; None: PLAINTEXT.
        cluster: connections to share with other clients; :meth:`close` does not close them.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        *,
        enable_idempotence: bool = True,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        acks: Literal["all", 1] = "all",
        compression: str = "none",
        batch_size: int = 16_384,
        linger_ms: int = 0,
        buffer_memory: int = 33_554_432,
        max_block_ms: int = 60_000,
        max_request_size: int = 1_048_576,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        client_id: str = "sharegroup",
        clock_ms: Callable[[], int] = wall_ms,
        security: SecuritySettings = None,
        cluster: Cluster | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        _check(compression, acks, enable_idempotence, transactional_id)
        self._cluster = cluster or Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            security=security,
            jitter=jitter,
        )
        self._owns_cluster = cluster is None
        self._record_max = min(max_request_size, buffer_memory)
        self._buffer = ProduceBuffer(
            self._cluster,
            BufferSettings(
                batch_size=batch_size,
                codec=CODECS[compression],
                idempotent=enable_idempotence and acks == "all",
                transactional=transactional_id is not None,
                buffer_memory=buffer_memory,
                max_block_s=max_block_ms / 1000,
                delivery_timeout_s=delivery_timeout_ms / 1000,
                clock_ms=clock_ms,
            ),
        )
        self._transactions = (
            TransactionCoordinator(
                self._cluster, transactional_id, transaction_timeout_ms, max_block_ms
            )
            if transactional_id is not None
            else None
        )
        self._sender = ProduceSender(
            self._cluster,
            acks=-1 if acks == "all" else 1,
            linger_s=linger_ms / 1000,
            max_request_size=max_request_size,
            on_done=self._buffer.done,
            transactions=self._transactions,
        )
        self._starting = ProducerStart(self._cluster, self._transactions, self._sender)
        self._buffer.sender = self._sender
        self._buffer.connect = self._starting.done
        self._closing: asyncio.Task[None] | None = None
        self._forsaken = False
        self._hurry = asyncio.Event()

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; ``async with`` and the first record do it by themselves.

        Raises:
            BootstrapError: no broker could be reached.
        """
        self._check_open()
        await self._starting.done()

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Flush, then disconnect. A second call does nothing.

        The close takes at most ``timeout_s``; records not confirmed by then fail with
        RequestTimedOut. Cancelling the close ends it at once, in the same way. No task and no
        connection is left behind.

        Raises:
            SharegroupError: as :meth:`flush`.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(timeout_s), name="producer-close")
        closing = self._closing
        if closing.done():
            return
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            self._hurry.set()
            while not closing.done():
                try:
                    await asyncio.wait([closing])
                except asyncio.CancelledError:
                    continue  # the stop is under way; it takes a few turns of the event loop
            if not closing.cancelled() and (error := closing.exception()) is not None:
                log.error("records were not delivered: %s", error)
            raise

    async def _close(self, timeout_s: float) -> None:
        try:
            await self._flush_until_hurried(timeout_s)
        finally:
            late = RequestTimedOut(
                f"the producer was closed before the record was confirmed (timeout_s={timeout_s:g})"
            )
            await self._stopping(late)()
        self._raise_failure()

    async def _flush_until_hurried(self, timeout_s: float) -> None:
        flush = asyncio.create_task(self._all_through())
        hurry = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait(
                [flush, hurry], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            flush.cancel()
            hurry.cancel()
            await asyncio.gather(flush, hurry, return_exceptions=True)

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
        if getattr(self, "_closing", self) is not None or self._forsaken:
            return
        if self._loop is None:
            return
        warnings.warn(
            f"{self!r} was not closed: write `async with Producer(...)`, or await its close()",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        self._forsake()

    def _forsake(self) -> None:
        """Stop, from any thread, because nobody closed this producer."""
        self._forsaken = True
        loop = self._loop
        if loop is not None and not loop.is_closed():
            gone = RequestTimedOut(
                "the producer was given up before the record was confirmed: hold it until then, "
                "and close it"
            )
            stop = self._stopping(gone)
            loop.call_soon_threadsafe(lambda: loop.create_task(stop(), name="producer-stop"))

    @property
    def _loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the producer is used on; None: it was not used."""
        return self._starting.loop or self._buffer.loop

    def _stopping(self, error: KafkaError) -> Callable[[], Coroutine[Any, Any, None]]:
        """A function that stops all parts of the producer; records not confirmed by then fail. It
        holds no reference to the producer."""
        starting, buffer, sender = self._starting, self._buffer, self._sender
        cluster = self._cluster if self._owns_cluster else None

        async def stop() -> None:
            await ended(starting.cut())
            await buffer.close(error)
            await sender.stop(error)
            if cluster is not None:
                await cluster.close()

        return stop

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

        Raises:
            TypeError, ValueError: not a record; the text says what to write.
            MessageTooLarge: the record alone is larger than a request may be.
            BufferExhausted: the buffer is full, and this task has a record waiting already.
            IllegalState: the producer is closed, or no event loop runs here.

        The delivery raises:
            InvalidPartitions: the topic has no such partition.
            UnknownTopicOrPartition: there is no such topic, and the broker does not create it.
            BufferExhausted: no room in ``buffer_memory`` for ``max_block_ms``.
            RequestTimedOut: not confirmed within ``delivery_timeout_ms``.
            BootstrapError: no broker could be reached.
            KafkaError: the broker refuses the record.
        """
        self._check_may_send()
        record = self._outgoing(topic, value, key, headers, partition, timestamp_ms)
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
    ) -> RecordMetadata:
        """The same as ``await producer.send(...)``."""
        return await self.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
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
    ) -> Delivery:
        """Put one record into the buffer, waiting while it is full: the way to send many records.
        The record is **not** durable when this returns: await the delivery, or :meth:`flush`.

        After a cancelled call, the record may or may not be in the buffer. Raises as :meth:`send`
        and its delivery, for errors known when the record enters the buffer.
        """
        record = self._outgoing(topic, value, key, headers, partition, timestamp_ms)
        self._check_may_send()
        delivery = self._buffer.hand_over(record, waits=True)
        if self._buffer.crowded or not delivery.has_entered:
            await self._give_way(delivery)
        if delivery.done():
            await delivery  # refused: raise it here
        return delivery

    async def flush(self) -> None:
        """Send all records now, and wait until every record so far is durable or has failed.

        Raises:
            SharegroupError: the first error among records whose delivery nobody awaited; its note
                says how many failed.
        """
        if self._closing is None:
            await self._all_through()
            self._raise_failure()

    async def _all_through(self) -> None:
        self._sender.flushing += 1
        try:
            waiting = [delivery.entered() for delivery in self._buffer.waiting()]
            if waiting:
                await asyncio.wait(waiting)
            await self._sender.all_through()
        finally:
            self._sender.flushing -= 1

    def _raise_failure(self) -> None:
        error = self._buffer.failures.take()
        if error is not None:
            raise error

    # --- transactions -----------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """A block whose records, and offsets of :meth:`send_offsets`, all take effect, or none::

            async with producer.transaction():
                await producer.enqueue("orders", b"...")

        The end of the block waits until all records are durable, and commits. An exception in the
        block aborts the transaction, and is raised. One transaction at a time is open.

        Raises:
            IllegalState: the producer has no ``transactional_id``, or a transaction is open.
            ProducerFenced: a newer producer with the same ``transactional_id`` runs.
            KafkaError: a record, or the commit, was refused: the transaction was aborted. If the
                time ran out during the commit, its outcome is not known, and this producer cannot
                go on.
        """
        self._check_open()
        self._own_transactions()
        return Transaction(self)

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
        self._check_open()
        await self._own_transactions().send_offsets(as_commit(offsets), member)

    def _own_transactions(self) -> TransactionCoordinator:
        if self._transactions is None:
            raise IllegalState("transactions need a transactional_id")
        return self._transactions

    # --- for the blocking producer, whose records are checked on one thread and sent on another ---

    def _outgoing(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None,
        headers: Sequence[tuple[str, bytes | None]],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> OutgoingRecord:
        """Check the arguments of :meth:`send`. Any thread may call it."""
        record = outgoing_record(topic, value, key, headers, partition, timestamp_ms)
        if record.size > self._record_max:
            raise MessageTooLarge(
                f"the record has {record.size} bytes, and at most {self._record_max} are sent: "
                "see max_request_size and buffer_memory"
            )
        return record

    async def _hand_over(self, record: OutgoingRecord) -> Delivery:
        """Put a record into the buffer, waiting for room. A refused record has a delivery too."""
        self._check_may_send()
        delivery = self._buffer.hand_over(record, waits=True)
        if self._buffer.crowded or not delivery.has_entered:
            await self._give_way(delivery)
        return delivery

    async def _give_way(self, delivery: Delivery) -> None:
        if not delivery.has_entered:
            try:
                await asyncio.shield(delivery.entered())
            except asyncio.CancelledError:
                self._buffer.withdraw(delivery)
                raise
        if self._buffer.crowded:
            self._buffer.crowded = False
            await asyncio.sleep(0)  # a batch is full: let the sender and other tasks run

    # --- inside -----------------------------------------------------------------------------------

    def _check_may_send(self) -> None:
        self._check_open()
        if self._transactions is not None:
            self._transactions.machine.check_open()

    def _check_open(self) -> None:
        if self._closing is not None:
            raise IllegalState("the producer is closed")


def _check(
    compression: str, acks: object, enable_idempotence: bool, transactional_id: str | None
) -> None:
    """Raises ConfigError: an argument is wrong, or two contradict each other."""
    if compression not in CODECS:
        raise ConfigError(f"compression is {compression!r}: write one of {', '.join(CODECS)}")
    if acks not in ("all", 1):
        raise ConfigError(f"acks is {acks!r}: write 'all' or 1")
    if transactional_id is not None and not (enable_idempotence and acks == "all"):
        raise ConfigError("transactions need enable_idempotence=True and acks='all'")
    if transactional_id == "":
        raise ConfigError("transactional_id is empty: name the producer")
