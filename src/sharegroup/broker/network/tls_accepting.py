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
from typing import Any, Final, Protocol, TypeVar, cast

from sharegroup.broker.authentication.listener_security import ListenerSecurity
from sharegroup.broker.counters import Counters
from sharegroup.broker.network.handshake_turns import HandshakeTurns

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


class Feedable(Protocol):
    """TLS of asyncio, and of uvloop."""

    def get_buffer(self, size: int) -> memoryview:
        """Where received bytes go."""
        ...

    def buffer_updated(self, size: int) -> None:
        """So many are there."""
        ...


def _feed(tls: Feedable, data: bytes) -> None:
    """Give TLS what came before it began."""
    while data:
        buffer = memoryview(tls.get_buffer(len(data)))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        tls.buffer_updated(size)
        data = data[size:]


class TlsAccepting(asyncio.Protocol):
    """The asyncio protocol of one accepted socket, until its handshake is over. It begins in its
    turn after the first bytes have come: who sends nothing costs nothing.

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
        turns: HandshakeTurns,
        timeout_s: Callable[[], float],
        counters: Counters,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._security = security
        self._make = make
        self._begins = begins
        self._ended = ended
        self._turns = turns
        self._timeout_s = timeout_s
        self._counters = counters
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._raw: asyncio.Transport | None = None
        self._host = ""
        self._came = b""
        self._timer: asyncio.TimerHandle | None = None  # while the handshake has not begun

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer connected."""
        self._raw = raw = cast(asyncio.Transport, transport)
        peer = raw.get_extra_info("peername")
        self._host = peer[0] if peer else ""
        if not self._begins(self, self._host):
            self._raw = None
            raw.abort()
            return
        self._timer = self._loop.call_later(self._timeout_s(), self._late)

    def data_received(self, data: bytes) -> None:
        """The handshake wants to begin."""
        if self._timer is None or self._raw is None:
            return
        self._came += data
        self._raw.pause_reading()
        self._turns.enter(self, self._host)

    def connection_lost(self, error: Exception | None) -> None:
        """The peer has left before its turn came."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._turns.leave(self, self._host)
            self._failed(self._host, error if isinstance(error, OSError) else ConnectionError())
            self._ended(self, self._host)

    def abort(self) -> None:
        """Close at once."""
        if self._raw is not None:
            self._raw.abort()

    def begin(self) -> bool:
        """Its turn has come. False if it has ended meanwhile."""
        raw, timer = self._raw, self._timer
        if raw is None or timer is None or raw.is_closing():
            return False
        timer.cancel()
        self._timer = None
        early = _Early()
        context = self._security.material.context
        assert context is not None
        start = self._loop.start_tls(
            raw,
            early,
            context,
            server_side=True,
            ssl_handshake_timeout=max(0.001, timer.when() - self._loop.time()),
            ssl_shutdown_timeout=SHUTDOWN_S,
        )
        begun = _begun(start)
        tls = cast(Feedable, raw.get_protocol())
        self._loop.call_soon(self._give, tls)  # after TLS has been told of its connection
        self._spawn(self._shake_hands(raw, self._host, early, begun))
        return True

    def _give(self, tls: Feedable) -> None:
        came, self._came = self._came, b""
        if self._raw is not None and not self._raw.is_closing():
            _feed(tls, came)

    def _late(self) -> None:
        self._failed(self._host, TimeoutError())
        self._timer = None
        self._turns.leave(self, self._host)
        self._ended(self, self._host)
        self.abort()

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
