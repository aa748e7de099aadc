"""An event loop on the real network whose clock can be moved forward.

Time is the machine's own plus an offset. :meth:`MovableLoop.advance` raises the offset from timer
to timer. Each timer on the way fires at its own time, one after another; everything that follows
from it finishes before the next one. Only the loop moves the offset, and only while it is idle.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class TimeOffset:
    """How far a broker's time is ahead of the machine's clock; kept over the broker's restarts."""

    def __init__(self) -> None:
        self.seconds = 0.0


class MovableClock:
    """Implements ``model.environment.Clock``: the loop's monotonic time, and wall time that moves
    with it."""

    def __init__(self, offset: TimeOffset) -> None:
        self._offset = offset

    def monotonic_ms(self) -> int:
        """Milliseconds of the event loop's clock."""
        return int((time.monotonic() + self._offset.seconds) * 1000)

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + int(self._offset.seconds * 1000)


class _Move:
    """One call of :meth:`MovableLoop.advance`."""

    def __init__(self, until_s: float, arrived: asyncio.Future[None]) -> None:
        self.until_s = until_s
        self.arrived = arrived


class _MovingSelector(selectors.BaseSelector):
    """The system's selector; while time is being moved it does not wait for timers.

    By a positive timeout, or no timeout, the loop tells that it is idle until then.
    """

    def __init__(self, offset: TimeOffset) -> None:
        self._inner = selectors.DefaultSelector()
        self._offset = offset
        self.moves: list[_Move] = []
        self.working = 0
        """Calls running in threads: time is not moved until they have returned."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """As the system's."""
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """As the system's."""
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """As the system's."""
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """As the system's."""
        return self._inner.get_map()

    def close(self) -> None:
        """As the system's."""
        self._inner.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for the network, or move time to the next timer and come back at once."""
        if not self.moves or self.working:
            return self._inner.select(timeout)
        happened = self._inner.select(0)
        if happened or (timeout is not None and timeout <= 0):
            return happened
        move = self.moves[0]
        left_s = move.until_s - time.monotonic() - self._offset.seconds
        if left_s > 0:
            self._offset.seconds += left_s if timeout is None else min(timeout, left_s)
        else:
            self.moves.pop(0).arrived.set_result(None)
        return []


class MovableLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose :meth:`time` is the machine's plus an offset."""

    def __init__(self, offset: TimeOffset) -> None:
        self._offset = offset
        self._moving = _MovingSelector(offset)
        super().__init__(self._moving)
        self._servers: list[asyncio.Server] = []

    def time(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic() + self._offset.seconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As asyncio's; time is not moved while a thread works for the loop."""
        future = super().run_in_executor(executor, func, *args)
        self._moving.working += 1
        future.add_done_callback(self._worked)
        return future

    def _worked(self, _: object) -> None:
        self._moving.working -= 1

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """As asyncio's."""
        server = await super().create_server(*args, **kwargs)
        self._servers.append(server)
        return server

    def stop_accepting(self) -> None:
        """Accept no more clients, in place of a killed broker. The listeners stay: asyncio loses
        the socket of a client that it is accepting while its listener closes."""
        for server in self._servers:
            for listening in server.sockets:
                self.remove_reader(listening.fileno())

    def stop_listening(self) -> None:
        """Close all listeners."""
        for server in self._servers:
            server.close()

    async def advance(self, seconds: float) -> None:
        """Move time by ``seconds``; return after everything due until then has happened."""
        arrived = self.create_future()
        self._moving.moves.append(_Move(self.time() + seconds, arrived))
        await arrived
