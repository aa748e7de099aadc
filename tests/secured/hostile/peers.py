"""Connections of an attacker: from another address of this machine, so that they can be told from
the neighbour's."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from tests.broker.authentication.raw_client import RawClient
from tests.servers.process import HOST

ATTACKER = "127.0.0.2"
_numbers = itertools.count(1)


def another_address() -> str:
    """One of this machine that was not given before: nothing that others did delays its answers."""
    number = next(_numbers)
    return f"127.{1 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


PATIENCE_S = 60.0
AT_ONCE = 40
"""Connections that are being made: fewer than the broker lets wait to be accepted."""


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@asynccontextmanager
async def attacker(
    address: str, context: ssl.SSLContext | None = None, source: str = ""
) -> AsyncIterator[RawClient]:
    """One connection."""
    streams = await asyncio.open_connection(
        HOST, port_of(address), ssl=context, local_addr=(source or another_address(), 0)
    )
    client = RawClient(*streams)
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield client
    finally:
        client.writer.transport.abort()


class Crowd:
    """Connections that are held open."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self.clients: list[RawClient] = []
        self.refused = 0

    async def __aenter__(self) -> Crowd:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            client.writer.transport.abort()

    async def join(self, address: str, count: int, sent: bytes = b"") -> None:
        """Open so many, and send the same over each."""
        left = count
        while left:
            step = min(left, AT_ONCE)
            await asyncio.gather(*(self._one(address, sent) for _ in range(step)))
            left -= step

    async def send(self, data: bytes) -> None:
        """Over each that is open."""
        for client in self.open:
            client.writer.write(data)
        await asyncio.sleep(0)

    @property
    def open(self) -> list[RawClient]:
        """Those that the broker has not closed, as far as it is known."""
        return [client for client in self.clients if not client.reader.at_eof()]

    async def _one(self, address: str, sent: bytes) -> None:
        try:
            streams = await asyncio.open_connection(
                HOST, port_of(address), local_addr=(ATTACKER, 0)
            )
        except OSError:
            self.refused += 1
            return
        self.clients.append(RawClient(*streams))
        streams[1].write(sent)


async def all_closed(clients: Iterable[RawClient]) -> bool:
    """Whether the broker closes each of them, in time."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            for client in clients:
                try:
                    while await client.reader.read(1 << 16):
                        pass
                except OSError:
                    pass
    except TimeoutError:
        return False
    return True
