"""A Kafka server that answers what a test tells it to: real sockets, real frames, no broker."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from sharegroup.wire.apis import API_VERSIONS, APIS, METADATA, Api
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import FrameSplitter, parse_request_header, response_frame
from sharegroup.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from sharegroup.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from sharegroup.wire.schema import Message

Handler = Callable[[Message, int], Awaitable[Message | None]]
"""(request, version) → response; None: never answer."""


class ScriptedServer:
    """Serves ApiVersions and Metadata (itself as the only node); ``handle`` adds or replaces."""

    def __init__(self, *, api_versions_max: int = 4, tls: ssl.SSLContext | None = None) -> None:
        self.port = 0
        self._tls = tls
        self.requests: list[tuple[str, int]] = []
        self.features: list[str] = []
        self.feature_level = 1
        self._api_versions_max = api_versions_max
        self._handlers: dict[int, Handler] = {}
        self._served = {API_VERSIONS.key: (0, api_versions_max), METADATA.key: (1, 12)}
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: set[asyncio.Task[object]] = set()
        self.handle(METADATA, self._metadata, (1, 12))

    def handle(self, api: Api, handler: Handler, versions: tuple[int, int]) -> None:
        self._handlers[api.key] = handler
        self._served[api.key] = versions

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.drop_connections()
        await self._server.wait_closed()
        for task in self._serving:  # a handler may wait for ever
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def drop_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        splitter = FrameSplitter()
        try:
            while data := await reader.read(65_536):
                for frame in splitter.feed(data):
                    await self._answer(frame, writer)
        except (ConnectionError, asyncio.CancelledError):
            return  # dropped by the test, or its end; asyncio logs a task that is cancelled
        finally:
            writer.close()  # also after what is no request: Python 3.11.2 would leave it open

    async def _answer(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        head = parse_request_header(frame)
        api = APIS[head.api_key]
        self.requests.append((api.name, head.version))
        version = head.version
        if api is API_VERSIONS:
            response: Message | None = self._versions(version)
            if version > self._api_versions_max:
                version = 0  # KIP-511; the header of this API's responses never has tags
        else:
            request = decode(api.request, version, frame, head.body)
            response = await self._handlers[api.key](request, version)
        if response is not None:
            writer.writelines(response_frame(api, version, head.correlation_id, response))

    def _versions(self, version: int) -> ApiVersionsResponse:
        refused = version > self._api_versions_max
        return ApiVersionsResponse(
            error_code=35 if refused else 0,
            api_keys=[ApiVersion(key, *served) for key, served in sorted(self._served.items())],
            supported_features=[
                SupportedFeatureKey(name, 0, self.feature_level) for name in self.features
            ],
        )

    async def _metadata(self, request: Message, version: int) -> Message:
        return MetadataResponse(
            brokers=[MetadataResponseBroker(1, "127.0.0.1", self.port)],
            cluster_id="c",
            controller_id=1,
        )
