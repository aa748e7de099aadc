"""Both drivers of the client's protocol, on asyncio and on a plain socket: the same servers give
the same errors.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from sharegroup.client.network.addresses import Address
from sharegroup.client.network.connection import Connection
from sharegroup.model.errors import (
    ClusterAuthorizationFailed,
    KafkaError,
    NetworkException,
    UnsupportedVersion,
)
from sharegroup.spark.task.blocking import VERSIONS, VIEWED_BYTES_MIN, BlockingConnection
from sharegroup.wire.apis import API_VERSIONS, FETCH, METADATA
from sharegroup.wire.framing import FrameSplitter, response_frame
from sharegroup.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from sharegroup.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.scripted_server import ScriptedServer

HOST = "127.0.0.1"
TIMEOUT_MS = 120_000
SERVED = [ApiVersion(API_VERSIONS.key, 0, 4), ApiVersion(METADATA.key, 0, 12)]
WELCOME = b"".join(response_frame(API_VERSIONS, 4, 1, ApiVersionsResponse(api_keys=SERVED)))
NOT_ALLOWED = b"".join(
    response_frame(API_VERSIONS, 4, 1, ApiVersionsResponse(error_code=31, api_keys=[]))
)
BEYOND_OURS = b"".join(
    response_frame(
        API_VERSIONS, 0, 1, ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 7, 9)])
    )
)

Driver = Callable[[int], Awaitable[Any]]


async def on_asyncio(port: int) -> Any:
    connection = await Connection.open(
        HOST, port, client_id="test", timeout_ms=TIMEOUT_MS, versions=VERSIONS
    )
    try:
        return await connection.send(METADATA, MetadataRequest(topics=[]), timeout_ms=TIMEOUT_MS)
    finally:
        connection.close()
        await asyncio.sleep(0)  # the transport is gone


async def on_a_socket(port: int) -> Any:
    def ask() -> MetadataResponse:
        connection = connected(port)
        try:
            return connection.call(METADATA, MetadataRequest(topics=[]), MetadataResponse)
        finally:
            connection.close()

    return await asyncio.to_thread(ask)


def connected(port: int, timeout_ms: int = TIMEOUT_MS) -> BlockingConnection:
    return BlockingConnection(Address(HOST, port), client_id="test", timeout_ms=timeout_ms)


@pytest.fixture(params=[on_asyncio, on_a_socket], ids=["asyncio", "blocking"])
def driver(request: pytest.FixtureRequest) -> Driver:
    chosen: Driver = request.param
    return chosen


async def served(replies: list[bytes], use: Driver) -> Any:
    """What ``use`` makes of a server that has one reply for each request, and then hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter, left = FrameSplitter(), list(replies)
        while left and (data := await reader.read(65_536)):
            for _ in splitter.feed(data):
                writer.write(left.pop(0))
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    async with await asyncio.start_server(serve, HOST, 0) as server:
        return await use(server.sockets[0].getsockname()[1])


@pytest.mark.parametrize(
    ("replies", "kind", "source", "text"),
    [
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], NetworkException, "connection", "a frame of"),
        ([NOT_ALLOWED], ClusterAuthorizationFailed, "broker", "refused ApiVersions"),
        ([BEYOND_OURS], UnsupportedVersion, "local", "ApiVersions 7-9.*0-4"),
        ([WELCOME, b"\0\0\0\x64\0\0\0\2"], NetworkException, "connection", "inside a response"),
        ([WELCOME, b"\xff\xff\xff\xfe"], NetworkException, "connection", "a frame of -2 bytes"),
        ([WELCOME, struct.pack(">iib", 5, 9, 0)], NetworkException, "connection", "request 9"),
        ([WELCOME, b""], NetworkException, "connection", "lost"),
    ],
    ids=[
        "no broker", "refused", "no version", "truncated", "negative", "not asked", "hangs up",
    ],
)  # fmt: skip
def test_each_fault_raises_the_right_error(
    driver: Driver, replies: list[bytes], kind: type[KafkaError], source: str, text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        asyncio.run(served(replies, driver))
    assert caught.value.source == source


def test_an_older_broker_is_asked_again_with_its_version(driver: Driver) -> None:
    async def scenario() -> None:
        async with ScriptedServer(api_versions_max=2) as server:
            answer = await driver(server.port)
            assert answer.brokers[0].port == server.port
            assert server.requests == [("ApiVersions", 4), ("ApiVersions", 2), ("Metadata", 12)]

    asyncio.run(scenario())


@pytest.mark.parametrize("size", [100, VIEWED_BYTES_MIN])
def test_records_of_a_long_response_are_a_view(size: int) -> None:
    part = PartitionData(records=bytes(size))
    answer = FetchResponse(
        responses=[FetchableTopicResponse(topic_id=UUID(int=7), partitions=[part])]
    )

    async def fetched(request: object, version: int) -> FetchResponse:
        return answer

    async def scenario() -> None:
        async with ScriptedServer() as server:
            server.handle(FETCH, fetched, (13, 17))
            connection = await asyncio.to_thread(connected, server.port)
            response = await asyncio.to_thread(
                connection.call, FETCH, FetchRequest(), FetchResponse
            )
            assert connection.idle
            connection.close()
            assert not connection.idle
            records = response.responses[0].partitions[0].records
            assert records == bytes(size)
            assert isinstance(records, memoryview) == (size >= VIEWED_BYTES_MIN)

    asyncio.run(scenario())


def test_after_a_timeout_the_connection_cannot_be_used() -> None:
    async def never(request: object, version: int) -> None:
        return None

    async def scenario() -> None:
        async with ScriptedServer() as server:
            server.handle(METADATA, never, (1, 12))
            connection = await asyncio.to_thread(connected, server.port, 200)
            call = connection.call
            with pytest.raises(NetworkException, match="waiting for Metadata: timed out"):
                await asyncio.to_thread(call, METADATA, MetadataRequest(), MetadataResponse)
            assert not connection.idle
            with pytest.raises(NetworkException, match="not connected"):
                await asyncio.to_thread(call, METADATA, MetadataRequest(), MetadataResponse)
            connection.close()

    asyncio.run(scenario())
