"""Nodes that come and go agree on who owns what."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from sharegroup.client.clock import wall_ms
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream import nodes_group
from sharegroup.upstream.epochs import Epochs
from sharegroup.upstream.nodes_group import NO_MAP, FleetMap, NodeFacts, NodesGroup
from sharegroup.upstream.peer_watch import is_there
from sharegroup.upstream.settings import ClusterSettings
from tests.client.working import until
from tests.servers import admin
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process
PARTITIONS = 12


class Node:
    """One node, and the maps that it was told. Its topic and its group have one name."""

    def __init__(self, bootstrap: str, name: str, node_id: int) -> None:
        self.cluster = Cluster(bootstrap)
        self.map = NO_MAP
        self.drained = False
        self.changed = asyncio.Condition()
        where = TopicPartition(name, 0)
        self.settings = ClusterSettings(self.cluster, where, wall_ms, lambda _kind, _name: None)
        facts = NodeFacts(node_id, f"i{node_id}", {"PLAINTEXT": ("127.0.0.1", node_id)}, 0)
        self.group = NodesGroup(
            self.cluster,
            name,
            facts,
            PARTITIONS,
            self.told,
            lambda: self.drained,
            is_there,
            Epochs(self.settings, wall_ms),
        )
        self.tasks: set[asyncio.Task[None]] = set()

    def told(self, found: FleetMap) -> None:
        self.map = found
        task = asyncio.create_task(self._notify())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def start(self) -> None:
        await self.cluster.start()
        await self.settings.load()
        await self.group.start()

    async def sees(self, shares: dict[int, int]) -> FleetMap:
        """The first map in which the nodes own so many partitions each."""

        def seen() -> bool:
            return Counter(one.node_id for one in self.map.owners.values()) == shares

        async with self.changed:
            await self.changed.wait_for(seen)
        return self.map

    async def close(self) -> None:
        await self.group.leave()
        await self.settings.close()
        await self.cluster.close()


def test_a_dead_node_is_removed_while_others_wait_for_it(
    cluster: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster waits for all to join again, and answers nothing else on that connection."""
    for name in ("SESSION_MS", "REBALANCE_MS"):
        monkeypatch.setattr(nodes_group, name, 300_000)
    admin.Admin(cluster.bootstrap).create_topic("dies", cleanup_policy="compact")

    async def scenario() -> None:
        one, two, three = (Node(cluster.bootstrap, "dies", number) for number in (1, 2, 3))
        await one.start()
        await two.start()
        both = await two.sees({1: 6, 2: 6})
        await one.group.stop()  # without a word, as if it were killed
        starting = asyncio.create_task(three.start())
        await until(lambda: joins() == 1)
        await two.group.remove(both.nodes[1].member_id)
        await starting
        await two.sees({2: 6, 3: 6})
        for node in (one, two, three):
            await node.close()

    def joins() -> int:
        return sum(one.get_name() == nodes_group.BEATS_WHILE_JOINING for one in asyncio.all_tasks())

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_nodes_that_come_and_go_agree(cluster: RunningServer) -> None:
    admin.Admin(cluster.bootstrap).create_topic("agree", cleanup_policy="compact")

    async def scenario() -> None:
        one, two, three = (Node(cluster.bootstrap, "agree", number) for number in (1, 2, 3))
        await one.start()
        alone = await one.sees({1: 12})
        await two.start()
        both = await one.sees({1: 6, 2: 6})
        assert await two.sees({1: 6, 2: 6}) == both
        assert both.nodes[1].member_id != both.nodes[2].member_id
        assert both.nodes[2].endpoints == {"PLAINTEXT": ("127.0.0.1", 2)}
        for partition, owned in both.owners.items():
            before = alone.owners[partition]
            assert (owned.epoch > before.epoch) == (owned.node_id != before.node_id)
        await three.start()
        await one.sees({1: 4, 2: 4, 3: 4})
        two.group.drain()
        await one.sees({1: 6, 3: 6})
        await two.close()
        await one.close()
        last = await three.sees({3: 12})
        first = min(owned.epoch for owned in alone.owners.values())
        assert max(owned.epoch for owned in last.owners.values()) >= first + 2
        await three.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
