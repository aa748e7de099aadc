"""An asyncio event loop whose time is virtual and whose network is in memory.

When every task waits, time jumps to the next timer: thirty seconds pass in no time. When nothing
can wake a task any more, the simulation raises :class:`SimulationStalled` instead of hanging. Work
for threads runs at once on the loop's thread, so there is one thread and one order of events.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sharegroup.sim.network import SimulatedNetwork, SimulatedServer, SimulatedTransport

T = TypeVar("T")


class SimulationStalled(RuntimeError):
    """Every task waits, and nothing can wake one."""


class _TimeSelector(selectors.BaseSelector):
    """Where a real loop would wait for sockets, this one moves the clock.

    The loop's own wake-up socket is registered and forgotten: nothing outside can wake the loop.
    """

    def __init__(self) -> None:
        self.now_s = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Ignore the registration."""
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Do nothing."""
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Nothing is registered."""
        return {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let ``timeout`` seconds pass at once."""
        if timeout is None:
            raise SimulationStalled("no task can run and no timer is set")
        self.now_s += max(0.0, timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Run a coroutine on it with ``asyncio.Runner(loop_factory=SimulatedLoop)``."""

    def __init__(self) -> None:
        self._virtual = _TimeSelector()
        super().__init__(self._virtual)
        self.network = SimulatedNetwork(self)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual.now_s

    def held_up(self, seconds: float) -> None:
        """Let time pass in which nothing runs, as under a handler that takes long."""
        self._virtual.now_s += seconds

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call ``func`` at once; its result arrives in the next step of the loop."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  passed on, as a thread pool does
            future.set_exception(error)
        return future

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        host: str | None = None,
        port: int = 0,
        **_: Any,
    ) -> SimulatedServer:
        """Listen in the simulated network."""
        return self.network.listen(protocol_factory, host or "127.0.0.1", port)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        host: str | None = None,
        port: int = 0,
        **_: Any,
    ) -> tuple[SimulatedTransport, asyncio.Protocol]:
        """Connect in the simulated network; ConnectionRefusedError if no server listens there."""
        return self.network.connect(protocol_factory, host or "127.0.0.1", port)
