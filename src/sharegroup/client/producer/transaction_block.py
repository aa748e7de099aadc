"""The block of a transaction: its begin, its commit, and its abort when the block raises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from sharegroup.client.core.transaction import ProducerTransactionState
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

    async def __aenter__(self) -> None:
        await self.begin()

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

    async def begin(self) -> None:
        """Open the transaction."""
        parts, machine = self._parts, self._coordinator.machine
        await parts.starting.done()
        machine.begin()
        for outbox in parts.buffer.outboxes():
            if outbox.identity != machine.identity:
                outbox.renew()

    async def commit(self) -> None:
        """Wait until all records are durable, and commit. If that is not possible: abort, and raise
        the reason.
        """
        try:
            await self._all_through()
            await self._coordinator.end(commit=True)
        except SharegroupError:
            if self._coordinator.machine.state is ProducerTransactionState.OPEN:
                await self.abort()
            raise

    async def abort(self) -> None:
        """Drop the records that are not sent yet, wait for those under way, and abort."""
        machine = self._coordinator.machine
        if machine.state is not ProducerTransactionState.OPEN:
            return
        machine.failed(TransactionAborted("the transaction was aborted"))
        self._parts.sender.drop()
        await self._all_through()
        await self._coordinator.end(commit=False)

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
