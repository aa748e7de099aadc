"""The block of a transaction: its begin, its commit, and its abort when the block raises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.handed_over import HandedOver, HandsOver
from sharegroup.client.core.record import Record
from sharegroup.client.errors import TransactionAborted
from sharegroup.client.producer.parts import ProducerParts
from sharegroup.model.errors import InvalidProducerEpoch, ProducerFenced, SharegroupError

log = logging.getLogger("sharegroup.client")


class Transaction:
    """What ``async with producer.transaction()`` opens: committed at the end of the block, aborted
    when it raises.

    Raises:
        IllegalState: the producer has no transactional id.
    """

    def __init__(self, parts: ProducerParts) -> None:
        self._parts = parts
        self._coordinator = parts.own_transactions()
        self._handed: list[HandedOver] = []

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await _to_its_end(self.commit())
            return
        try:
            await _to_its_end(self.abort())
        except ProducerFenced as fenced:
            if isinstance(error, InvalidProducerEpoch):  # how a partition's leader says it
                raise fenced from error
            log.error("the transaction was aborted for this producer: %s", fenced)
        except SharegroupError as failure:
            log.error("the transaction was not aborted, the broker will do it: %s", failure)

    def acknowledge(self, consumer: HandsOver, *records: Record[Any, Any]) -> None:
        """Accept records of a share group when the transaction commits: its results and these
        acknowledgements become visible together, or not at all. If it aborts, the records are
        delivered again.

        The broker is told at the end of the block. If the consumer has lost the lock of a record by
        then, the transaction is aborted, and the end of the block raises InvalidRecordState.

        Args:
            consumer: the share consumer, in explicit mode, that returned the records.

        Raises:
            IllegalState: a record is acknowledged already, or no transaction is open, or it is
                being ended; nothing was acknowledged. Or the consumer is in implicit mode, or its
                group has order per key.
        """
        self._hand_over(consumer, records, AckType.ACCEPT, None)

    def reject(
        self, consumer: HandsOver, *records: Record[Any, Any], reason: str | None = None
    ) -> None:
        """As :meth:`acknowledge`, for records that cannot be processed: with the commit they are
        given up, and become dead letters where the group has them. ``reason``: why."""
        self._hand_over(consumer, records, AckType.REJECT, reason)

    async def hold(self) -> None:
        """Tell the broker now what was acknowledged so far, and not only at the end of the block:
        from now on the transaction holds these records, and no lock of them expires before it ends.

        Raises:
            InvalidRecordState: a consumer has lost the lock of a record; the transaction can only
                be aborted.
            UnsupportedVersion: the broker cannot acknowledge in transactions.
        """
        while self._handed:  # more may come meanwhile
            told = list(self._handed)
            await self._coordinator.acknowledge(told)
            self._handed = [one for one in self._handed if one not in told]

    def _hand_over(
        self,
        consumer: HandsOver,
        records: Sequence[Record[Any, Any]],
        kind: AckType,
        reason: str | None,
    ) -> None:
        self._coordinator.machine.check_open()
        self._handed.append(consumer.hand_over(*records, kind=kind, reason=reason))

    async def begin(self) -> None:
        """Open the transaction."""
        parts, machine = self._parts, self._coordinator.machine
        await parts.starting.done()
        machine.check_idle()
        for outbox in parts.buffer.outboxes():
            if outbox.identity != machine.identity:
                outbox.renew()
        machine.begin()

    async def commit(self) -> None:
        """Wait until all records are durable, and commit. If that is not possible: abort, and raise
        the reason. From the call on, other tasks can add nothing to the transaction.
        """
        try:
            self._coordinator.machine.finish()
            await self._all_through()
            await self.hold()
            await self._coordinator.end(commit=True)
        except Exception:
            try:
                if self._coordinator.machine.under_way:
                    await self.abort()
            finally:
                self._give_back()
            raise

    async def abort(self) -> None:
        """Drop the records that are not sent yet, wait for those under way, and abort."""
        self._give_back()
        machine = self._coordinator.machine
        if not machine.under_way:
            return
        machine.finish()
        machine.failed(TransactionAborted("the transaction was aborted"))
        self._parts.sender.drop()
        await self._all_through()
        await self._coordinator.end(commit=False)

    def _give_back(self) -> None:
        """The consumers have the records that the broker does not know of."""
        for one in self._handed:
            one.give_back()
        self._handed.clear()

    async def _all_through(self) -> None:
        await self._parts.buffer.all_through()
        self._parts.buffer.failures.take()  # the transaction's own error is raised


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await the end of a transaction. If the caller is cancelled, the cancellation is raised only
    afterwards: an end given up halfway would leave the outcome open.
    """
    ending = asyncio.create_task(work, name="end-transaction")
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait([ending])
        if not ending.cancelled() and (error := ending.exception()) is not None:
            log.error("the transaction did not end as it should: %s", error)
        raise
