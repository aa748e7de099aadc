"""Settings in a topic of the cluster, which beats of the lease do not make longer and longer."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream import configs as module
from sharegroup.upstream import lease
from sharegroup.upstream.configs import BROKER, GROUP, TOPIC, ClusterConfigs
from sharegroup.upstream.state_log import StateLog
from tests.servers import admin
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process


def test_a_long_log_is_written_anew(
    cluster: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REWRITE_RECORDS", 20)
    monkeypatch.setattr(lease, "BEAT_S", 0.01)
    admin.Admin(cluster.bootstrap).create_topic("settings")

    async def scenario() -> None:
        async with Cluster(cluster.bootstrap) as client:

            def log(number: int) -> StateLog:
                me = number, number.to_bytes(16, "big")
                where = TopicPartition("settings", 0)
                return StateLog(client, where, "settings", me, lambda: 1_000)

            first = log(1)
            configs = ClusterConfigs(first)
            await configs.load()
            assert configs.lease.holds
            configs.put(GROUP, "workers", {"share.ordering": "key"})
            configs.put(GROUP, "gone", {"share.ordering": "key"})
            configs.put(GROUP, "gone", {})
            configs.put(TOPIC, "id", {"flag": "true"})
            configs.put(BROKER, "", {"num.partitions": "3"})
            await configs.settled()
            while first.start < 50:  # beats alone make it longer
                await asyncio.sleep(0)
                await configs.settled()
            assert first.end - first.start < 100
            await configs.close()
            found = ClusterConfigs(log(2))
            await found.load()
            assert found.groups == {"workers": {"share.ordering": "key"}}
            assert found.topics == {"id": {"flag": "true"}}
            assert found.of(BROKER) == {"num.partitions": "3"}
            await found.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
