"""The blocking producer."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Literal, Self

from sharegroup.client.clock import wall_ms
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.errors import IllegalState
from sharegroup.client.producer import producer as client
from sharegroup.client.producer.delivery import Delivery as AsyncDelivery
from sharegroup.client.producer.delivery import RecordMetadata
from sharegroup.client.producer.outgoing import OutgoingRecord
from sharegroup.client.producer.transactions import Transaction as AsyncTransaction
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition
from sharegroup.sync.front import Front

log = logging.getLogger("sharegroup.client")

_QUEUE_MAX: Final = 1_000
"""How many records a blocking producer queues before it waits for the loop's thread to take them.
"""
_LARGE_BYTES: Final = 16_384
"""After a record of at least this size, the caller waits until the loop's thread has taken it, so
that the queue holds few bytes."""


class Delivery:
    """A record that was handed to a blocking producer. :meth:`result` waits until the record is
    durable, and says where it is.
    """

    __slots__ = ("_error", "_inner", "_producer")

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._inner: AsyncDelivery | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """The outcome is known: :meth:`result` will not wait."""
        return self._error is not None or (self._inner is not None and self._inner.done())

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait until the record is durable. Returns its partition, offset and timestamp.

        Raises:
            SharegroupError: the record could not be delivered.
            TimeoutError: no outcome within ``timeout_s``; the record stays under way.
        """
        return self._producer._run(self._outcome(timeout_s))

    async def _outcome(self, timeout_s: float | None) -> RecordMetadata:
        async with asyncio.timeout(timeout_s):
            while self._inner is None and self._error is None:
                await self._producer._handed_over()
            if self._error is not None:
                raise self._error
            assert self._inner is not None, "the record is in the buffer already"
            return await self._inner


class Transaction:
    """What ``with producer.transaction()`` opens."""

    def __init__(self, producer: Producer, inner: AsyncTransaction) -> None:
        self._producer = producer
        self._inner = inner

    def __enter__(self) -> None:
        self._producer._run(self._inner.begin())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._producer._run(self._end(kind, error, trace))

    async def _end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._producer._handed_over()
        await self._inner.__aexit__(kind, error, trace)


class Producer(Front):
    """:class:`sharegroup.client.Producer`, blocking; it takes the same arguments. Several threads
    may share one producer.

    :meth:`enqueue` does not wait for the loop's thread, which takes queued records in bulk.
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
        jitter: random.Random | None = None,
    ) -> None:
        self._inner = client.Producer(
            bootstrap_servers,
            enable_idempotence=enable_idempotence,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            acks=acks,
            compression=compression,
            batch_size=batch_size,
            linger_ms=linger_ms,
            buffer_memory=buffer_memory,
            max_block_ms=max_block_ms,
            max_request_size=max_request_size,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            client_id=client_id,
            clock_ms=clock_ms,
            security=security,
            jitter=jitter,
        )
        self._queue: deque[tuple[OutgoingRecord, Delivery]] = deque()
        self._crossing = False
        self._crossing_task: asyncio.Task[None] | None = None
        super().__init__()

    def start(self) -> None:
        """Connect; ``with`` does it by itself."""
        self._run(self._inner.start())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __del__(self) -> None:
        unclosed = getattr(self, "_thread", None) is not None
        super().__del__()  # warns
        if unclosed:
            self._inner._forsake()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except SharegroupError as failure:
            if error is None:
                raise
            log.error("records were not delivered: %s", failure)

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send one record; when it returns, the record is durable. :meth:`enqueue` is the way to
        send many.

        Raises:
            SharegroupError, TypeError, ValueError: as awaiting ``send`` of the asyncio producer.
        """
        record = self._inner._outgoing(topic, value, key, headers, partition, timestamp_ms)
        return self._enqueue(record).result()

    def send_and_wait(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """The same as :meth:`send`."""
        record = self._inner._outgoing(topic, value, key, headers, partition, timestamp_ms)
        return self._enqueue(record).result()

    def enqueue(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Put one record into the buffer, waiting while it is full. The record is **not** durable
        when this returns: call ``result()`` of the returned delivery, or :meth:`flush`.

        Raises:
            TypeError, ValueError, MessageTooLarge: at once. All other errors are raised by the
                delivery, or by :meth:`flush` or :meth:`close`.
        """
        record = self._inner._outgoing(topic, value, key, headers, partition, timestamp_ms)
        delivery = self._enqueue(record)
        if len(self._queue) >= _QUEUE_MAX or record.size >= _LARGE_BYTES:
            self._run(self._handed_over())
        return delivery

    def flush(self) -> None:
        """Send all records now, and wait until each is durable or has failed. Raises the first
        error among records whose result nobody asked for.
        """
        self._run(self._flush())

    def transaction(self) -> Transaction:
        """A block whose records, and offsets of :meth:`send_offsets`, all take effect, or none."""
        return Transaction(self, self._call(self._inner.transaction))

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], member: MemberIdentity
    ) -> None:
        """Commit offsets of a consumer group as part of the open transaction."""
        self._run(self._inner.send_offsets(offsets, member))

    def close(self, timeout_s: float = client.CLOSE_S) -> None:
        """Flush and disconnect, in at most ``timeout_s``; raises as :meth:`flush`."""
        self._close(self._finish(timeout_s))

    def _enqueue(self, record: OutgoingRecord) -> Delivery:
        thread = self._thread
        if thread is None:
            raise IllegalState("the Producer is closed")
        delivery = Delivery(self)
        self._queue.append((record, delivery))
        if not self._crossing:
            self._crossing = True
            thread.loop.call_soon_threadsafe(self._cross)
        return delivery

    def _cross(self) -> None:
        # A task that runs still sees the record in the queue.
        if self._crossing_task is None or self._crossing_task.done():
            self._crossing_task = asyncio.get_running_loop().create_task(self._take_all())

    async def _take_all(self) -> None:
        while self._queue:
            record, delivery = self._queue.popleft()
            try:
                delivery._inner = await self._inner._hand_over(record)
            except SharegroupError as error:  # the producer is closed
                delivery._error = error
            except BaseException as error:
                delivery._error = error
                raise
            if not self._queue:
                self._crossing = False  # a later record calls _cross again, or is seen here

    async def _handed_over(self) -> None:
        while self._queue or (self._crossing_task is not None and not self._crossing_task.done()):
            if self._crossing_task is None or self._crossing_task.done():
                await asyncio.sleep(0)  # the call of _cross, which begins the task, is on its way
            else:
                await asyncio.wait([self._crossing_task])

    async def _flush(self) -> None:
        await self._handed_over()
        await self._inner.flush()

    async def _finish(self, timeout_s: float) -> None:
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._handed_over()
        except TimeoutError:
            log.error("%d records were not sent in %g s", len(self._queue), timeout_s)
        left_s = max(0.0, deadline - asyncio.get_running_loop().time())
        try:
            await self._inner.close(left_s)
        finally:
            await self._handed_over()  # the records that are left fail: the producer is closed
