"""Nodes see that the process of another one is gone."""

from __future__ import annotations

import asyncio

from sharegroup.upstream.nodes_group import FleetMap, NodeFacts
from sharegroup.upstream.peer_watch import PeerWatch, WatchedPort
from tests.client.working import run, until

HOST = "127.0.0.1"


def test_a_node_that_is_gone_is_told_until_a_map_is_without_it() -> None:
    """The coordinator that was told first may have moved before it wrote that down."""

    async def scenario() -> None:
        watched, told = WatchedPort(), asyncio.Queue[NodeFacts]()
        port = await watched.open(HOST, 0)
        node = NodeFacts(2, "i2", {"PLAINTEXT": (HOST, 1)}, port)
        watch = PeerWatch(1, told.put)
        watch.told(FleetMap(1, {2: node}, {}))
        await until(lambda: bool(watched._watchers))
        await watched.close()
        assert [await told.get(), await told.get()] == [node, node]
        [task] = watch._tasks.values()
        watch.told(FleetMap(2, {}, {}))
        await asyncio.wait([task])
        assert task.cancelled()

    run(scenario)
