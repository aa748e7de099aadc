"""A client that sends what it likes, in any order, over one connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sharegroup.sasl.client import Login
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import bare_frame, request_frame, response_body
from sharegroup.wire.messages.metadata import MetadataRequest
from sharegroup.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.authentication.secured import HOST


class RawClient:
    """See the module."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._number = 0

    def send(self, api: Api, version: int, request: Any) -> None:
        """Without waiting for the answer."""
        self._number += 1
        self.writer.writelines(request_frame(api, version, self._number, "raw", request))

    def send_token(self, token: bytes) -> None:
        """A frame without a header, as after SaslHandshake version 0."""
        self.writer.write(bare_frame(token))

    async def receive_token(self) -> bytes:
        """The content of the next frame, whatever it is; raises as :meth:`receive`."""
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    async def log_in_by_tokens(self, login: Login) -> None:
        """A login by SaslHandshake version 0, until one side is content."""
        assert not (await self.handshake(login.mechanism, version=0)).error_code
        self.send_token(login.first())
        while True:
            token = login.next(await self.receive_token())
            if login.done:
                return
            self.send_token(token)

    async def receive(self, api: Api, version: int) -> Any:
        """The next answer; raises IncompleteReadError if the broker closes instead."""
        frame = await self.receive_token()
        _, position = response_body(api, version, frame)
        return decode(api.response, version, frame, position)

    async def ask(self, api: Api, version: int, request: Any) -> Any:
        """A request and its answer."""
        self.send(api, version, request)
        return await self.receive(api, version)

    async def handshake(self, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
        answer: SaslHandshakeResponse = await self.ask(
            apis.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism)
        )
        return answer

    async def authenticate(self, message: bytes, version: int = 2) -> SaslAuthenticateResponse:
        answer: SaslAuthenticateResponse = await self.ask(
            apis.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(message)
        )
        return answer

    async def plain(self, user: str, password: str) -> SaslAuthenticateResponse:
        """Handshake and authentication by PLAIN."""
        assert not (await self.handshake("PLAIN")).error_code
        return await self.authenticate(f"\0{user}\0{password}".encode())

    async def authenticate_plain_v1(self) -> SaslAuthenticateResponse:
        """The same in the first version that tells for how long it holds."""
        await self.handshake("PLAIN")
        return await self.authenticate(b"\0alice\0secret", version=1)

    async def metadata(self) -> Any:
        """Of all topics."""
        return await self.ask(apis.METADATA, 12, MetadataRequest(None))

    async def is_closed(self) -> bool:
        """Whether the broker closes the connection, and sends nothing before."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


@asynccontextmanager
async def raw_client(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()
