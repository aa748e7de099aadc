"""One asyncio loop on a thread of its own, for code that does not use asyncio.

Its work goes on between the calls: heartbeats and lock renewals while the program, or Spark, does
something else. It is a daemon thread: it does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from sharegroup.client.errors import IllegalState

T = TypeVar("T")

_INTERRUPTED_CLOSE_S: Final = 3.0
"""How long, in seconds, to wait for a close after an interrupt. A cancelled close takes less."""


class LoopThread:
    """A running event loop. :meth:`run` may be called from any other thread.

    Attributes:
        is_here: False in a child of ``fork``, when who holds the loop has noted it: the thread has
            stayed with the parent, and nobody would answer.
    """

    def __init__(self, name: str) -> None:
        self.is_here = True
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run ``work`` on the loop and wait. An interrupt of the wait cancels the work.

        Raises:
            IllegalState: this is the loop's own thread, which cannot wait for itself.
            TimeoutError: the work took longer than ``timeout_s``, and is cancelled.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise IllegalState(
                "this callback runs on the client's own thread, where no call of the client can "
                "wait: make the call on another thread"
            )
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s)
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

    def close(self) -> None:
        """End the loop and its thread. A second call does nothing."""
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)  # of calls that were interrupted
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
