"""An asyncio event loop whose time is virtual and whose network is in memory.

When every task waits, time jumps to the next timer: thirty seconds pass in no time. When nothing
can wake a task any more, the simulation raises :class:`SimulationStalled` instead of hanging. Work
for threads runs at once on the loop's thread, so there is one thread and one order of events.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from heapq import heapify, heappush
from typing import Any, TypeVar
from warnings import catch_warnings
from weakref import WeakKeyDictionary

from sharegroup.sim.network import SimulatedNetwork, SimulatedServer, SimulatedTransport
from sharegroup.sim.nodes import NODE

T = TypeVar("T")


class SimulationStalled(RuntimeError):
    """Every task waits, and nothing can wake one."""


class _TimeSelector(selectors.BaseSelector):
    """Where a real loop would wait for sockets, this one moves the clock.

    The loop's own wake-up socket is registered and forgotten: nothing outside can wake the loop.
    """

    def __init__(self, step_s: float) -> None:
        self.now_s = 0.0
        self._step_s = step_s

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
        self.now_s += max(self._step_s, timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Run a coroutine on it with ``asyncio.Runner(loop_factory=SimulatedLoop)``.

    Args:
        step_s: how long a step of the loop takes at least, in seconds. Where it takes no time, who
            waits again and again for a moment nearer than asyncio can tell waits for ever.
    """

    def __init__(self, step_s: float = 0.0) -> None:
        self._virtual = _TimeSelector(step_s)
        self._dead: set[str] = set()
        self._paused: dict[str, list[asyncio.Handle]] = {}
        self._pauses: Counter[str] = Counter()
        self._nodes: WeakKeyDictionary[asyncio.Task[Any], str] = WeakKeyDictionary()
        self._buried: list[asyncio.Task[Any]] = []
        self._started: list[asyncio.Task[Any]] = []
        super().__init__(self._virtual)
        self.network = SimulatedNetwork(self)
        self.set_task_factory(self._new_task)  # type: ignore[arg-type]

    def _new_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], **how: Any
    ) -> asyncio.Task[T]:
        task = asyncio.Task(work, loop=loop, **how)
        node = _node_of(how.get("context"))
        if node:
            self._nodes[task] = node
        return task

    def close(self) -> None:
        """Close the loop, and let go of what was killed."""
        for task in self._buried:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            # Its ``finally`` clauses run here, and may not await anything.
            with catch_warnings(action="ignore", category=RuntimeWarning), suppress(Exception):
                work = task.get_coro()
                assert work is not None
                work.close()
        self._buried.clear()
        super().close()

    def start(self, node: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run ``work`` as the code of a node, whose name was not used before."""
        context = copy_context()
        context.run(NODE.set, node)
        task = self.create_task(work, context=context)
        self._started.append(task)  # the loop itself keeps no task alive
        return task

    def kill(self, node: str) -> None:
        """As ``kill -9``: no line of the node's code runs any more, and its connections end."""
        self._dead.add(node)
        self._paused.pop(node, None)
        for task in asyncio.all_tasks(self):
            if self._nodes.get(task) == node:
                # It stays, or its ``finally`` would run when it is collected.
                self._buried.append(task)
        for handle in (*self._ready, *self._scheduled):  # type: ignore[attr-defined]
            if _node_of(handle._context) == node:
                handle.cancel()
        self.network.lose(node)

    def kill_all(self) -> None:
        """Kill every node that was started, and whatever else runs: it is over."""
        for node in dict.fromkeys(self._nodes.values()):
            self.kill(node)
        self._buried += [one for one in asyncio.all_tasks(self) if one not in self._nodes]

    def pause(self, node: str) -> None:
        """As SIGSTOP: no line of the node's code runs until :meth:`resume` is called, once for each
        pause."""
        self._pauses[node] += 1
        if node in self._paused or node in self._dead:
            return
        held: list[asyncio.Handle] = []
        ready, timers = self._ready, self._scheduled  # type: ignore[attr-defined]
        for at, one in enumerate(ready):
            if _node_of(one._context) == node:
                held.append(one)
                # The loop counts on the number of those that are ready.
                ready[at] = asyncio.Handle(lambda: None, (), self)
                ready[at].cancel()
        mine = [one for one in timers if _node_of(one._context) == node]
        timers[:] = [one for one in timers if _node_of(one._context) != node]
        heapify(timers)
        self._paused[node] = held + mine

    def resume(self, node: str) -> None:
        """As SIGCONT: all that the node has missed happens now."""
        self._pauses[node] -= 1
        if self._pauses[node]:
            return
        for one in self._paused.pop(node, ()):
            if isinstance(one, asyncio.TimerHandle) and one.when() > self.time():
                heappush(self._scheduled, one)  # type: ignore[attr-defined]
            else:
                self._ready.append(one)  # type: ignore[attr-defined]

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As the base class; nothing of a dead node is called, or of a paused one."""
        if self._dead or self._paused:
            node = _node_of(context)
            if node in self._paused:
                handle = asyncio.Handle(callback, args, self, context)
                self._paused[node].append(handle)
                return handle
            if node in self._dead:
                handle = asyncio.Handle(callback, args, self, context)
                handle.cancel()
                return handle
        return super().call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As the base class; nothing of a dead node is called, or of a paused one."""
        if self._dead or self._paused:
            node = _node_of(context)
            if node in self._paused or node in self._dead:
                handle = asyncio.TimerHandle(when, callback, args, self, context)
                if node in self._dead:
                    handle.cancel()
                else:
                    handle._scheduled = True  # type: ignore[attr-defined]
                    self._paused[node].append(handle)
                return handle
        return super().call_at(when, callback, *args, context=context)

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
        if (seconds := self.network.opens_in_s(port)) > 0:
            await asyncio.sleep(seconds)
        return self.network.connect(protocol_factory, host or "127.0.0.1", port)


def _node_of(context: Context | None) -> str:
    return NODE.get() if context is None else context.get(NODE, "")
