"""The broker of the cluster that changes topics dies: what a client is told, in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.passing.passing import Passing
from sharegroup.broker.passing.ways import WAYS
from sharegroup.broker.request_context import RequestContext
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import NotController
from sharegroup.wire.apis import CREATE_TOPICS, METADATA
from sharegroup.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from sharegroup.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer
from tests.servers.process import free_port

pytestmark = pytest.mark.process
VERSION = 5


async def seen(_created: object) -> None: ...


async def here(_request: object) -> None: ...


async def create(cluster: Cluster) -> CreateTopicsResponse:
    context = RequestContext(VERSION, "", "", object(), Access(), ("", 0))
    request = CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)])
    answer: CreateTopicsResponse = await Passing(cluster, WAYS, seen).answer(
        CREATE_TOPICS, request, context, here
    )
    return answer


async def created(_request: Message, _version: int) -> Message:
    return CreateTopicsResponse(topics=[CreatableTopicResult("t")])


def play(
    handler: Callable[[ScriptedServer], Callable[[Message, int], Awaitable[Message]]],
    then: Callable[[ScriptedServer, Cluster], Awaitable[None]],
) -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            server.handle(CREATE_TOPICS, handler(server), (0, VERSION))
            async with Cluster(server.address) as cluster:
                await then(server, cluster)

    asyncio.run(scenario())


def test_a_controller_that_is_not_there_any_more_is_passed_over() -> None:
    async def then(server: ScriptedServer, cluster: Cluster) -> None:
        async def with_dead_one(_request: Message, _version: int) -> Message:
            brokers = [(1, server.port), (2, free_port())]
            return MetadataResponse(
                brokers=[MetadataResponseBroker(one, "127.0.0.1", port) for one, port in brokers],
                cluster_id="c",
                controller_id=2,
            )

        server.handle(METADATA, with_dead_one, (1, 12))
        await cluster.refresh()
        assert [one.name for one in (await create(cluster)).topics] == ["t"]

    play(lambda _: created, then)


def test_a_controller_that_dies_before_its_answer() -> None:
    """Java's admin client asks again for this error, and for no other of a connection."""

    def dying(server: ScriptedServer) -> Callable[[Message, int], Awaitable[Message]]:
        async def die(_request: Message, _version: int) -> Message:
            server.drop_connections()
            raise ConnectionError

        return die

    async def then(_server: ScriptedServer, cluster: Cluster) -> None:
        with pytest.raises(NotController):
            await create(cluster)

    play(dying, then)
