"""One TCP connection to one broker, on asyncio: many requests in flight, answered in order.

``client.core.protocol`` decides what the bytes mean; this class moves them. However a connection
ends, every waiting request fails with the same error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast

from sharegroup.client.core.handshake import Versions
from sharegroup.client.core.protocol import Answer, ClientProtocol, Send
from sharegroup.client.network.versions import CLIENT_VERSIONS
from sharegroup.model.errors import KafkaError, NetworkException, RequestTimedOut
from sharegroup.wire.apis import Api
from sharegroup.wire.schema import Message

log = logging.getLogger("sharegroup.client")


class Connection(asyncio.Protocol):
    """A connection that is ready to use; made by :meth:`open`. ``address`` is ``host:port``, for
    messages.
    """

    def __init__(self, address: str, client_id: str, versions: Mapping[Api, Versions]) -> None:
        self.address = address
        self._protocol: ClientProtocol[asyncio.Future[Any]] = ClientProtocol(
            address, client_id, versions
        )
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: int,
        versions: Mapping[Api, Versions] = CLIENT_VERSIONS,
    ) -> Connection:
        """Connect, and go through the handshake.

        Raises:
            NetworkException: the address cannot be reached, is not a Kafka broker, or does not
                answer within ``timeout_ms``.
            KafkaError: the broker refuses the handshake.
        """
        address = f"{host}:{port}"
        connection = cls(address, client_id, versions)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await connection._loop.create_connection(lambda: connection, host, port)
                await connection._ready
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise NetworkException(f"{address} did not answer in {timeout_ms} ms") from None
            if isinstance(error, OSError):
                raise NetworkException(f"{address}: {error.strerror or error}") from None
            raise
        return connection

    @property
    def closed(self) -> bool:
        """No request can be sent any more."""
        return self._protocol.ended

    @property
    def features(self) -> dict[str, tuple[int, int]]:
        """Supported features of the broker, name → (lowest, highest level)."""
        return self._protocol.features

    @property
    def finalized(self) -> Mapping[str, int]:
        """Features in use in the cluster, name → level."""
        return self._protocol.finalized

    def version_of(self, api: Api) -> int:
        """The version that requests of ``api`` will have.

        Raises:
            UnsupportedVersion: broker and client have none in common.
        """
        return self._protocol.version_of(api)

    def post(
        self, api: Api, request: Message, version_max: int | None = None
    ) -> asyncio.Future[Any]:
        """Send now. The future's result is the response message, or NetworkException.

        Args:
            version_max: use no later version of the API.

        Raises:
            NetworkException: the connection has ended.
            UnsupportedVersion: see :meth:`version_of`.
        """
        answer = self._loop.create_future()
        self._write(self._protocol.send(api, request, answer, version_max))
        return answer

    async def send(
        self, api: Api, request: Message, *, timeout_ms: int, version_max: int | None = None
    ) -> Any:
        """Send and await the response. A time-out closes the connection: responses come in order,
        so no later request could be answered either.

        Raises:
            NetworkException, UnsupportedVersion: as :meth:`post`.
            RequestTimedOut: no response within ``timeout_ms``.
        """
        answer = self.post(api, request, version_max)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            text = f"{self.address} did not answer {api.name} in {timeout_ms} ms"
            self._lose(NetworkException(text))
            raise RequestTimedOut(text) from None

    def close(self) -> None:
        """Close at once; waiting requests fail with NetworkException."""
        self._lose(NetworkException(f"the connection to {self.address} was closed"))

    # --- asyncio.Protocol -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The broker can be reached: begin the handshake."""
        self._transport = cast(asyncio.Transport, transport)
        self._write(self._protocol.start())

    def data_received(self, data: bytes) -> None:
        """Hand each response to its caller."""
        try:
            for event in self._protocol.receive(data):
                if isinstance(event, Answer):
                    if not event.caller.done():  # otherwise its caller was cancelled
                        event.caller.set_result(event.response)
                elif isinstance(event, Send):
                    self._write(event.chunks)
                elif not self._ready.done():
                    self._ready.set_result(None)
        except KafkaError as error:
            if self._ready.done():  # before that, open() raises it
                log.error("%s", error)
            self._lose(error)

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        self._lose(self._protocol.lost(error))

    def _write(self, chunks: list[bytes]) -> None:
        assert self._transport is not None, "nothing is sent before the connection is made"
        self._transport.writelines(chunks)

    def _lose(self, error: KafkaError) -> None:
        if self._protocol.ended:
            return
        waiting = self._protocol.end()
        if self._transport is not None:
            self._transport.abort()
        _fail(self._ready, error)
        for answer in waiting:
            _fail(answer, NetworkException(error.message))


def _fail(answer: asyncio.Future[Any], error: KafkaError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # mark it as seen: a cancelled caller must not cause a warning
