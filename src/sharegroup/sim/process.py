"""A production broker as a process of a simulation: it starts, is killed or told to stop, and
starts again on what its disk has."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sharegroup.broker.configs.broker import load
from sharegroup.broker.server import Broker
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.environment import Environment
from sharegroup.model.errors import ConfigError
from sharegroup.sim.disk import NONE, MemoryDisk, Trouble
from sharegroup.sim.environment import SimulatedClock, simulated_environment
from sharegroup.sim.loop import SimulatedLoop

HOST: Final = "127.0.0.1"
DATA: Final = "data"
"""The data folder on its disk."""
AGAIN_S: Final = 1
"""After a start that has failed."""
STARTS_S: Final = 300
STOPS_S: Final = 25
"""A start, and a planned stop, take no longer."""

log = logging.getLogger("sharegroup.sim")


class Started(NamedTuple):
    """How a process is started, each time.

    Attributes:
        port: where it listens.
        options: settings, as ``name=value``.
        upstream: the address of the cluster that it is in front of; empty: there is none.
    """

    port: int
    options: Sequence[str] = ()
    upstream: str = ""


class BrokerProcess:
    """See the module.

    Args:
        name: its processes are the nodes ``name-1``, ``name-2`` … of the simulation.
        seed: of its randomness.
        crashed: told what it must not do.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        name: str,
        how: Started,
        seed: int,
        clock: SimulatedClock,
        crashed: Callable[[str], None],
        trouble: Trouble = NONE,
    ) -> None:
        self.disk = MemoryDisk(trouble)
        self.broker: Broker | None = None
        """While it serves."""
        self._loop = loop
        self._name = name
        self._how = how
        self._seed = seed
        self._clock = clock
        self._crashed = crashed
        self._count = 0
        self._changes = asyncio.Lock()
        self._told: asyncio.Event
        self._running: asyncio.Task[None]

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"{HOST}:{self._how.port}"

    @property
    def node(self) -> str:
        """The name of the process that runs, or was started last."""
        return f"{self._name}-{self._count}"

    async def start(self) -> None:
        """Start it on the disk as it is; again and again, while the disk or the cluster does not
        let it."""
        while True:
            self._count += 1
            ready, self._told = asyncio.Event(), asyncio.Event()
            self._running = self._loop.start(self.node, self._serve(ready, self._told))
            waiting = asyncio.ensure_future(ready.wait())
            await asyncio.wait(
                [self._running, waiting],
                return_when=asyncio.FIRST_COMPLETED,
                timeout=STARTS_S if self._how.upstream else None,
            )
            if ready.is_set():
                return
            waiting.cancel()
            if self._running.done():
                log.info("%s does not start: %s", self.node, self._running.exception())
            else:
                self._crashed(f"{self.node} does not start in {STARTS_S} s")
            self._end(self.disk.successor)
            await asyncio.sleep(AGAIN_S)

    async def _serve(self, ready: asyncio.Event, told: asyncio.Event) -> None:
        seed = random.Random(f"{self._seed} {self.node}").getrandbits(32)
        environment = simulated_environment(self.disk, seed, self._clock)
        self.broker = broker = await self._opened(environment, seed)
        await broker.listen(HOST, self._how.port)
        try:
            await broker.join()
        except ConfigError:
            await broker.close()
            raise
        ready.set()
        await told.wait()
        await broker.close()

    async def _opened(self, environment: Environment, seed: int) -> Broker:
        how = self._how
        cluster = None
        if how.upstream:
            cluster = Cluster(
                how.upstream, allow_auto_create_topics=False, jitter=random.Random(seed)
            )
        return await Broker.open(load("", how.options), environment, DATA, cluster)

    def _end(self, disk: Callable[[], MemoryDisk]) -> None:
        self._loop.kill(self.node)
        self.broker = None
        self.disk = disk()

    async def restart(
        self, seconds: float, disk: Callable[[], MemoryDisk], seen: Callable[[], None]
    ) -> None:
        """Kill it, and start it again after so many seconds.

        Args:
            disk: returns what the next process finds.
            seen: called when it is dead.
        """
        async with self._changes:
            self._end(disk)
            seen()
            await asyncio.sleep(seconds)
            await self.start()

    async def stop(self, seconds: float) -> None:
        """Tell it to stop, as SIGTERM does, and start it again so many seconds after its end."""
        async with self._changes:
            self._told.set()
            await asyncio.wait([self._running], timeout=STOPS_S)
            if not self._running.done():
                self._crashed(f"{self.node} does not stop in {STOPS_S} s")
            elif error := self._running.exception():
                self._crashed(f"{self.node} has stopped with {error!r}")
            self._end(self.disk.successor)
            await asyncio.sleep(seconds)
            await self.start()

    async def pause(self, seconds: float) -> None:
        """Nothing of it runs for so long, as between SIGSTOP and SIGCONT."""
        async with self._changes:
            self._loop.pause(self.node)
            await asyncio.sleep(seconds)
            self._loop.resume(self.node)
