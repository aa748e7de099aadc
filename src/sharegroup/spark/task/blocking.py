"""A blocking connection to one broker, which a Spark task on an executor reads through.

The driver's side uses the asyncio client. A task is one generator that must not start threads or
loops, so it gets a socket with a time limit, with TLS if the broker wants it, and the same protocol
above the socket (``client.core.protocol``).
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final, TypeVar, cast

from sharegroup.client.core.handshake import Versions
from sharegroup.client.core.protocol import ClientProtocol, Event, Ready, ResponseArrived, Send
from sharegroup.client.network.addresses import Address
from sharegroup.client.security.access import PLAIN_ACCESS, ConnectionAccess
from sharegroup.model.errors import KafkaError
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.schema import Message

if TYPE_CHECKING:
    import ssl

M = TypeVar("M", bound=Message)

CONNECT_SECONDS: Final = 10.0
VERSIONS: Final[dict[Api, Versions]] = {
    # From 13 on topics are named by id, so a recreated topic is not taken for the old one.
    apis.FETCH: (13, 17),
    apis.LIST_OFFSETS: (7, 10),
    apis.METADATA: (10, 13),
    apis.API_VERSIONS: (0, 4),
}
VIEWED_BYTES_MIN: Final = 1 << 16
"""A response of at least this many bytes is passed on as a view: its records are not copied."""


class BlockingConnection:
    """Requests in order, responses in order; one of each may be under way.

    Args:
        access: TLS and SASL; None: neither.

    Raises:
        NetworkException: from every method, when the broker cannot be reached, does not answer in
            time or does not speak Kafka. The connection cannot be used after it.
        AuthenticationFailed: on opening, and from :meth:`send`: TLS or the login failed, and would
            fail again.
        UnsupportedVersion: from :meth:`send`, when broker and client have no version in common; on
            opening, for ApiVersions.
        KafkaError: on opening, when the broker refuses.
    """

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        timeout_ms: int,
        access: ConnectionAccess | None = None,
    ) -> None:
        self.address = address
        self.access = access
        self._login_at_s: float | None = None
        self._prepare_s = min(CONNECT_SECONDS, timeout_ms / 1000)
        secured = PLAIN_ACCESS if access is None else access.prepare(self._prepare_s)
        self._encrypted = secured.context is not None
        self._protocol: ClientProtocol[None] = ClientProtocol(
            str(address), client_id, VERSIONS, secured.login, encrypted=self._encrypted
        )
        self._timeout_s = timeout_ms / 1000
        self._socket = self._connected(secured.context)
        try:
            self._write(self._protocol.start())
            self._shake_hands()
        except BaseException:
            self.close()
            raise

    def _connected(self, context: ssl.SSLContext | None) -> socket.socket:
        connect_s = min(CONNECT_SECONDS, self._timeout_s)
        try:
            plain = socket.create_connection(self.address, timeout=connect_s)
        except OSError as error:
            raise self._failure(error) from None
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            secured = (
                plain
                if context is None
                else context.wrap_socket(plain, server_hostname=self.address.host)
            )
            secured.settimeout(self._timeout_s)
        except BaseException as error:
            plain.close()
            if isinstance(error, OSError):
                raise self._failure(error) from None
            raise
        return secured

    def _shake_hands(self) -> None:
        """Exchange the messages of a handshake, or of a login, until requests may be sent."""
        while not isinstance(event := self._event(), Ready):
            assert isinstance(event, Send)
            self._write(event.chunks)
        due_s = self._protocol.login_due_s
        self._login_at_s = None if due_s is None else time.monotonic() + due_s

    def _log_in_when_due(self) -> None:
        """Log in again, if the login holds for a time only and that time is nearly over
        (KIP-368)."""
        if self._login_at_s is not None and time.monotonic() >= self._login_at_s:
            assert self.access is not None
            self._write(self._protocol.log_in_again(self.access.login(self._prepare_s)))
            self._shake_hands()

    @property
    def idle(self) -> bool:
        """Whether the connection works and no response is outstanding."""
        return self._protocol.idle and not self._protocol.ended

    def call(self, api: Api, request: Message, kind: type[M]) -> M:
        """Send and receive."""
        self.send(api, request)
        return self.receive(kind)

    def send(self, api: Api, request: Message) -> None:
        """Send a request; :meth:`receive` must follow before the next one."""
        assert self._protocol.idle, "one request at a time"
        self._log_in_when_due()
        self._write(self._protocol.send(api, request, None))

    def receive(self, kind: type[M]) -> M:
        """The response to the last request. Record data in a long response is a view of the
        received bytes.
        """
        assert not self._protocol.idle, "nothing was sent"
        event = self._event()
        assert isinstance(event, ResponseArrived)
        assert isinstance(event.response, kind)
        return event.response

    def close(self) -> None:
        """Close the connection; sends nothing."""
        self._protocol.end()
        self._socket.close()

    def _write(self, chunks: list[bytes]) -> None:
        try:
            self._socket.sendall(b"".join(chunks))
        except OSError as error:
            raise self._lost(error) from error

    def _event(self) -> Event[None]:
        """The next event. The bytes that the protocol wants make one event at most."""
        try:
            while True:
                for event in self._protocol.receive(self._wanted()):
                    return event
        except OSError as error:
            raise self._lost(error) from error
        except KafkaError:
            self._protocol.end()
            raise

    def _wanted(self) -> bytes:
        size = self._protocol.wanted
        whole = memoryview(bytearray(size))
        rest = whole
        while rest:
            received = self._socket.recv_into(rest)
            if not received:
                raise ConnectionError("the broker closed the connection")
            rest = rest[received:]
        # The codec slices what it reads, and slices of a view are not copies.
        return cast(bytes, whole) if size >= VIEWED_BYTES_MIN else bytes(whole)

    def _lost(self, error: OSError) -> KafkaError:
        begun, lost = self._protocol.begun, self._protocol.lost(error)
        self._protocol.end()
        if self._encrypted and not begun:
            from sharegroup.tls.failures import refused_later

            return refused_later(str(self.address), error) or lost
        return lost

    def _failure(self, error: OSError) -> KafkaError:
        from sharegroup.tls.failures import failure

        return failure(str(self.address), error, encrypted=self._encrypted)
