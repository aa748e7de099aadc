"""Settings in a topic of the cluster, which every node reads and may write."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.epochs import EARLIER_SINCE_S, Epochs
from sharegroup.upstream.settings import BROKER, GROUP, TOPIC, ClusterSettings
from tests.servers import admin
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process


class Node:
    """One that reads the settings, and what others have changed there."""

    def __init__(self, cluster: Cluster, topic: str = "settings") -> None:
        self.changes: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        where = TopicPartition(topic, 0)
        self.settings = ClusterSettings(
            cluster, where, lambda: 1_000, lambda *what: self.changes.put_nowait(what)
        )


def test_each_node_sees_what_another_one_has_set(cluster: RunningServer) -> None:
    admin.Admin(cluster.bootstrap).create_topic("settings", cleanup_policy="compact")

    async def scenario() -> None:
        async with Cluster(cluster.bootstrap) as client:
            one, other = Node(client), Node(client)
            await one.settings.load()
            await other.settings.load()
            one.settings.put(GROUP, "workers", {"share.ordering": "key"})
            assert one.settings.groups == {"workers": {"share.ordering": "key"}}, "at once"
            one.settings.put(TOPIC, "id", {"flag": "true"})
            one.settings.put(GROUP, "gone", {"share.ordering": "key"})
            one.settings.put(GROUP, "gone", {})
            await one.settings.settled()
            assert await other.changes.get() == (GROUP, "workers")
            assert await other.changes.get() == (TOPIC, "id")
            assert await other.changes.get() == (GROUP, "gone")
            assert await other.changes.get() == (GROUP, "gone")
            other.settings.put(BROKER, "", {"num.partitions": "3"})
            await other.settings.settled()
            assert await one.changes.get() == (BROKER, "")
            # Both change one group at a time: they agree who was last.
            one.settings.put(GROUP, "workers", {"share.ordering": "none"})
            other.settings.put(GROUP, "workers", {"share.ordering": "key"})
            await asyncio.gather(one.settings.settled(), other.settings.settled())
            third = Node(client)
            await third.settings.load()
            assert third.settings.of(BROKER) == {"num.partitions": "3"}
            assert third.settings.topics == {"id": {"flag": "true"}}
            last = third.settings.groups
            assert last.keys() == {"workers"}
            for node in (one, other):
                while node.settings.groups != last:
                    await node.changes.get()
            for node in (one, other, third):
                await node.settings.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_the_last_epoch_is_known_to_who_comes_later(cluster: RunningServer) -> None:
    admin.Admin(cluster.bootstrap).create_topic("epochs", cleanup_policy="compact")

    def clock_ms() -> int:
        return (EARLIER_SINCE_S + 7) * 1000

    async def scenario() -> None:
        async with Cluster(cluster.bootstrap) as client:
            one, other = Node(client, "epochs"), Node(client, "epochs")
            await one.settings.load()
            await other.settings.load()
            here, there = Epochs(one.settings, clock_ms), Epochs(other.settings, clock_ms)
            assert await here.last() == 7, "brokers before had the seconds since EARLIER_SINCE_S"
            for epoch in range(20):
                await here.keep(epoch)
                # It reads what was written just now.
                assert await there.last() == epoch
            for node in (one, other):
                await node.settings.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
