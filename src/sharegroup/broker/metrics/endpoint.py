"""``GET /metrics`` and ``GET /health/…`` on a port of their own, from the broker's event loop.

The port opens before the data folder is read, so that probes see a starting broker as alive and not
ready.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Final

from sharegroup.broker.metrics.health import why_not_ready
from sharegroup.broker.metrics.node import LoopLag
from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.parts import BrokerParts
from sharegroup.model.errors import KafkaError
from sharegroup.model.limits import SCRAPE_REQUEST_BYTES_MAX, SCRAPE_SECONDS_MAX

logger = logging.getLogger("sharegroup.broker")

METRICS: Final = "/metrics"
LIVE: Final = "/health/live"
READY: Final = ("/health/ready", "/health")
PLAIN: Final = "text/plain; charset=utf-8"


class MetricsEndpoint:
    """Answers scrapers and probes; made by :meth:`open`."""

    def __init__(self) -> None:
        self._parts: BrokerParts | None = None
        self._reader: MetricsReader | None = None
        self._loop_lag = LoopLag()
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, host: str, port: int) -> tuple[MetricsEndpoint, int]:
        """Answer on this address; returns the endpoint and the port (for port 0 the real one).

        Raises:
            OSError: the address cannot be used.
        """
        endpoint = cls()
        server = await asyncio.start_server(
            endpoint._serve, host or None, port, limit=SCRAPE_REQUEST_BYTES_MAX
        )
        endpoint._server = server
        endpoint._loop_lag.start()
        return endpoint, int(server.sockets[0].getsockname()[1])

    def show(self, parts: BrokerParts) -> None:
        """From now on answer for a broker, which accepts connections."""
        self._parts = parts
        self._reader = MetricsReader(parts, self._loop_lag)

    def close(self) -> None:
        """Stop answering."""
        self._loop_lag.stop()
        if self._server is not None:
            self._server.close()

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
        if path not in (METRICS, LIVE, *READY):
            return _response(HTTPStatus.NOT_FOUND)
        if method not in ("GET", "HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED)
        head_only = method == "HEAD"
        if path == LIVE:
            return _response(HTTPStatus.OK, b"live\n", head_only=head_only)
        if path in READY:
            return _readiness(why_not_ready(self._parts), head_only=head_only)
        if self._reader is None or self._parts is None or self._parts.waiters.closed:
            return _readiness(why_not_ready(self._parts), head_only=head_only)
        headers = dict(field.lower().split(":", 1) for field in fields if ":" in field)
        try:
            body, content_type = await self._reader.text(headers.get("accept", "").strip())
        except KafkaError as error:
            logger.warning("the metrics cannot be read: %s", error)
            return _unavailable(f"the metrics cannot be read: {error}", head_only=head_only)
        return _response(HTTPStatus.OK, body, content_type, head_only=head_only)


def _readiness(lack: str, *, head_only: bool) -> bytes:
    if not lack:
        return _response(HTTPStatus.OK, b"ready\n", head_only=head_only)
    return _unavailable(lack, head_only=head_only)


def _unavailable(why: str, *, head_only: bool) -> bytes:
    body = f"{why}\n".encode()
    return _response(HTTPStatus.SERVICE_UNAVAILABLE, body, head_only=head_only)


def _response(
    status: HTTPStatus, body: bytes = b"", content_type: str = PLAIN, *, head_only: bool = False
) -> bytes:
    body = body or f"{status.phrase}; see {METRICS}, {LIVE}, {READY[0]}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if head_only else body)
