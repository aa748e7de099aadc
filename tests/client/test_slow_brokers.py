"""A broker that says nothing any more, and keeps its connections, as one that stands still."""

from __future__ import annotations

import asyncio
import random

import pytest

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import NetworkException
from sharegroup.wire.apis import DESCRIBE_CLUSTER, METADATA
from sharegroup.wire.messages.describe_cluster import DescribeClusterRequest
from sharegroup.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer

FOR_EVER_MS = 3_600_000


class TwoBrokers:
    """Brokers 1 and 2; the first one stands still when it is told to."""

    def __init__(self) -> None:
        self.first, self.second = ScriptedServer(), ScriptedServer()
        self.stands_still = self.is_given_up = False
        self.first.handle(METADATA, self._first_metadata, (1, 12))
        self.second.handle(METADATA, self._metadata, (1, 12))
        for server in (self.first, self.second):
            server.handle(DESCRIBE_CLUSTER, self._never, (0, 1))

    async def _never(self, request: Message, version: int) -> None:
        return None

    async def _first_metadata(self, request: Message, version: int) -> Message | None:
        return None if self.stands_still else await self._metadata(request, version)

    async def _metadata(self, request: Message, version: int) -> Message:
        brokers = [MetadataResponseBroker(2, "127.0.0.1", self.second.port)]
        if not self.is_given_up:
            brokers.insert(0, MetadataResponseBroker(1, "127.0.0.1", self.first.port))
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=2)


def cluster_of(brokers: TwoBrokers) -> Cluster:
    addresses = [brokers.first.address, brokers.second.address]
    return Cluster(addresses, request_timeout_ms=FOR_EVER_MS, jitter=random.Random(1))


def test_metadata_come_from_the_next_broker() -> None:
    async def scenario() -> None:
        brokers = TwoBrokers()
        async with brokers.first, brokers.second, cluster_of(brokers) as cluster:
            assert [*cluster.metadata.nodes] == [1, 2]
            brokers.stands_still = brokers.is_given_up = True
            await cluster.refresh()
            assert [*cluster.metadata.nodes] == [2]
            assert cluster.connected

    asyncio.run(scenario())


def test_a_request_ends_when_the_cluster_has_given_its_broker_up() -> None:
    async def scenario() -> None:
        brokers = TwoBrokers()
        async with brokers.first, brokers.second, cluster_of(brokers) as cluster:
            brokers.stands_still = True
            request = DescribeClusterRequest()
            slow = [
                asyncio.create_task(cluster.send(node, DESCRIBE_CLUSTER, request, lane="slow"))
                for node in (1, 2)
            ]
            while brokers.second.requests.count(("Metadata", 12)) < 1:
                await asyncio.wait(slow, timeout=0.1)
            assert not any(one.done() for one in slow), "both are of the cluster still"
            brokers.is_given_up = True
            with pytest.raises(NetworkException, match="the cluster has given it up"):
                await slow[0]
            assert not slow[1].done(), "it is slow, and one of the cluster"
            slow[1].cancel()

    asyncio.run(scenario())
