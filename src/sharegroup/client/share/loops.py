"""The loops over a share consumer: ``async for`` over records, batches and Arrow batches.

In implicit mode, a loop accepts its last record or batch only when it asks for the next one. A loop
that ends before that (an exception, ``break``, cancellation, a time-out, another loop or a poll)
releases its record or batch in work at once. Records that it had not reached yet are kept for a
moment for the next loop. They are not delivered anew: a new delivery would count, and a record that
fails again and again would push the records after it to the delivery limit.

The loops are objects, not generators: Python drops an abandoned object at once, but closes an
abandoned async generator some time later.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from sharegroup.client.core.held_deliveries import Iteration
from sharegroup.client.core.record import K, Record, Records, V
from sharegroup.client.share.polling import GIVE_UP_S, SharePolling

if TYPE_CHECKING:
    from sharegroup.client.records.arrow_decode import RecordBatch
    from sharegroup.client.share.arrow_batches import ArrowForm

T = TypeVar("T")


def asking_task() -> object:
    """The calling task."""
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs yet: the coroutine made here will start in one
        return None


class Loop(ABC, Generic[T]):
    """The object that one ``async for`` goes over.

    Args:
        owner: the consumer, which is kept as long as the loop over it.
    """

    def __init__(self, polling: SharePolling, owner: object) -> None:
        self._polling = polling
        self._owner = owner
        self._iteration = Iteration()

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, T]:
        self._iteration.asker = asking_task()
        return self._next()

    @abstractmethod
    async def _next(self) -> T:
        """The next item. Raises StopAsyncIteration: the loop ends."""

    async def aclose(self) -> None:
        """Leave the loop: its record or batch in work is released."""
        self._polling.leave(self._iteration)

    def __del__(self) -> None:
        self._polling.leave(self._iteration)


class RecordLoop(Loop[Record[K, V]], Generic[K, V]):
    """Records, one by one. A buffered record is returned without going through :meth:`_next`."""

    def __init__(self, polling: SharePolling, owner: object) -> None:
        super().__init__(polling, owner)
        self._holdings = polling.holdings

    def __anext__(self) -> Coroutine[Any, Any, Record[K, V]]:
        iteration = self._iteration
        iteration.asker = asyncio.current_task()
        iteration.done = given = iteration.given
        if iteration is self._holdings.iteration and given < len(iteration.records):
            polling = self._polling
            if polling.clock() <= polling.yield_at:
                return self._give(iteration)
        return self._next()

    async def _give(self, iteration: Iteration) -> Record[K, V]:
        # Here, not above: of a coroutine that is cancelled before it runs nobody gets a record.
        given = iteration.given
        if given >= len(iteration.records):
            return await self._next()
        iteration.given = given + 1
        return iteration.records[given]

    async def _next(self) -> Record[K, V]:
        polling, iteration = self._polling, self._iteration
        while True:
            given = iteration.given
            if iteration is self._holdings.iteration and given < len(iteration.records):
                if polling.clock() > polling.yield_at:
                    await polling.give_way()
                    continue
                iteration.given = given + 1
                return iteration.records[given]
            if not polling.may_ask(iteration):
                raise StopAsyncIteration
            await polling.next_records(iteration)


class BatchLoop(Loop[Records[K, V]], Generic[K, V]):
    """The results of polls, without the empty ones."""

    def __init__(self, polling: SharePolling, owner: object, wait_s: float) -> None:
        super().__init__(polling, owner)
        self._wait_s = wait_s

    async def _next(self) -> Records[K, V]:
        while self._polling.may_ask(self._iteration):
            records = await self._polling.poll_records(self._wait_s, self._iteration)
            if records:
                return records
        raise StopAsyncIteration


class ArrowLoop(Loop["RecordBatch"]):
    """Arrow batches, until no batch has come for ``idle_timeout_ms``; None: endless."""

    def __init__(
        self,
        polling: SharePolling,
        owner: object,
        max_records: int,
        include_headers: bool,
        idle_timeout_ms: int | None,
    ) -> None:
        super().__init__(polling, owner)
        self._columns = (max_records, include_headers)
        self._wait_s = GIVE_UP_S if idle_timeout_ms is None else idle_timeout_ms / 1000
        self._form: ArrowForm | None = None

    async def _next(self) -> RecordBatch:
        polling = self._polling
        if self._form is None:
            await asyncio.to_thread(polling.load_arrow)  # the import takes a second
            self._form = polling.arrow_form(*self._columns)
        while polling.may_ask(self._iteration):
            batch = await polling.poll_arrow(self._form, self._wait_s, self._iteration)
            if batch is not None:
                return batch
            if polling.assigned:
                polling.leave(self._iteration)
        raise StopAsyncIteration
