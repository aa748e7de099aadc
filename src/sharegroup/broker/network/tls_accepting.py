"""Accepts connections of a TLS listener: the handshake comes first, then the connection is made.

Each connection gets the context that holds when it comes, so that renewed certificates need no
restart. A handshake that fails is counted, and said now and then.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, TypeVar, cast

from sharegroup.broker.authentication.listener_security import ListenerSecurity
from sharegroup.broker.counters import Counters

SHUTDOWN_S: Final = 2.0
"""How long a closing connection waits for the peer's end of TLS."""


_T = TypeVar("_T")


class _Early(asyncio.Protocol):
    """Keeps what comes between the end of the handshake and the connection."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.data.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True


def _begun(start: Coroutine[Any, Any, _T]) -> Awaitable[_T]:
    """A coroutine after its first step, which is taken now: a task would take it later, and the
    first bytes that come would not reach TLS. (uvloop reads from then on, whatever one says.)"""
    waits_for = start.send(None)

    @types.coroutine
    def rest() -> Generator[Any, Any, _T]:
        try:
            yield waits_for
        except BaseException as error:
            start.throw(error)
            raise
        return (yield from start.__await__())

    return rest()


class TlsAccepting(asyncio.Protocol):
    """The asyncio protocol of one accepted socket, until its handshake is over.

    Args:
        make: the protocol of the connection.
        begins: asks whether one more connection may be in its handshake; it counts it then.
        ended: takes it from the count.
        timeout_s: the longest that a handshake may take.
        spawn: runs the handshake.
    """

    def __init__(
        self,
        security: ListenerSecurity,
        make: Callable[[], asyncio.Protocol],
        begins: Callable[[TlsAccepting, str], bool],
        ended: Callable[[TlsAccepting, str], None],
        timeout_s: Callable[[], float],
        counters: Counters,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._security = security
        self._make = make
        self._begins = begins
        self._ended = ended
        self._timeout_s = timeout_s
        self._counters = counters
        self._spawn = spawn
        self._raw: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer connected."""
        raw = cast(asyncio.Transport, transport)
        peer = raw.get_extra_info("peername")
        host = peer[0] if peer else ""
        self._raw = raw
        if not self._begins(self, host):
            raw.abort()
            return
        early = _Early()
        context = self._security.material.context
        assert context is not None
        start = asyncio.get_running_loop().start_tls(
            raw,
            early,
            context,
            server_side=True,
            ssl_handshake_timeout=self._timeout_s(),
            ssl_shutdown_timeout=SHUTDOWN_S,
        )
        self._spawn(self._shake_hands(raw, host, early, _begun(start)))

    def abort(self) -> None:
        """Close at once."""
        if self._raw is not None:
            self._raw.abort()

    async def _shake_hands(
        self,
        raw: asyncio.Transport,
        host: str,
        early: _Early,
        start: Awaitable[asyncio.Transport | None],
    ) -> None:
        try:
            transport = await start
        except OSError as error:
            self._failed(host, error)
            raw.abort()
            return
        finally:
            self._ended(self, host)
        if transport is None or early.lost:
            return
        connection = self._make()
        transport.set_protocol(connection)
        connection.connection_made(transport)
        for data in early.data:
            if not transport.is_closing():
                connection.data_received(data)

    def _failed(self, host: str, error: OSError) -> None:
        reason = handshake_reason(error)
        sentence = f"no TLS with {host} on the listener {self._security.name}: {reason}"
        self._counters.say(logging.WARNING, "tls_handshake_failures", sentence, reason)


def handshake_reason(error: OSError) -> str:
    """Why a handshake failed, in a few words: one of OpenSSL's reasons, or one of ours."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or "not TLS"
        if reason in _NOT_TLS:
            return "the client speaks plaintext to a TLS listener"
        return reason.replace("_", " ").lower()
    if isinstance(error, ConnectionAbortedError | TimeoutError):
        return "the client did not finish the handshake in time"
    return "the client closed the connection"


_NOT_TLS: Final = frozenset(
    {
        "HTTP_REQUEST",
        "HTTPS_PROXY_REQUEST",
        "WRONG_VERSION_NUMBER",
        "UNKNOWN_PROTOCOL",
        "RECORD_LAYER_FAILURE",
        "PACKET_LENGTH_TOO_LONG",
        "BAD_RECORD_TYPE",
        "UNEXPECTED_MESSAGE",
    }
)
