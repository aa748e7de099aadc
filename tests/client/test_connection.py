"""Connections and the cluster over real sockets, against a server that misbehaves on demand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from sharegroup.client import Admin, Consumer, Producer, ShareConsumer
from sharegroup.client.errors import BootstrapError, IllegalState
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.connection import Connection
from sharegroup.model.errors import NetworkException, RequestTimedOut, UnsupportedVersion
from sharegroup.wire.apis import (
    DESCRIBE_CLUSTER,
    FIND_COORDINATOR,
    METADATA,
    SHARE_GROUP_DESCRIBE,
)
from sharegroup.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from sharegroup.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataResponse
from sharegroup.wire.messages.share_group_describe import ShareGroupDescribeRequest
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer
from tests.servers.process import free_port

TIMEOUT_MS = 120_000


async def connect(server: ScriptedServer) -> Connection:
    return await Connection.open("127.0.0.1", server.port, client_id="test", timeout_ms=TIMEOUT_MS)


async def never(request: Message, version: int) -> None:
    return None


def cluster_of(*addresses: str, bootstrap_timeout_ms: int = TIMEOUT_MS) -> Cluster:
    return Cluster(addresses, bootstrap_timeout_ms=bootstrap_timeout_ms, jitter=random.Random(1))


def test_the_highest_common_version_is_used() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            connection = await connect(server)
            assert connection.version_of(METADATA) == 12
            await connection.send(METADATA, MetadataRequest(topics=[]), timeout_ms=TIMEOUT_MS)
            assert server.requests == [("ApiVersions", 4), ("Metadata", 12)]
            with pytest.raises(UnsupportedVersion, match="ShareGroupDescribe"):
                connection.post(SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest())
            connection.close()

    asyncio.run(scenario())


def test_an_older_server_is_asked_again_with_its_version() -> None:
    async def scenario() -> None:
        async with ScriptedServer(api_versions_max=2) as server:
            connection = await connect(server)
            assert server.requests == [("ApiVersions", 4), ("ApiVersions", 2)]
            connection.close()

    asyncio.run(scenario())


def test_incompatible_versions_are_a_clear_error() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            server.handle(FIND_COORDINATOR, never, (90, 91))
            connection = await connect(server)
            with pytest.raises(UnsupportedVersion, match=r"90-91.*0-6"):
                connection.post(FIND_COORDINATOR, FindCoordinatorRequest())
            connection.close()

    asyncio.run(scenario())


def test_requests_in_flight_fail_when_the_connection_drops() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            server.handle(DESCRIBE_CLUSTER, never, (0, 1))
            connection = await connect(server)
            answers = [
                connection.post(DESCRIBE_CLUSTER, DescribeClusterRequest()) for _ in range(5)
            ]
            server.drop_connections()
            outcomes = await asyncio.gather(*answers, return_exceptions=True)
            assert [type(one) for one in outcomes] == [NetworkException] * 5
            assert connection.closed
            with pytest.raises(NetworkException):
                connection.post(DESCRIBE_CLUSTER, DescribeClusterRequest())

    asyncio.run(scenario())


def test_an_answer_out_of_order_ends_the_connection() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            server.handle(DESCRIBE_CLUSTER, never, (0, 1))
            connection = await connect(server)
            first = connection.post(DESCRIBE_CLUSTER, DescribeClusterRequest())
            second = connection.post(METADATA, MetadataRequest(topics=[]))
            for answer in (first, second):
                with pytest.raises(NetworkException, match="malformed"):
                    await answer

    asyncio.run(scenario())


def test_a_request_that_times_out_closes_the_connection() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            server.handle(DESCRIBE_CLUSTER, never, (0, 1))
            connection = await connect(server)
            with pytest.raises(RequestTimedOut, match="DescribeCluster"):
                await connection.send(DESCRIBE_CLUSTER, DescribeClusterRequest(), timeout_ms=20)
            assert connection.closed

    asyncio.run(scenario())


def test_no_broker_is_an_error_that_names_the_addresses() -> None:
    first, second = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    cluster = cluster_of(first, second, bootstrap_timeout_ms=100)

    async def scenario() -> None:
        try:
            await cluster.start()
        finally:
            await cluster.close()

    with pytest.raises(BootstrapError) as caught:
        asyncio.run(scenario())
    assert first in str(caught.value)
    assert second in str(caught.value)


def test_one_bootstrap_server_that_answers_is_enough() -> None:
    async def scenario() -> None:
        nobody = f"127.0.0.1:{free_port()}"
        async with ScriptedServer() as server, cluster_of(nobody, server.address) as cluster:
            assert list(cluster.metadata.nodes) == [1]

    asyncio.run(scenario())


def test_a_broker_that_knows_no_broker_yet_is_asked_after_pauses() -> None:
    """As one in front of a cluster that is being started: it says so at once."""
    server = ScriptedServer()

    async def no_brokers(request: Message, version: int) -> Message:
        return MetadataResponse(cluster_id="c", controller_id=-1)

    async def scenario() -> None:
        server.handle(METADATA, no_brokers, (1, 12))
        async with server:
            cluster = cluster_of(server.address, bootstrap_timeout_ms=500)
            with pytest.raises(BootstrapError, match="knows no broker yet"):
                await cluster.start()
            await cluster.close()

    asyncio.run(scenario())
    asked = [name for name, _ in server.requests].count("Metadata")
    assert 2 <= asked <= 5, "pauses of 100, 200 and 400 ms, more or less"


def test_a_lost_connection_is_opened_again() -> None:
    async def described(request: Message, version: int) -> Message:
        return DescribeClusterResponse(cluster_id="c")

    async def scenario() -> None:
        async with ScriptedServer() as server:
            server.handle(DESCRIBE_CLUSTER, described, (0, 1))
            async with cluster_of(server.address) as cluster:
                await cluster.send(1, DESCRIBE_CLUSTER, DescribeClusterRequest())
                server.drop_connections()
                with suppress(NetworkException):  # it may have noticed before it sends
                    await cluster.send(1, DESCRIBE_CLUSTER, DescribeClusterRequest())
                await cluster.send(1, DESCRIBE_CLUSTER, DescribeClusterRequest())

    asyncio.run(scenario())


def test_the_coordinator_is_asked_for_once() -> None:
    async def found(request: Message, version: int) -> Message:
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=1)

    async def scenario() -> None:
        async with ScriptedServer() as server:
            server.handle(FIND_COORDINATOR, found, (0, 3))
            async with cluster_of(server.address) as cluster:
                assert await cluster.coordinator("g") == 1
                assert await cluster.coordinator("g") == 1
                assert [name for name, _ in server.requests].count("FindCoordinator") == 1
                cluster.forget_coordinator("g")
                await cluster.coordinator("g")
                assert [name for name, _ in server.requests].count("FindCoordinator") == 2

    asyncio.run(scenario())


# --- a client that is closed while another task connects ------------------------------------------

HANDSHAKES = ["the connection", "the first metadata"]
"""What the server does not answer."""


@asynccontextmanager
async def silent_server(about: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """The address of a server that does not answer, and an event: it was asked."""
    asked = asyncio.Event()

    async def ask(request: Message, version: int) -> None:
        asked.set()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    if about == "the connection":
        server = await asyncio.start_server(read, "127.0.0.1", 0)
        async with server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    else:
        async with ScriptedServer() as scripted:
            scripted.handle(METADATA, ask, (1, 12))
            yield scripted.address, asked


CLIENTS: dict[str, Callable[[str], Any]] = {
    "Admin": Admin,
    "Consumer": lambda address: Consumer("t", group_id="g", bootstrap_servers=address),
    "Producer": Producer,
    "ShareConsumer": lambda address: ShareConsumer("t", group_id="g", bootstrap_servers=address),
}


@pytest.mark.parametrize("about", HANDSHAKES)
@pytest.mark.parametrize("kind", CLIENTS)
def test_a_close_ends_the_start_of_another_task(kind: str, about: str) -> None:
    async def scenario() -> None:
        async with silent_server(about) as (address, asked):
            client = CLIENTS[kind](address)
            starting = asyncio.create_task(client.start())
            await asked.wait()
            await client.close()
            with pytest.raises(IllegalState, match="closed"):
                await starting

    asyncio.run(scenario())


@pytest.mark.parametrize("about", HANDSHAKES)
@pytest.mark.parametrize("kind", CLIENTS)
def test_a_start_that_is_cancelled_ends_as_cancelled(kind: str, about: str) -> None:
    async def scenario() -> None:
        async with silent_server(about) as (address, asked):
            client = CLIENTS[kind](address)
            starting = asyncio.create_task(client.start())
            await asked.wait()
            closing = asyncio.create_task(client.close())
            starting.cancel()
            await closing
            with pytest.raises(asyncio.CancelledError):
                await starting

    asyncio.run(scenario())
