"""Accepts connections of a TLS listener: the handshake comes first, then the connection is made.

Each connection gets the TLS context that is in force when it comes, so that renewed certificates
need no restart. Failed handshakes are counted, and logged now and then. The arithmetic of a
handshake runs in a thread of low priority: on the event loop all other clients would wait for it.
OpenSSL works without the interpreter lock.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, cast

from sharegroup.broker.authentication.listener_security import ListenerSecurity
from sharegroup.broker.event_counters import Counters
from sharegroup.broker.network.tls.handshake_turns import HandshakeTurns
from sharegroup.broker.network.tls.records import RECORD_BYTES
from sharegroup.broker.network.tls.transport import Tls, TlsTransport

ALERT_S: Final = 2.0
"""How long the peer of a failed handshake may take to read why."""

InThread = Callable[[Callable[[], None]], Awaitable[None]]

_ALERT: Final = bytes.fromhex("1503030002020a")
"""A fatal alert, unexpected_message (RFC 8446, section 6). To a peer that speaks plaintext OpenSSL
sends no alert. Kafka sends one, and a Kafka client knows by it that it should speak TLS."""


class TlsAccepting(asyncio.Protocol):
    """The asyncio protocol of one accepted socket, until its handshake is over. The handshake waits
    for the first bytes, then for its turn: a peer that sends nothing costs nothing.

    Args:
        make: makes the protocol of the connection.
        begins: asks whether one more handshake may begin; if so, the handshake is counted.
        ended: uncounts a handshake that is over.
        timeout_s: the longest that a handshake may take.
        in_thread: computes handshakes while the event loop goes on.
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
        in_thread: InThread,
    ) -> None:
        self._security = security
        self._make = make
        self._begins = begins
        self._ended = ended
        self._turns = turns
        self._timeout_s = timeout_s
        self._counters = counters
        self._in_thread = in_thread
        self._loop = asyncio.get_running_loop()
        self._raw: asyncio.Transport | None = None
        self._host = ""
        self._came = b""
        self._tls: Tls | None = None  # from its turn on
        self._timer: asyncio.TimerHandle | None = None  # until it has ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer connected."""
        self._raw = raw = cast(asyncio.Transport, transport)
        peer = raw.get_extra_info("peername")
        self._host = peer[0] if peer else ""
        if self._begins(self, self._host):
            self._timer = self._loop.call_later(self._timeout_s(), self._late)
        else:
            raw.abort()

    def data_received(self, data: bytes) -> None:
        """The handshake can begin, or go on."""
        if self._timer is None or self._raw is None:
            return
        self._came += data
        self._raw.pause_reading()
        if self._tls is None:
            self._turns.enter(self, self._host)
        else:
            self._step(self._tls)

    def connection_lost(self, error: Exception | None) -> None:
        """The peer has left."""
        self._end(error if isinstance(error, OSError) else ConnectionError())

    def abort(self) -> None:
        """Close at once; the peer is not to blame."""
        self._end(None)
        if self._raw is not None:
            self._raw.abort()

    def begin(self) -> bool:
        """Its turn has come. False if the handshake has ended meanwhile."""
        if self._timer is None:
            return False
        context = self._security.material.context
        assert context is not None
        self._tls = Tls(context)
        self._step(self._tls)
        return True

    def _step(self, tls: Tls) -> None:
        """Continue the handshake in the thread, with bytes that came. Until the thread is done,
        nothing is read, and nobody else uses ``tls``. OpenSSL gets the bytes in parts, because it
        keeps as much memory as it was given at once."""
        tls.incoming.write(self._came[:RECORD_BYTES])
        self._came = self._came[RECORD_BYTES:]
        step = asyncio.ensure_future(self._in_thread(tls.session.do_handshake))
        step.add_done_callback(lambda done: self._stepped(tls, done))

    def _stepped(self, tls: Tls, step: asyncio.Future[None]) -> None:
        raw = self._raw
        if step.cancelled():
            return
        error = step.exception()
        if raw is None or self._timer is None or raw.is_closing():
            return
        if tls.outgoing.pending:
            raw.write(tls.outgoing.read())
        elif isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS:
            raw.write(_ALERT)
        if isinstance(error, ssl.SSLWantReadError):
            if self._came:
                self._step(tls)
            else:
                raw.resume_reading()
        elif error is None:
            self._end(None)
            transport = TlsTransport(raw, tls, self._make(), self._flooded)
            raw.resume_reading()
            transport.start(self._came)
            self._came = b""
        else:
            self._end(error if isinstance(error, OSError) else ConnectionError())
            raw.close()
            self._loop.call_later(ALERT_S, raw.abort)

    def _flooded(self) -> None:
        sentence = f"closing the connection from {self._host}: TLS records without data"
        self._counters.say(logging.WARNING, "malformed_requests", sentence)

    def _late(self) -> None:
        self._end(TimeoutError())
        self.abort()

    def _end(self, error: OSError | None) -> None:
        """The handshake is over; a second call does nothing."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        self._turns.leave(self, self._host)
        self._ended(self, self._host)
        if error is not None:
            reason = handshake_reason(error)
            sentence = f"no TLS with {self._host} on the listener {self._security.name}: {reason}"
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
