"""The topics that keep our state in a cluster that others run."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.broker.coordination.cluster_topic import CLEAN, ClusterTopic
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import InvalidConfig, KafkaError, PolicyViolation
from sharegroup.wire.apis import CREATE_TOPICS, METADATA
from sharegroup.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer


class Managed:
    """A cluster of which no client may say who is elected. `made`: the settings of its topic."""

    def __init__(self, server: ScriptedServer, refusal: type[KafkaError]) -> None:
        self.made: dict[str, str | None] | None = None
        self._server = server
        self._refusal = refusal
        server.handle(METADATA, self._metadata, (1, 12))
        server.handle(CREATE_TOPICS, self._create, (2, 5))

    async def _metadata(self, request: Message, version: int) -> Message:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1])
        name = "__sharegroup_fleet_state"
        topic = MetadataResponseTopic(error_code=3, name=name)
        if self.made is not None:
            topic = MetadataResponseTopic(name=name, partitions=[partition])
        broker = MetadataResponseBroker(1, "127.0.0.1", self._server.port)
        return MetadataResponse(brokers=[broker], controller_id=1, topics=[topic])

    async def _create(self, request: Message, version: int) -> Message:
        assert isinstance(request, CreateTopicsRequest)
        [topic] = request.topics
        configs = {one.name: one.value for one in topic.configs}
        result = CreatableTopicResult(name=topic.name)
        if configs.keys() & CLEAN.keys():
            result.error_code = self._refusal.code
        else:
            self.made = configs
        return CreateTopicsResponse(topics=[result])


@pytest.mark.parametrize("refusal", [PolicyViolation, InvalidConfig])
def test_a_cluster_that_lets_nobody_decide_on_elections_keeps_our_state_too(
    refusal: type[KafkaError],
) -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            managed = Managed(server, refusal)
            async with Cluster(server.address) as cluster:
                await ClusterTopic.shared("state", cluster, lambda: 0).ensure()
                assert managed.made is not None
                assert managed.made["cleanup.policy"] == "compact"

    asyncio.run(asyncio.wait_for(scenario(), 60))
