"""One asyncio loop on a thread of its own, for work that goes on between Spark's calls to the
source process.

Spark calls the source from one thread, now and then, and blocks in between; heartbeats and lock
renewal must go on meanwhile. A daemon thread runs for as long as the source process lives.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A running event loop; :meth:`run` may be called from any other thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run ``work`` on the loop and wait for its result; an interrupted wait cancels it.

        Raises:
            TimeoutError: the work took longer than ``timeout_s``.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and its thread; does nothing the second time."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
