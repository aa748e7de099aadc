"""The one event loop that all blocking clients use, in its thread, and what their fronts share."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from sharegroup.client.errors import IllegalState
from sharegroup.sync.loop_thread import LoopThread

T = TypeVar("T")


class Waiting(Protocol):
    """Runs work on the event loop, and waits for its result."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        """The result of ``work``. Raises what it raises; IllegalState: the client is closed."""
        ...


class _SharedLoop:
    """The one event loop, in its thread. Users are counted; the last one to leave stops it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._users = 0

    def enter(self) -> LoopThread:
        """Use the loop; :meth:`leave` must follow."""
        with self._lock:
            if self._thread is None:
                self._thread = LoopThread("sharegroup-client")
            self._users += 1
            return self._thread

    def leave(self) -> None:
        """Use the loop no more."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            thread, self._thread = self._thread, None
        assert thread is not None, "somebody left who had not entered"
        thread.close()

    def forked(self) -> None:
        """This process is a child of ``fork``: begin anew."""
        if self._thread is not None:
            self._thread.is_here = False
        self._lock, self._thread, self._users = threading.Lock(), None, 0


SHARED_LOOP: Final = _SharedLoop()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED_LOOP.forked)


class Front:
    """What all fronts have: a loop, used from construction to :meth:`close`. In a child of ``fork``
    the fronts of the parent are as closed ones."""

    def __init__(self) -> None:
        self._entered: LoopThread | None = SHARED_LOOP.enter()

    @property
    def _thread(self) -> LoopThread | None:
        """The loop; None: it is closed, or has stayed with another process."""
        thread: LoopThread | None = getattr(self, "_entered", None)  # __init__ may have failed
        return thread if thread is not None and thread.is_here else None

    def __del__(self) -> None:
        if self._thread is not None:
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
            name = type(self).__name__
            if self._entered is not None:
                raise IllegalState(
                    f"this {name} belongs to the process that has forked this one: make another one"
                )
            raise IllegalState(f"the {name} is closed")
        return self._thread.run(work)

    def _call(self, work: Callable[[], T]) -> T:
        """As :meth:`_run`, for a function that does not wait."""

        async def call() -> T:
            return work()

        return self._run(call())

    def _close(self, work: Coroutine[Any, Any, None]) -> None:
        thread, self._entered = self._thread, None
        if thread is None:
            work.close()
            return
        try:
            thread.run_to_end(work)
        finally:
            SHARED_LOOP.leave()
