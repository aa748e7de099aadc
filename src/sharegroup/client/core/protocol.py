"""The Kafka protocol on one connection to one broker, without the socket.

Requests and received bytes go in; bytes to send and answers come out. Framing, correlation,
versions and errors are decided here, once. Two drivers move the bytes:
``client.network.connection`` on asyncio, and ``spark.task.blocking`` on a plain socket. This module
knows nothing of topics or groups.

A driver sends what :meth:`ClientProtocol.start` returns and passes on each event of
:meth:`ClientProtocol.receive` until :class:`Ready`. From then on it sends requests. When the
connection ends for any reason, it calls :meth:`ClientProtocol.end` and fails the waiting callers.

A login may hold for a time only (:attr:`ClientProtocol.login_due_s`). Before that time is over the
driver calls :meth:`ClientProtocol.log_in_again`. Requests sent meanwhile are kept, and go out with
the next :class:`Ready`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sharegroup.client.core.handshake import (
    Handshake,
    HandshakeRequest,
    Served,
    Versions,
    common_version,
    handshake,
    log_in,
)
from sharegroup.client.core.known_answer import KnownAnswer
from sharegroup.model import errors
from sharegroup.model.limits import HANDSHAKE_BYTES_MAX, RESPONSE_BYTES_MAX
from sharegroup.sasl.client import Login
from sharegroup.wire.apis import API_VERSIONS, Api
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import FrameSplitter, request_frame, response_body
from sharegroup.wire.schema import Message

T = TypeVar("T")

SESSION_PART: Final = 0.85
"""The part of a login's life after which it is done anew; Kafka's clients take 0.85 to 0.95."""
LOGIN_S_MIN: Final = 1.0
"""Kafka's brokers refuse a login that comes sooner after the last."""
LOGIN_S_MAX: Final = 86_400.0
_REFUSED_VERSION: Final = errors.UnsupportedVersion.code.to_bytes(2, "big")
_TLS_ALERT: Final = b"\x15\x03"  # how a TLS server answers bytes that are not TLS; RFC 8446, 5.1


class Send(NamedTuple):
    """Bytes of the handshake, to be sent now."""

    chunks: list[bytes]


class Ready(NamedTuple):
    """The handshake, or a login anew, is over: requests may be sent. ``chunks`` are the bytes of
    requests that waited for it, to be sent now."""

    chunks: tuple[bytes, ...] = ()


class ResponseArrived(NamedTuple, Generic[T]):
    """The response to a request; ``caller`` is the one that came with the request."""

    caller: T
    response: Message | None
    """None: the one that the caller knows."""


Event = Send | Ready | ResponseArrived[T]


class _Waiting(NamedTuple):
    """A request that is not answered yet."""

    correlation_id: int
    api: Api
    version: int
    caller: Any
    known: KnownAnswer | None = None


class _Handshake:
    """Who waits for the responses of a handshake."""


_HANDSHAKE: Final = _Handshake()


