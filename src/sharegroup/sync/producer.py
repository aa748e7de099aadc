"""The blocking producer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, Unpack

from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.handed_over import HandsOver
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.record import Record
from sharegroup.client.core.shown_settings import shows
from sharegroup.client.producer.delivery import RecordMetadata
from sharegroup.client.producer.life import CLOSE_S, ProducerLife
from sharegroup.client.producer.parts import producer_parts
from sharegroup.client.producer.sending import Sending
from sharegroup.client.producer.settings import (
    CheckedProducerSettings,
    ProducerSettings,
    checked_settings,
)
from sharegroup.client.producer.transaction_block import Transaction as AsyncTransaction
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition
from sharegroup.sync.crossing import Crossing, Delivery
from sharegroup.sync.front import Front, Waiting

log = logging.getLogger("sharegroup.client")

_QUEUE_MAX: Final = 1_000
"""How many records a blocking producer queues before it waits for the loop's thread to take them.
"""
_LARGE_BYTES: Final = 16_384
"""After a record of at least this size, the caller waits until the loop's thread has taken it, so
that the queue holds few bytes."""


class Transaction:
    """What ``with producer.transaction()`` opens."""

    def __init__(self, run: Waiting, crossing: Crossing, inner: AsyncTransaction) -> None:
        self._run = run
        self._crossing = crossing
        self._inner = inner

    def __enter__(self) -> Self:
        self._run(self._inner.begin())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._run(self._end(kind, error, trace))

    def acknowledge(self, consumer: HandsOver, *records: Record[Any, Any]) -> None:
        """Accept records of a share group when the transaction commits."""
        self._inner.acknowledge(consumer, *records)

    def reject(
        self, consumer: HandsOver, *records: Record[Any, Any], reason: str | None = None
    ) -> None:
        """Give up records of a share group when the transaction commits."""
        self._inner.reject(consumer, *records, reason=reason)

    def hold(self) -> None:
        """Tell the broker now what was acknowledged so far."""
        self._run(self._inner.hold())

    async def _end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._crossing.ended()
        await self._inner.__aexit__(kind, error, trace)


class Producer(Front):
    """:class:`sharegroup.client.Producer`, blocking; it takes the same arguments. Several threads
    may share one producer.

    :meth:`enqueue` does not wait for the loop's thread, which takes queued records in bulk.
    """

    @shows(CheckedProducerSettings)
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        **settings: Unpack[ProducerSettings],
    ) -> None:
        self._parts = producer_parts(bootstrap_servers, checked_settings(settings))
        self._life = ProducerLife(self._parts)
        self._sending = Sending(self._parts, self._life)
        self._crossing = Crossing(self._sending.enqueue)
        super().__init__()

    def start(self) -> None:
        """Connect; ``with`` does it by itself."""
        self._run(self._life.start())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __del__(self) -> None:
        unclosed = self._thread is not None
        super().__del__()  # warns
        if unclosed:
            self._life.forsake()

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
        message_id: bytes | str | None = None,
        expires_at: datetime | int | None = None,
        deliver_at: datetime | int | None = None,
    ) -> RecordMetadata:
        """Send one record; when it returns, the record is durable. :meth:`enqueue` is the way to
        send many.

        Raises:
            SharegroupError, TypeError, ValueError: as awaiting ``send`` of the asyncio producer.
        """
        record = self._sending.outgoing(
            topic, value, key, headers, partition, timestamp_ms, message_id, expires_at, deliver_at
        )
        return self._crossing.add(record, self._run, self._thread).result()

    def send_and_wait(
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
        """The same as :meth:`send`."""
        record = self._sending.outgoing(
            topic, value, key, headers, partition, timestamp_ms, message_id, expires_at, deliver_at
        )
        return self._crossing.add(record, self._run, self._thread).result()

    def enqueue(
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
        """Put one record into the buffer, waiting while it is full. The record is **not** durable
        when this returns: call ``result()`` of the returned delivery, or :meth:`flush`.

        Raises:
            TypeError, ValueError, MessageTooLarge: at once. All other errors are raised by the
                delivery, or by :meth:`flush` or :meth:`close`.
        """
        record = self._sending.outgoing(
            topic, value, key, headers, partition, timestamp_ms, message_id, expires_at, deliver_at
        )
        delivery = self._crossing.add(record, self._run, self._thread)
        if len(self._crossing.queue) >= _QUEUE_MAX or record.size >= _LARGE_BYTES:
            self._run(self._crossing.ended())
        return delivery

    def flush(self) -> None:
        """Send all records now, and wait until each is durable or has failed. Raises the first
        error among records whose result nobody asked for.
        """
        self._run(self._flush())

    def transaction(self) -> Transaction:
        """A block whose records, and offsets of :meth:`send_offsets`, all take effect, or none."""
        return Transaction(self._run, self._crossing, self._call(self._sending.transaction))

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], member: MemberIdentity
    ) -> None:
        """Commit offsets of a consumer group as part of the open transaction."""
        self._run(self._sending.send_offsets(offsets, member))

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Flush and disconnect, in at most ``timeout_s``; raises as :meth:`flush`."""
        self._close(self._finish(timeout_s))

    async def _flush(self) -> None:
        await self._crossing.ended()
        await self._life.flush()
        self._crossing.raise_refusal()

    async def _finish(self, timeout_s: float) -> None:
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._crossing.ended()
        except TimeoutError:
            log.error("%d records were not sent in %g s", len(self._crossing.queue), timeout_s)
        left_s = max(0.0, deadline - asyncio.get_running_loop().time())
        try:
            await self._life.close(left_s)
        finally:
            await self._crossing.ended()  # the records that are left fail: the producer is closed
        self._crossing.raise_refusal()
