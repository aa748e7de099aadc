"""How records of a blocking producer cross from the program's threads to the loop's thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from sharegroup.client.errors import IllegalState
from sharegroup.client.producer.delivery import Delivery as AsyncDelivery
from sharegroup.client.producer.delivery import RecordMetadata
from sharegroup.client.producer.outgoing import OutgoingRecord
from sharegroup.model.errors import SharegroupError
from sharegroup.sync.front import Waiting
from sharegroup.sync.loop_thread import LoopThread

REFUSED_MAX: Final = 1_000
"""Refused records that are kept for flush() and close()."""


class Delivery:
    """A record that was handed to a blocking producer. :meth:`result` waits until the record is
    durable, and says where it is.

    Attributes:
        inner: the delivery from the producer's buffer; None: the record has not crossed yet.
        error: why the record did not get into the buffer.
        told: the program has asked for the outcome.
    """

    __slots__ = ("_crossing", "_run", "error", "inner", "told")

    def __init__(self, run: Waiting, crossing: Crossing) -> None:
        self._run = run
        self._crossing = crossing
        self.inner: AsyncDelivery | None = None
        self.error: BaseException | None = None
        self.told = False

    def done(self) -> bool:
        """The outcome is known: :meth:`result` will not wait."""
        return self.error is not None or (self.inner is not None and self.inner.done())

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait until the record is durable. Returns its partition, offset and timestamp. What is
        :meth:`done` is known after the producer was closed, too.

        Raises:
            SharegroupError: the record could not be delivered.
            TimeoutError: no outcome within ``timeout_s``; the record stays under way.
        """
        self.told = True
        try:
            return self._run(self._outcome(timeout_s))
        except IllegalState:  # closed
            if self.error is not None or self.inner is None or not self.inner.done():
                raise
            return self.inner.outcome()

    async def _outcome(self, timeout_s: float | None) -> RecordMetadata:
        async with asyncio.timeout(timeout_s):
            while self.inner is None and self.error is None:
                await self._crossing.ended()
            if self.error is not None:
                raise self.error
            assert self.inner is not None, "the record is in the buffer already"
            return await self.inner


class Crossing:
    """A queue of records, which a task on the loop's thread takes in bulk.

    Args:
        enqueue: puts one record into the producer's buffer, waiting for room.

    Attributes:
        queue: the records that the loop's thread has not taken.
    """

    def __init__(self, enqueue: Callable[[OutgoingRecord], Awaitable[AsyncDelivery]]) -> None:
        self._enqueue = enqueue
        self.queue: deque[tuple[OutgoingRecord, Delivery]] = deque()
        self._refused: deque[Delivery] = deque(maxlen=REFUSED_MAX)
        self._called = False
        self._task: asyncio.Task[None] | None = None

    def add(self, record: OutgoingRecord, run: Waiting, thread: LoopThread | None) -> Delivery:
        """Queue a record, from any thread; the loop's thread is to take it.

        Args:
            run: waits for the outcome.

        Raises:
            IllegalState: there is no thread: the producer is closed, or another process's.
        """
        if thread is None:
            raise IllegalState("the Producer is closed, or of the process that has forked this one")
        delivery = Delivery(run, self)
        self.queue.append((record, delivery))
        if not self._called:
            self._called = True
            thread.loop.call_soon_threadsafe(self._begin)
        return delivery

    async def ended(self) -> None:
        """Wait, on the loop's thread, until the queue is empty."""
        while self.queue or (self._task is not None and not self._task.done()):
            if self._task is None or self._task.done():
                await asyncio.sleep(0)  # the call of _begin, which makes the task, is on its way
            else:
                await asyncio.wait([self._task])

    def raise_refusal(self) -> None:
        """Raise the first error of a record that did not get into the buffer, unless the program
        has asked for it. Forgets these errors."""
        unseen = [one.error for one in self._refused if not one.told and one.error is not None]
        self._refused.clear()
        if unseen:
            raise unseen[0]

    def _begin(self) -> None:
        # A task that runs still sees the record in the queue.
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._take_all())

    async def _take_all(self) -> None:
        while self.queue:
            record, delivery = self.queue.popleft()
            try:
                delivery.inner = await self._enqueue(record)
            except SharegroupError as error:  # the producer is closed, or no transaction is open
                delivery.error = error
                self._refused.append(delivery)
            except BaseException as error:
                delivery.error = error
                raise
            if not self.queue:
                self._called = False  # a later record calls _begin again, or is seen here