class ClientProtocol(Generic[T]):
    """One connection's state. ``T`` identifies a caller in the driver.

    Args:
        address: the broker's ``host:port``, for messages.
        client_id: the name that the broker sees.
        versions: the versions that we speak of each API, ApiVersions among them.
        login: by SASL; None: the broker lets everybody in.
        encrypted: the bytes go through TLS; for messages.
    """

    def __init__(
        self,
        address: str,
        client_id: str,
        versions: Mapping[Api, Versions],
        login: Login | None = None,
        *,
        encrypted: bool = False,
    ) -> None:
        self._address = address
        self._client_id = client_id
        self._ours = versions
        self._encrypted = encrypted
        self._handshake: Handshake | None = handshake(address, versions[API_VERSIONS], login)
        self._logs_in = login is not None
        self._at_start = True  # nothing was received
        self._served_once = False  # a request was answered
        self._begun = False  # the first handshake is over
        self._held: list[tuple[_Waiting, list[bytes]]] = []  # they wait for the end of a new login
        self._served = Served({}, {}, {})
        self._agreed: dict[int, int] = {}  # API key → version, of the APIs that were used already
        self._splitter = FrameSplitter(HANDSHAKE_BYTES_MAX)
        self._waiting: deque[_Waiting] = deque()  # responses come in the order of requests
        self._correlation_id = 0
        self._ended = False

    @property
    def ended(self) -> bool:
        """No request can be sent any more."""
        return self._ended

    @property
    def begun(self) -> bool:
        """The first handshake is over."""
        return self._begun

    @property
    def idle(self) -> bool:
        """No response is outstanding."""
        return not self._waiting and not self._held

    @property
    def features(self) -> dict[str, tuple[int, int]]:
        """Supported features of the broker, name → (lowest, highest level)."""
        return self._served.features

    @property
    def finalized(self) -> Mapping[str, int]:
        """Features in use in the cluster, name → level."""
        return self._served.finalized

    @property
    def login_due_s(self) -> float | None:
        """How many seconds after the last :class:`Ready` to log in again; None: never."""
        lifetime_ms = self._served.session_lifetime_ms
        if lifetime_ms <= 0:
            return None
        return min(max(lifetime_ms / 1000 * SESSION_PART, LOGIN_S_MIN), LOGIN_S_MAX)

    @property
    def wanted(self) -> int:
        """How many bytes are missing from the current length field or response.

        A driver that gives :meth:`receive` exactly so many bytes gets at most one event for them,
        and a long response is not copied.
        """
        return self._splitter.wanted

    def version_of(self, api: Api) -> int:
        """The version that requests of ``api`` will have.

        Raises:
            UnsupportedVersion: broker and client have no version in common.
        """
        version = self._agreed.get(api.key)
        if version is None:
            theirs = self._served.versions.get(api.key)
            version = common_version(self._address, api, self._ours[api], theirs)
            self._agreed[api.key] = version
        return version

    def start(self) -> list[bytes]:
        """The first bytes to send, as soon as the connection is made; once."""
        assert self._handshake is not None, "the handshake is over"
        return self._step(next(self._handshake)).chunks

    def log_in_again(self, login: Login) -> list[bytes]:
        """The first bytes of a login on the open connection (KIP-368). Not allowed while another
        login goes on.

        Raises:
            NetworkException: the connection has ended.
        """
        if self._ended:
            raise errors.NetworkException(f"not connected to {self._address}")
        assert self._handshake is None, "the login before is not over"
        self._handshake = log_in(self._address, self._served, login)
        return self._step(next(self._handshake)).chunks

    def send(
        self,
        api: Api,
        request: Message,
        caller: T,
        version_max: int | None = None,
        known: KnownAnswer | None = None,
    ) -> list[bytes]:
        """The bytes of a request; its :class:`ResponseArrived` will name ``caller``. No bytes while
        a login anew goes on: the next :class:`Ready` has them.

        Args:
            version_max: use no later version; None: the newest that both sides have.
            known: if this answer comes again, the response is None.

        Raises:
            NetworkException: the connection has ended, or its handshake is not over.
            UnsupportedVersion: see :meth:`version_of`.
            MalformedMessage: a value does not fit its field; nothing is changed.
        """
        if self._ended or not self._begun:
            raise errors.NetworkException(f"not connected to {self._address}")
        version = self.version_of(api)
        if version_max is not None:
            version = min(version, version_max)
        waiting, chunks = self._frame(api, version, request, caller)
        waiting = waiting._replace(known=known)
        if self._handshake is not None:
            self._held.append((waiting, chunks))
            return []
        self._waiting.append(waiting)
        return chunks

    def receive(self, data: bytes) -> Iterator[Event[T]]:
        """The received events, in order. Handle each event before asking for the next one; after an
        error call :meth:`end`.

        Raises:
            NetworkException: this is not what a Kafka broker sends.
            TlsFailed: it is what a TLS server sends to a client that does not speak TLS.
            UnsupportedVersion: the handshake found no version in common.
            KafkaError: the broker refuses in the handshake.
        """
        if not self._begun and not self._encrypted and self._at_start and data[:2] == _TLS_ALERT:
            raise errors.TlsFailed(
                f"{self._address} speaks TLS, and this client does not: set security.protocol to "
                "SSL or SASL_SSL"
            )
        self._at_start = False
        self._splitter.add(data)
        try:
            while not self._ended and (frame := self._splitter.next_frame()) is not None:
                yield self._event(frame)
        except errors.MalformedMessage as error:
            raise errors.NetworkException(
                f"{self._address} sent a malformed response: {error}"
            ) from error

    def lost(self, reason: object = None) -> errors.NetworkException:
        """The error for a connection that ended without our doing.

        Args:
            reason: the system's error; None when the broker closed the connection.
        """
        text = f"the connection to {self._address} was lost"
        if self._splitter.begun:
            text += " inside a response"
        if self._waiting:
            text += f", waiting for {self._waiting[0].api.name}"
        closed = reason is None or isinstance(reason, ConnectionError)
        if closed and self._at_start and not self._encrypted:
            text += " (if it is a TLS port, set security.protocol to SSL or SASL_SSL)"
        elif closed and self._at_start:
            text += (
                " (if it wants a client certificate, or does not accept this one, see "
                "ssl.keystore.location or ssl.certificate.location)"
            )
        elif closed and self._begun and not self._served_once and not self._logs_in:
            text += " (if it wants a login, set security.protocol to SASL_SSL or SASL_PLAINTEXT)"
        return errors.NetworkException(text if reason is None else f"{text}: {reason}")

    def end(self) -> list[T]:
        """End the connection. Returns the callers whose requests are unanswered, in order."""
        self._ended = True
        unanswered = [*self._waiting, *(waiting for waiting, _ in self._held)]
        self._waiting.clear()
        self._held.clear()
        return [one.caller for one in unanswered if one.caller is not _HANDSHAKE]

    def _event(self, frame: bytes) -> Event[T]:
        response, caller = self._answered(frame)
        if caller is not _HANDSHAKE:
            self._served_once = True
            return ResponseArrived(caller, response)
        assert self._handshake is not None
        assert response is not None, "known to nobody"
        try:
            return self._step(self._handshake.send(response))
        except StopIteration as finished:
            self._served = finished.value
        self._handshake, self._begun = None, True
        self._splitter.frame_bytes_max = RESPONSE_BYTES_MAX
        return Ready(self._released())

    def _released(self) -> tuple[bytes, ...]:
        """The bytes of the requests that waited for the login; they count as under way now."""
        released: list[bytes] = []
        for waiting, chunks in self._held:
            self._waiting.append(waiting)
            released += chunks
        self._held.clear()
        return tuple(released)

    def _answered(self, frame: bytes) -> tuple[Message | None, Any]:
        """The response in ``frame``, None if it is known, and who asked for it."""
        if not self._waiting:
            raise errors.MalformedMessage("a response without a request")
        expected, api, version, caller, known = self._waiting[0]
        correlation_id, position = response_body(api, version, frame)
        if correlation_id != expected:
            raise errors.MalformedMessage(
                f"a response to request {correlation_id} instead of {expected}"
            )
        if api is API_VERSIONS and frame[position : position + 2] == _REFUSED_VERSION:
            version = 0  # KIP-511: an ApiVersions refusal is always in version 0
        same = known is not None and known.came(frame[position:])
        response = None if same else decode(api.response, version, frame, position)
        self._waiting.popleft()
        return response, caller

    def _step(self, exchange: HandshakeRequest) -> Send:
        waiting, chunks = self._frame(*exchange, _HANDSHAKE)
        self._waiting.append(waiting)
        return Send(chunks)

    def _frame(
        self, api: Api, version: int, request: Message, caller: T | _Handshake
    ) -> tuple[_Waiting, list[bytes]]:
        correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        chunks = request_frame(api, version, correlation_id, self._client_id, request)
        self._correlation_id = correlation_id
        return _Waiting(correlation_id, api, version, caller), chunks
