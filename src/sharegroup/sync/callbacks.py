"""How the callbacks of a blocking consumer come from the event loop to the program's thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from sharegroup.client.group.rebalancing import RebalanceCallback
from sharegroup.model.ids import TopicPartition


class Callbacks:
    """Functions that a program's thread calls while it waits for a result. What was not called when
    a wait ended, as by an interrupt, is called during the next one.
    """

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()

    def serve_until(self, future: Future[Any]) -> None:
        """Call what comes, until ``future`` is done."""
        future.add_done_callback(lambda _: self._tell())
        while (call := self._next(future)) is not None:
            call()

    def _next(self, future: Future[Any]) -> Callable[[], None] | None:
        # Whether it is done is asked of the future itself: a mark that it is could be taken by
        # another wait, that of another thread or inside of a callback.
        with self._changed:
            self._changed.wait_for(lambda: self._calls or future.done())
            return None if future.done() else self._calls.popleft()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def call_there(self, callback: RebalanceCallback, wheres: list[TopicPartition]) -> None:
        """Call ``callback`` on the thread that serves. Raises what it raises, but not an interrupt:
        that is of the thread.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Exception | None] = loop.create_future()

        def call() -> None:
            if done.done():
                return  # who asked for it was cancelled
            error: Exception | None = None
            try:
                callback(wheres)
            except Exception as raised:  # noqa: BLE001  # the application's code may raise anything
                error = raised
            finally:
                loop.call_soon_threadsafe(_set, done, error)

        self._calls.append(call)
        self._tell()
        # As a result: a future takes not every exception.
        if (error := await done) is not None:
            raise error


def _set(done: asyncio.Future[Exception | None], error: Exception | None) -> None:
    if not done.done():
        done.set_result(error)
