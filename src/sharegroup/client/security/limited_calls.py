"""Calls that may never return: they run in threads that do not keep a program from ending, and who
asks for a result says how long to wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Final, Generic, TypeVar

from sharegroup.client.clock import monotonic_s

T = TypeVar("T")

HUNG_MAX: Final = 4
"""How many calls of one function may hang at once. Each keeps a thread."""
THREAD_NAME: Final = "sharegroup-security"


class Overdue(Exception):
    """A call did not return within ``limit_s`` seconds."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"did not return within {limit_s:g} s")


@dataclass(frozen=True, slots=True)
class _Call(Generic[T]):
    future: Future[T]
    limit_s: float
    until_s: float

    @property
    def left_s(self) -> float:
        return max(0.0, self.until_s - monotonic_s())


class LimitedCalls(Generic[T]):
    """The calls of one function, from any thread. Who asks while a call is under way shares that
    call, and waits no longer than until its limit.

    Args:
        work: the function. It gets the limit in seconds, and may take longer.
    """

    def __init__(self, work: Callable[[float], T]) -> None:
        self._work = work
        self._lock = Lock()
        self._last: _Call[T] | None = None
        self._hung: list[_Call[T]] = []

    def result(self, limit_s: float) -> T:
        """What the function returns or raises. Blocks for up to ``limit_s`` seconds.

        Raises:
            Overdue: the function did not return in time. It goes on, and its result is lost unless
                it keeps it itself.
        """
        call = self._call(limit_s)
        wait_s = min(limit_s, call.left_s)
        wait([call.future], wait_s)
        if not call.future.done():
            raise Overdue(min(limit_s, call.limit_s))
        return call.future.result()

    def _call(self, limit_s: float) -> _Call[T]:
        """The call under way; if there is none, or its limit is over, a new one. If HUNG_MAX calls
        hang, the last of them.
        """
        with self._lock:
            last = self._last
            if last is not None and not last.future.done():
                if last.left_s > 0:
                    return last
                self._hung = [one for one in (*self._hung, last) if not one.future.done()]
                if len(self._hung) >= HUNG_MAX:
                    self._hung.remove(last)
                    return last
            future = in_thread(lambda: self._work(limit_s))
            self._last = _Call(future, limit_s, monotonic_s() + limit_s)
            return self._last


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Begin ``work`` in a thread of its own. The thread is a daemon: a program waits for the
    threads of an executor when it ends, so work that hangs would keep it from ending.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # a caller that stops waiting does not stop the work

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  whatever it is, it is raised where it is awaited
            future.set_exception(error)
        else:
            future.set_result(result)

    Thread(target=run, name=THREAD_NAME, daemon=True).start()
    return future
