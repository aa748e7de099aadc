"""Several production nodes in front of a cluster, and what happens to them. The cluster is a
production broker with a data folder of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from sharegroup.client.admin.admin import Admin
from sharegroup.sim.environment import SimulatedClock
from sharegroup.sim.loop import SimulatedLoop
from sharegroup.sim.plan import Plan
from sharegroup.sim.process import BrokerProcess, Started
from sharegroup.sim.recorder import Recorder
from sharegroup.sim.topic_faults import until_done

FIRST_PORT: Final = 9_201
PARTS: Final = 6
"""Of the state: few, so that a node is started soon."""
OPTIONS: Final = (
    f"share.coordinator.state.topic.num.partitions={PARTS}",
    f"offsets.topic.num.partitions={PARTS}",
)


class SimulatedFleet:
    """See the module.

    Args:
        cluster: the broker that they are in front of.
        options: of each node.
        crashed: told what a node must not do.
        locks_lost: called when members may lose locks though nobody else may deliver than before.
    """

    def __init__(
        self,
        plan: Plan,
        loop: SimulatedLoop,
        cluster: BrokerProcess,
        options: Sequence[str],
        clock: SimulatedClock,
        crashed: Callable[[str], None],
        locks_lost: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._locks_lost = locks_lost
        self._cluster = cluster
        self._chance = random.Random(f"{plan.seed} fleet")
        self._nodes = [
            BrokerProcess(
                loop,
                f"node{number}",
                Started(FIRST_PORT + number, (*options, *OPTIONS), cluster.address),
                plan.seed,
                clock,
                crashed,
            )
            for number in range(plan.nodes)
        ]
        self.address = ",".join(one.address for one in self._nodes)
        """What clients are told."""
        self.faults: dict[str, Callable[[float], Coroutine[Any, Any, None]]] = {
            "node-kill": self._kill,
            "nodes-kill": self._kill_all,
            "node-stop": self._stop,
            "node-drain": self._drain,
            "node-pause": self._pause,
            "node-cut": self._cut,
            "node-apart": self._apart,
            "node-deaf": self._deaf,
            "node-mute": self._mute,
            "node-unseen": self._unseen,
        }
        """By kind: makes it happen, and returns when it is over."""

    async def start(self) -> None:
        """Start all nodes."""
        await asyncio.gather(*(one.start() for one in self._nodes))

    def deliverers(self) -> Sequence[tuple[str, frozenset[int]]]:
        """The parts of the state that each node may deliver records of at this moment."""
        found = []
        for one in self._nodes:
            node = None if one.broker is None else one.broker.parts.other_nodes
            if node is not None and node.may_deliver:
                found.append((one.node, frozenset(node.owned)))
        return found

    def _any(self) -> BrokerProcess:
        return self._chance.choice(self._nodes)

    async def _kill(self, seconds: float) -> None:
        await self._killed(self._any(), seconds)

    async def _kill_all(self, seconds: float) -> None:
        await asyncio.gather(*(self._killed(one, seconds) for one in self._nodes))

    async def _killed(self, node: BrokerProcess, seconds: float) -> None:
        await node.restart(seconds, lambda: node.disk.successor(), lambda: None)

    async def _stop(self, seconds: float) -> None:
        await self._any().stop(seconds)

    async def _drain(self, seconds: float) -> None:
        node = self._any()
        if node.broker is None:
            return
        name = str(node.broker.parts.configs.broker.node_id)

        async def set_to(drains: str) -> None:
            async with Admin(self.address, jitter=self._chance) as admin:
                await admin.alter_configs("broker", name, {"node.drain": drains})

        await until_done(lambda: set_to("true"))
        await asyncio.sleep(seconds)
        await until_done(lambda: set_to("false"))

    async def _pause(self, seconds: float) -> None:
        await self._any().pause(seconds)

    async def _cut(self, what: float) -> None:
        node = self._any()
        peers = ((), (self._cluster.node,), self._others(node))[int(what)]
        self._loop.network.cut(node.node, peers)
        if not peers:  # sessions of members end with their connections, and locks with these
            self._locks_lost()

    async def _apart(self, seconds: float) -> None:
        node = self._any()
        self._hold_back(node.node, self._cluster.node, seconds)
        self._hold_back(self._cluster.node, node.node, seconds)

    async def _deaf(self, seconds: float) -> None:
        self._hold_back(self._cluster.node, self._any().node, seconds)

    async def _mute(self, seconds: float) -> None:
        self._hold_back(self._any().node, self._cluster.node, seconds)

    async def _unseen(self, seconds: float) -> None:
        node = self._any()
        for other in self._others(node):
            self._hold_back(node.node, other, seconds)
            self._hold_back(other, node.node, seconds)

    def _others(self, node: BrokerProcess) -> Sequence[str]:
        return [one.node for one in self._nodes if one is not node]

    def _hold_back(self, sender: str, receiver: str, seconds: float) -> None:
        self._loop.network.hold_back(sender, receiver, seconds)


class FleetRecorder(Recorder):
    """As :class:`Recorder`. When other nodes may deliver than before, locks may be lost as by a
    kill, and the history says so before the next event.

    Args:
        deliverers: returns who may deliver what.
    """

    def __init__(
        self,
        now_s: Callable[[], float],
        write: Callable[[str], object],
        deliverers: Callable[[], object],
    ) -> None:
        super().__init__(now_s, write)
        self._deliverers = deliverers
        self._seen: object = None

    def tell(self, op: str, **fields: Any) -> None:
        """An event happens now."""
        seen = self._deliverers()
        if seen != self._seen:
            self._seen = seen
            super().tell("kill")
        super().tell(op, **fields)
