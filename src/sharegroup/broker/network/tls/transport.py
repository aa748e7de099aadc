"""TLS of one connection after its handshake: the transport of the connection, and the protocol of
the socket.

asyncio has one (``loop.start_tls``), but it does the handshake on the event loop, where all other
clients wait for its arithmetic. See ``accepting``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final

from sharegroup.broker.network.tls.records import RECORD_BYTES, TlsRecords

KEPT_BYTES: Final = 4 * RECORD_BYTES
"""Bytes encrypted at once: OpenSSL keeps memory for the most bytes that ever waited in it."""


class Tls:
    """OpenSSL's state, and the encrypted bytes on the way to it and from it."""

    __slots__ = ("context", "incoming", "outgoing", "session")

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self.incoming, self.outgoing, server_side=True)


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """See the module.

    Args:
        raw: the transport of the socket.
        tls: its handshake is done.
        protocol: the connection.
        flooded: called when the peer sends too many records without data, and is closed.
    """

    def __init__(
        self,
        raw: asyncio.Transport,
        tls: Tls,
        protocol: asyncio.Protocol,
        flooded: Callable[[], None],
    ) -> None:
        super().__init__()
        self._raw = raw
        self._tls = tls
        self._protocol = protocol
        self._flooded = flooded
        self._records = TlsRecords()
        self._ended = False
        self._reading = True
        self._peer_ended = False
        """The peer has ended TLS, and the connection has not taken all that came before."""

    def start(self, came: bytes) -> None:
        """Tell the connection that it is made, and give it bytes that came with the handshake."""
        self._raw.set_protocol(self)
        self._protocol.connection_made(self)
        self.data_received(self._tls.incoming.read() + came)

    def data_received(self, data: bytes) -> None:
        """Encrypted bytes came: give the connection what is in the records that are complete."""
        if self._ended or self._peer_ended:
            return
        chunks: list[bytes] = []
        ended = flooded = False
        for piece, records in self._records.cut(data):
            self._tls.incoming.write(piece)
            ended, read = self._decrypt()
            chunks += read
            flooded = not self._records.read(records, read)
            if ended or flooded:
                break
        self._send()
        if chunks:
            self._protocol.data_received(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        if flooded and not ended:
            self._flooded()
            self.abort()
        elif ended and self._reading:
            self.close()
        elif ended:
            self._peer_ended = True

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed."""
        self._protocol.connection_lost(error)

    def pause_writing(self) -> None:
        """The peer does not read."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._protocol.resume_writing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the TLS transports of asyncio."""
        if name == "ssl_object":
            return self._tls.session
        if name == "sslcontext":
            return self._tls.context
        return self._raw.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Encrypt and send."""
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Encrypt each, and send them together."""
        if self._raw.is_closing() or self._ended:
            return
        encrypted: list[bytes] = []
        for data in list_of_data:
            whole = memoryview(data)
            for at in range(0, len(whole), KEPT_BYTES):
                self._tls.session.write(whole[at : at + KEPT_BYTES])
                if self._tls.outgoing.pending >= KEPT_BYTES:
                    encrypted.append(self._tls.outgoing.read())
        if self._tls.outgoing.pending:
            encrypted.append(self._tls.outgoing.read())
        if encrypted:
            self._raw.writelines(encrypted)

    def pause_reading(self) -> None:
        """Take nothing more from the socket."""
        self._reading = False
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Take from the socket again. Nothing comes if the peer has ended: then close, as a socket
        does that has been read to its end."""
        self._reading = True
        if self._peer_ended:
            self.close()
        else:
            self._raw.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Encrypted bytes that the socket has not taken."""
        return self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits, in encrypted bytes."""
        self._raw.set_write_buffer_limits(high, low)

    def is_closing(self) -> bool:
        """Whether the transport is closed, or will be."""
        return self._raw.is_closing()

    def can_write_eof(self) -> bool:
        """Yes: TLS has an end, and so has the socket."""
        return True

    def write_eof(self) -> None:
        """Send what is written and the end; what still comes is dropped."""
        self._end_tls()
        self._raw.write_eof()

    def close(self) -> None:
        """Send what is written and the end of TLS, then close."""
        if not self._raw.is_closing():
            self._end_tls()
            self._raw.close()

    def _end_tls(self) -> None:
        if not self._ended:
            self._ended = True
            with contextlib.suppress(ssl.SSLError):  # raised because the peer has sent no end yet
                self._tls.session.unwrap()
            self._send()

    def abort(self) -> None:
        """Close at once."""
        self._raw.abort()

    def _decrypt(self) -> tuple[bool, list[bytes]]:
        """(whether TLS has ended, the data of all records that are complete)"""
        session, incoming = self._tls.session, self._tls.incoming
        chunks: list[bytes] = []
        try:
            while incoming.pending or session.pending():
                chunk = session.read(RECORD_BYTES)
                if not chunk:
                    return True, chunks
                chunks.append(chunk)
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still to come
        except ssl.SSLError:
            return True, chunks  # OpenSSL has made the alert that says why
        return False, chunks

    def _send(self) -> None:
        if self._tls.outgoing.pending:
            self._raw.write(self._tls.outgoing.read())
