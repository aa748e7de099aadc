"""A peer that sends raw bytes and reads when it likes."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from sharegroup.wire import apis
from sharegroup.wire.framing import request_frame
from sharegroup.wire.messages.api_versions import ApiVersionsRequest
from sharegroup.wire.messages.metadata import MetadataRequest


class Greedy:
    """One connection; what it sends is up to the test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, *, begun: bool = False) -> Greedy:
        """With ``begun``, one whose first request is answered."""
        peer = cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 16))
        if begun:
            peer.send(frame(apis.API_VERSIONS, 0, ApiVersionsRequest()))
            await peer.answer()
        return peer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> bytes:
        """The next answer, without its length."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def closed(self) -> bool:
        """Whether the broker closes without a word."""
        try:
            return not await self.reader.read(1)
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()


def frame(api: apis.Api, version: int, request: Any, number: int = 1) -> bytes:
    return b"".join(request_frame(api, version, number, "greedy", request))


def metadata(number: int = 1) -> bytes:
    """A small request."""
    return frame(apis.METADATA, 12, MetadataRequest([]), number)


def begun(api: apis.Api, version: int, length: int, more: bytes = b"") -> bytes:
    """The beginning of a request that claims ``length`` bytes."""
    return struct.pack(">ihhih", length, api.key, version, 1, -1) + more
