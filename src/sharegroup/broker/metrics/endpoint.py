"""``GET /metrics`` on a port of its own, from the broker's event loop.

Reading the counters is one step of the loop for each group, so that many groups do not hold up
requests; the text is written on a thread.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from sharegroup.broker.metrics import coordination, delivery, node, traffic
from sharegroup.broker.metrics.exposition import Exposition
from sharegroup.broker.metrics.lag import LagReader
from sharegroup.broker.metrics.metric import Sample
from sharegroup.broker.metrics.node import LoopLag
from sharegroup.model.limits import SCRAPE_REQUEST_BYTES_MAX, SCRAPE_SECONDS_MAX

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker

logger = logging.getLogger("sharegroup.broker")

PATH: Final = "/metrics"
GROUPS_AT_ONCE: Final = 100
"""Groups, or share partitions, read before requests get their turn."""


class MetricsEndpoint:
    """Answers scrapers; made by :meth:`open`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lag = LagReader(broker)
        self._loop_lag = LoopLag()
        self._server: asyncio.Server | None = None
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    async def open(cls, broker: Broker, host: str, port: int) -> tuple[MetricsEndpoint, int]:
        """Answer on this address; the port, which the system chose for 0.

        Raises:
            OSError: the address cannot be had.
        """
        endpoint = cls(broker)
        server = await asyncio.start_server(
            endpoint._serve, host or None, port, limit=SCRAPE_REQUEST_BYTES_MAX
        )
        endpoint._server = server
        endpoint._loop_lag.start()
        return endpoint, int(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Answer no more."""
        self._loop_lag.stop()
        if self._server is not None:
            self._server.close()

    async def read(self) -> list[Sample]:
        """Every sample, now."""
        broker = self._broker
        broker.forget_meters()
        samples = [
            *traffic.read(broker),
            *delivery.read(broker),
            *coordination.read(broker),
            *node.read(broker, self._loop_lag),
        ]
        for number, led in enumerate(broker.share_partitions.all()):
            samples += delivery.read_partition(broker, led)
            if number % GROUPS_AT_ONCE == GROUPS_AT_ONCE - 1:
                await asyncio.sleep(0)
        number = 0
        async for of_group in self._lag.read():
            samples += of_group
            number += 1
            if number % GROUPS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return samples

    async def text(self, accept: str = "") -> tuple[bytes, str]:
        """What a scraper gets, and its content type."""
        async with self._one_at_a_time:
            exposition = Exposition(await self.read(), process=True)
            return await asyncio.to_thread(exposition.text, accept)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(SCRAPE_SECONDS_MAX):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                writer.write(await self._answer(head))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError) as error:
            logger.debug("a scraper went away: %s", error)
        except asyncio.LimitOverrunError:
            writer.write(_response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        finally:
            writer.close()

    async def _answer(self, head: str) -> bytes:
        line, *fields = head.split("\r\n")
        method, _, rest = line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if path != PATH:
            return _response(HTTPStatus.NOT_FOUND)
        if method not in ("GET", "HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED)
        headers = dict(field.lower().split(":", 1) for field in fields if ":" in field)
        body, content_type = await self.text(headers.get("accept", "").strip())
        return _response(HTTPStatus.OK, body, content_type, head_only=method == "HEAD")


def _response(
    status: HTTPStatus,
    body: bytes = b"",
    content_type: str = "text/plain; charset=utf-8",
    *,
    head_only: bool = False,
) -> bytes:
    body = body if status is HTTPStatus.OK else f"{status.phrase}; see {PATH}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if head_only else body)
