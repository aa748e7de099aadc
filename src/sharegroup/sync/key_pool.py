"""The blocking pool: handlers are plain functions, on threads."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, Self

from sharegroup.client.core.record import ConsumerRecord, K, V
from sharegroup.client.group.life import Life
from sharegroup.client.worker.key_pool import KeyPool as AsyncKeyPool
from sharegroup.client.worker.key_pool import OnFailure
from sharegroup.client.worker.settings import SIGNALS
from sharegroup.sync.front import Waiting
from sharegroup.sync.worker_threads import HandlerThreads, signals_call

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

    Args:
        life: the consumer's.
        serving: waits on this thread, and calls the callbacks of ``subscribe`` meanwhile.
    """

    def __init__(
        self, pool: AsyncKeyPool[K, V], workers: int, life: Life, serving: Waiting
    ) -> None:
        self._pool = pool
        self._workers = workers
        self._life = life
        self._serving = serving
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._serving(self._pool.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._life.closed:
            self._serving(self._pool.__aexit__(kind, error, trace))

    @property
    def in_flight(self) -> int:
        """How many records wait, run or rest."""
        return self._pool.in_flight

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
                await self._pool.run(threads.handle, signals=())
            finally:
                threads.close()

        with signals_call(signals, self.stop):
            self._serving(work())

    def stop(self) -> None:
        """End :meth:`run`, from any thread."""
        if self._loop is None:
            self._pool.stop()
        else:
            self._loop.call_soon_threadsafe(self._pool.stop)
