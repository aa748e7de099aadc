"""The topics that keep our state in a cluster that others run."""

from __future__ import annotations

import asyncio
import logging

import pytest

from sharegroup.broker.coordination.cluster_topic import CLEAN, ClusterTopic
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import InvalidConfig, KafkaError, PolicyViolation
from sharegroup.wire.apis import (
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
)
from sharegroup.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer

NAME = "__sharegroup_fleet_state"
[UNCLEAN] = CLEAN


class Managed:
    """A cluster of which no client may say who is elected: it elects whoever is left. `made`: the
    settings of its topic."""

    def __init__(self, server: ScriptedServer, refusal: type[KafkaError]) -> None:
        self.made: dict[str, str | None] | None = None
        self._server = server
        self._refusal = refusal
        server.handle(METADATA, self._metadata, (1, 12))
        server.handle(CREATE_TOPICS, self._create, (2, 5))
        server.handle(DESCRIBE_CONFIGS, self._describe, (1, 4))
        server.handle(INCREMENTAL_ALTER_CONFIGS, self._alter, (0, 1))

    async def _metadata(self, request: Message, version: int) -> Message:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1])
        topic = MetadataResponseTopic(error_code=3, name=NAME)
        if self.made is not None:
            topic = MetadataResponseTopic(name=NAME, partitions=[partition])
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

    async def _describe(self, request: Message, version: int) -> Message:
        configs = {**(self.made or {}), UNCLEAN: "true"}
        told = [DescribeConfigsResourceResult(name, value) for name, value in configs.items()]
        result = DescribeConfigsResult(resource_type=2, resource_name=NAME, configs=told)
        return DescribeConfigsResponse(results=[result])

    async def _alter(self, request: Message, version: int) -> Message:
        assert isinstance(request, IncrementalAlterConfigsRequest)
        [resource] = request.resources
        assert [one.name for one in resource.configs] == [UNCLEAN]
        result = AlterConfigsResourceResponse(self._refusal.code, None, 2, NAME)
        return IncrementalAlterConfigsResponse(responses=[result])


@pytest.mark.parametrize("refusal", [PolicyViolation, InvalidConfig])
def test_a_cluster_that_lets_nobody_decide_on_elections_keeps_our_state_too(
    refusal: type[KafkaError], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            managed = Managed(server, refusal)
            async with Cluster(server.address) as cluster:
                with caplog.at_level(logging.WARNING, "sharegroup.broker"):
                    for _ in range(2):  # the second one finds it
                        await ClusterTopic.shared("state", cluster, lambda: 0).ensure()
                assert managed.made is not None
                assert managed.made["cleanup.policy"] == "compact"
                [line] = [one.getMessage() for one in caplog.records if "refuses" in one.message]
                assert line.startswith(
                    f"{NAME} can lose state: the cluster refuses {UNCLEAN}=false"
                )

    asyncio.run(asyncio.wait_for(scenario(), 60))
