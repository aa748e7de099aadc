"""The one event loop that all blocking clients use, in its thread, and what their fronts share."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final, Protocol, TypeVar

from sharegroup.client.errors import IllegalState

T = TypeVar("T")

_INTERRUPTED_CLOSE_S: Final = 3.0
"""How long, in seconds, to wait for a close after an interrupt. A cancelled close takes less."""


class Waiting(Protocol):
    """Runs work on the event loop, and waits for its result."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        """The result of ``work``. Raises what it raises; IllegalState: the client is closed."""
        ...


class LoopThread:
    """The one event loop, in its thread. Users are counted; the last one to leave stops it."""

    _lock: ClassVar = threading.Lock()
    _shared: ClassVar[LoopThread | None] = None

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._users = 0
        self._thread = threading.Thread(target=self._run, name="sharegroup-client", daemon=True)
        self._thread.start()

    @classmethod
    def enter(cls) -> LoopThread:
        """Use the loop; :meth:`leave` must follow."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            cls._shared._users += 1
            return cls._shared

    def leave(self) -> None:
        """Use the loop no more."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            LoopThread._shared = None
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop and wait. An interrupt of the wait cancels the work."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run_to_end(self, work: Coroutine[Any, Any, None]) -> None:
        """As :meth:`run`, for a close. An interrupt cancels the close. A cancelled close still
        takes a short time; this waits for its end.
        """
        ended = threading.Event()

        async def until_ended() -> None:
            try:
                await work
            finally:
                ended.set()

        try:
            self.run(until_ended())
        except BaseException:
            ended.wait(_INTERRUPTED_CLOSE_S)
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)  # of calls that were interrupted
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


class Front:
    """What all fronts have: a loop, used from construction to :meth:`close`."""

    def __init__(self) -> None:
        self._thread: LoopThread | None = LoopThread.enter()

    def __del__(self) -> None:
        if getattr(self, "_thread", None) is not None:
            name = type(self).__name__
            warnings.warn(
                f"a {name} was not closed: write `with {name}(...)`, or call its close()",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise IllegalState(f"the {type(self).__name__} is closed")
        return self._thread.run(work)

    def _call(self, work: Callable[[], T]) -> T:
        """As :meth:`_run`, for a function that does not wait."""

        async def call() -> T:
            return work()

        return self._run(call())

    def _close(self, work: Coroutine[Any, Any, None]) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            work.close()
            return
        try:
            thread.run_to_end(work)
        finally:
            thread.leave()
