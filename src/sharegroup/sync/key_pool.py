"""The blocking pool: handlers are plain functions, on threads."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self

from sharegroup.client.core.record import ConsumerRecord, K, V
from sharegroup.client.worker.key_pool import KeyPool as Inner
from sharegroup.client.worker.key_pool import OnFailure
from sharegroup.client.worker.settings import SIGNALS
from sharegroup.sync.worker_threads import HandlerThreads, signals_call

if TYPE_CHECKING:
    from sharegroup.sync.consumer import Consumer

Failed = Callable[[ConsumerRecord[K, V], Exception], object]


def on_a_thread(on_failure: Failed[K, V]) -> OnFailure[K, V]:
    """``on_failure``, a plain function, as a coroutine function that calls it on a thread."""

    async def call(record: ConsumerRecord[K, V], error: Exception) -> object:
        return await asyncio.to_thread(on_failure, record, error)

    return call


class KeyPool(Generic[K, V]):
    """:class:`sharegroup.client.KeyPool`, blocking. ``Consumer.by_key`` makes it.

    A thread cannot be interrupted: a handler that still runs after ``drain_s`` goes on, keeps its
    worker, and its result does not count.
    """

    def __init__(self, front: Consumer[K, V], inner: Inner[K, V], workers: int) -> None:
        self._front = front
        self._inner = inner
        self._workers = workers
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._front._run(self._inner.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._front.closed:
            self._front._run(self._inner.__aexit__(kind, error, trace))

    @property
    def in_flight(self) -> int:
        """How many records wait, run or rest."""
        return self._inner.in_flight

    def run(
        self,
        handler: Callable[[ConsumerRecord[K, V]], object],
        *,
        signals: Sequence[signal.Signals] = SIGNALS,
    ) -> None:
        """Call ``handler`` with each record, in up to ``workers`` threads, until :meth:`stop`, or
        one of ``signals``. Callbacks of ``subscribe`` run on this thread.
        """

        async def work() -> None:
            self._loop = asyncio.get_running_loop()
            threads = HandlerThreads(handler, self._workers, self._loop)
            try:
                await self._inner.run(threads.handle, signals=())
            finally:
                threads.close()

        with signals_call(signals, self.stop):
            self._front._serving(work())

    def stop(self) -> None:
        """End :meth:`run`, from any thread."""
        if self._loop is None:
            self._inner.stop()
        else:
            self._loop.call_soon_threadsafe(self._inner.stop)
