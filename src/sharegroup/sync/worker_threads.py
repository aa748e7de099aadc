"""Threads that run a worker's handlers if these are plain functions."""

from __future__ import annotations

import asyncio
import inspect
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sharegroup.client.core.record import ReadRecord
from sharegroup.client.worker.failures import text_of
from sharegroup.client.worker.handler_kinds import NOT_PLAIN, PlainHandler, check_plain

Handler = Callable[[Any], object]


class _Job:
    """A record for the threads. Either a thread begins it, or the loop drops it before."""

    def __init__(self, record: ReadRecord[Any, Any, Any], done: asyncio.Future[None]) -> None:
        self.record = record
        self.done = done
        self._taken = threading.Lock()

    def take(self) -> bool:
        """Begin it, or drop it. Returns whether nobody has done either before."""
        return self._taken.acquire(blocking=False)


class HandlerThreads:
    """Up to ``count`` daemon threads: a handler that never ends does not keep the program from
    ending.

    Args:
        handler: called with each record.
        loop: the clients' loop.

    Raises:
        PlainHandler: the handler is of the wrong kind, as far as that is seen before it is called.
    """

    def __init__(self, handler: Handler, count: int, loop: asyncio.AbstractEventLoop) -> None:
        check_plain(handler)
        self.on_freed: Callable[[], None] = lambda: None
        """Called on the event loop when a handler that nobody awaits any more has ended."""
        self._handler = handler
        self._count = count
        self._loop = loop
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._overdue = 0

    @property
    def overdue(self) -> int:
        """The number of running handlers that nobody awaits any more."""
        return self._overdue

    async def handle(self, record: ReadRecord[Any, Any, Any]) -> None:
        """Run the handler in a thread, and raise its exceptions. Cancelling does not end it, but
        keeps it from beginning."""
        if self._busy == len(self._threads) < self._count:
            name = f"sharegroup-handler-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        done: asyncio.Future[None] = self._loop.create_future()
        self._busy += 1
        job = _Job(record, done)
        self._jobs.put(job)
        try:
            await done
        except asyncio.CancelledError:
            if job.take():
                self._busy -= 1  # it waits behind handlers that hang: no thread will begin it
            elif done.cancelled():
                self._overdue += 1
            raise

    def close(self) -> None:
        """Let each thread end when its handler ends."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not job.take():
                continue
            error = self._call(job.record)
            try:
                self._loop.call_soon_threadsafe(self._ended, job.done, error)
            except RuntimeError:
                return  # the loop is closed: the worker has ended long ago

    def _call(self, record: ReadRecord[Any, Any, Any]) -> BaseException | None:
        try:
            answer = self._handler(record)
            if inspect.isawaitable(answer):
                if inspect.iscoroutine(answer):
                    answer.close()
                raise PlainHandler(NOT_PLAIN)
        except Exception as error:  # noqa: BLE001  # the application's code may raise anything
            if isinstance(error, StopIteration):  # a future refuses it
                return _instead(error, "StopIteration")
            return error
        except BaseException as error:  # noqa: BLE001  # sys.exit() in a thread ends no program
            return _instead(error, text_of(error, repr))
        return None

    def _ended(self, done: asyncio.Future[None], error: BaseException | None) -> None:
        self._busy -= 1
        if done.cancelled():
            self._overdue -= 1
            self.on_freed()
        elif error is None:
            done.set_result(None)
        else:
            done.set_exception(error)


def _instead(error: BaseException, text: str) -> RuntimeError:
    """The failure of a handler that raised this; its traceback shows the handler's lines."""
    failure = RuntimeError(f"the handler raised {text}")
    failure.__cause__ = error
    return failure


@contextmanager
def signals_call(signals: Iterable[signal.Signals], call: Callable[[], object]) -> Iterator[None]:
    """Each of ``signals`` calls ``call``; the previous handlers are restored afterwards. Only the
    main thread receives signals: in another thread, this does nothing.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for one in signals:
            before[one] = signal.signal(one, lambda _number, _frame: call())
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
