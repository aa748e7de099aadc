"""One TCP connection to one broker, on asyncio: many requests in flight, answered in order.

``client.core.protocol`` decides what the bytes mean; this class moves them, through TLS where the
broker wants it. However a connection ends, every waiting request fails with the same error.

A login that holds for a time only is done anew before that time is over (KIP-368).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from sharegroup.client.core.handshake import Versions
from sharegroup.client.core.known_answer import KnownAnswer
from sharegroup.client.core.protocol import ClientProtocol, ResponseArrived, Send
from sharegroup.client.network.addresses import Address
from sharegroup.client.network.versions import CLIENT_VERSIONS
from sharegroup.client.security.access import PLAIN_ACCESS, ConnectionAccess, Secured
from sharegroup.client.security.limited_calls import in_thread
from sharegroup.client.security.tokens import TOKEN_S
from sharegroup.model.errors import KafkaError, NetworkException, RequestTimedOut, SharegroupError
from sharegroup.sasl.client import Login
from sharegroup.wire.apis import Api
from sharegroup.wire.schema import Message

if TYPE_CHECKING:
    import ssl

log = logging.getLogger("sharegroup.client")

PREPARE_S: Final = TOKEN_S
"""How long, in seconds, to wait for a token, and for the files of certificates to be read."""


class Connection(asyncio.Protocol):
    """A connection that is ready to use; made by :meth:`open`. ``address`` is ``host:port``, for
    messages.
    """

    def __init__(
        self,
        address: str,
        client_id: str,
        versions: Mapping[Api, Versions],
        access: ConnectionAccess | None = None,
        secured: Secured = PLAIN_ACCESS,
        prepare_s: float = PREPARE_S,
    ) -> None:
        self.address = address
        self._access = access
        self._prepare_s = prepare_s
        self._encrypted = secured.context is not None
        self._protocol: ClientProtocol[asyncio.Future[Any]] = ClientProtocol(
            address, client_id, versions, secured.login, encrypted=self._encrypted
        )
        self._login_due: asyncio.TimerHandle | None = None
        self._logging_in: asyncio.Task[None] | None = None
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
        access: ConnectionAccess | None = None,
    ) -> Connection:
        """Connect, and go through the handshake.

        Args:
            access: TLS and SASL; None: neither.

        Raises:
            NetworkException: the address cannot be reached, is not a Kafka broker, or does not
                answer within ``timeout_ms``. Or there was no token, or a file was not read, within
                ``timeout_ms`` or PREPARE_S.
            AuthenticationFailed: TLS or the login failed, and would fail again.
            ConfigError: a file of certificates cannot be read.
            KafkaError: the broker refuses the handshake.
        """
        address = str(Address(host, port))
        prepare_s = min(timeout_ms / 1000, PREPARE_S)
        secured = PLAIN_ACCESS if access is None else await _prepared(access, prepare_s)
        connection = cls(address, client_id, versions, access, secured, prepare_s)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await connection._connect(host, port, secured.context)
                await connection._ready
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise NetworkException(f"{address} did not answer in {timeout_ms} ms") from None
            if isinstance(error, OSError):
                raise connection._failure(error) from None
            raise
        return connection

    @property
    def closed(self) -> bool:
        """No request can be sent any more."""
        return self._protocol.ended

    @property
    def idle(self) -> bool:
        """No answer is awaited."""
        return self._protocol.idle

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
            UnsupportedVersion: broker and client have no version in common.
        """
        return self._protocol.version_of(api)

    def post(
        self,
        api: Api,
        request: Message,
        version_max: int | None = None,
        known: KnownAnswer | None = None,
    ) -> asyncio.Future[Any]:
        """Send now. The future's result is the response message, or NetworkException.

        Args:
            version_max: use no later version of the API.
            known: the result is None if this answer comes again.

        Raises:
            NetworkException: the connection has ended.
            UnsupportedVersion: see :meth:`version_of`.
        """
        answer = self._loop.create_future()
        self._write(self._protocol.send(api, request, answer, version_max, known))
        return answer

    async def send(
        self,
        api: Api,
        request: Message,
        *,
        timeout_ms: int,
        version_max: int | None = None,
        known: KnownAnswer | None = None,
    ) -> Any:
        """Send and await the response. A time-out closes the connection: responses come in order,
        so no later request could be answered either.

        Raises:
            NetworkException, UnsupportedVersion: as :meth:`post`.
            RequestTimedOut: no response within ``timeout_ms``.
        """
        answer = self.post(api, request, version_max, known)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            text = f"{self.address} did not answer {api.name} in {timeout_ms} ms"
            self._lose(NetworkException(text))
            raise RequestTimedOut(text) from None

    def close(self, why: str = "") -> None:
        """Close at once; waiting requests fail with NetworkException, which says ``why``."""
        text = f"the connection to {self.address} was closed"
        self._lose(NetworkException(f"{text}: {why}" if why else text))

    # --- asyncio.Protocol -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The broker can be reached: begin the handshake."""
        self._transport = cast(asyncio.Transport, transport)
        self._write(self._protocol.start())

    def data_received(self, data: bytes) -> None:
        """Hand each response to its caller."""
        try:
            for event in self._protocol.receive(data):
                if isinstance(event, ResponseArrived):
                    if not event.caller.done():  # otherwise its caller was cancelled
                        event.caller.set_result(event.response)
                    continue
                self._write(event.chunks)
                if not isinstance(event, Send):
                    self._logged_in()
        except KafkaError as error:
            if self._ready.done():  # otherwise open() raises the error
                log.error("%s", error)
            self._lose(error)

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        refused = None
        if self._encrypted and not self._ready.done():
            from sharegroup.tls.failures import refused_later

            refused = refused_later(self.address, error)
        self._lose(refused or self._protocol.lost(error))

    async def _connect(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        if context is None:
            await self._loop.create_connection(lambda: self, host, port)
        else:
            await self._loop.create_connection(
                lambda: self, host, port, ssl=context, server_hostname=host
            )

    def _failure(self, error: OSError) -> KafkaError:
        from sharegroup.tls.failures import failure

        return failure(self.address, error, encrypted=self._encrypted)

    def _write(self, chunks: Sequence[bytes]) -> None:
        if chunks:
            assert self._transport is not None, "nothing is sent before the connection is made"
            self._transport.writelines(chunks)

    # --- logging in -------------------------------------------------------------------------------

    def _logged_in(self) -> None:
        """The handshake, or a login anew, is over."""
        if not self._ready.done():
            self._ready.set_result(None)
        due_s = self._protocol.login_due_s
        if due_s is not None:
            self._login_due = self._loop.call_later(due_s, self._begin_login)

    def _begin_login(self) -> None:
        self._logging_in = self._loop.create_task(self._log_in_again())

    async def _log_in_again(self) -> None:
        assert self._access is not None
        try:
            login = await _login(self._access, self._prepare_s)
            if not self._protocol.ended:
                self._write(self._protocol.log_in_again(login))
        except SharegroupError as error:
            self._lose(NetworkException(f"the login at {self.address} is over: {error}"))

    def _lose(self, error: KafkaError) -> None:
        if self._protocol.ended:
            return
        if self._login_due is not None:
            self._login_due.cancel()
        if self._logging_in is not None:
            self._logging_in.cancel()
        waiting = self._protocol.end()
        if self._transport is not None:
            self._transport.abort()
        _fail(self._ready, error)
        for answer in waiting:
            _fail(answer, NetworkException(error.message))


async def _prepared(access: ConnectionAccess, limit_s: float) -> Secured:
    """The TLS context and the login of a new connection."""
    context = None
    if access.security.encrypted:
        try:
            async with asyncio.timeout(limit_s):
                context = await asyncio.wrap_future(in_thread(access.tls))
        except TimeoutError:
            text = f"the files of certificates were not read within {limit_s:g} s"
            raise NetworkException(text) from None
    login = await _login(access, limit_s) if access.security.authenticated else None
    return Secured(context, login)


async def _login(access: ConnectionAccess, limit_s: float) -> Login:
    if not access.asks_for_tokens:
        return access.login()
    return await asyncio.wrap_future(in_thread(lambda: access.login(limit_s)))


def _fail(answer: asyncio.Future[Any], error: KafkaError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # mark it as seen: a cancelled caller must not cause a warning
