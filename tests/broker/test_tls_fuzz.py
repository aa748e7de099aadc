"""TLS records split and damaged at random: what arrives is a prefix of what was sent."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sharegroup.broker.network.tls.records import RECORD_BYTES
from sharegroup.broker.network.tls.transport import Tls, TlsTransport
from sharegroup.tls.self_signed import authority, signed

HOST = "127.0.0.1"


class Socket(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.closed
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class Received(asyncio.Protocol):
    """What the connection got."""

    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The server's and the client's."""
    known = authority()
    identity = signed(known, "broker", hosts=[HOST])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        store = Path(folder) / "broker.pem"
        store.write_text(identity.key_pem + identity.certificate_pem)
        server.load_cert_chain(store)
    return server, ssl.create_default_context(cadata=known.certificate_pem)


class Peer:
    """A client by OpenSSL, connected by hand to a transport of the broker."""

    def __init__(self) -> None:
        server, client = contexts()
        self.socket, self.received, self.floods = Socket(), Received(), 0
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = client.wrap_bio(self._incoming, self._outgoing, server_hostname=HOST)
        tls = Tls(server)
        for _ in range(3):
            with contextlib.suppress(ssl.SSLWantReadError):
                self._session.do_handshake()
            tls.incoming.write(self._outgoing.read())
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.session.do_handshake()
            self._incoming.write(tls.outgoing.read())
        self.transport = TlsTransport(self.socket, tls, self.received, self._flooded)
        self.transport.start(b"")

    def _flooded(self) -> None:
        self.floods += 1

    def encrypted(self, data: bytes) -> bytes:
        """The records with this data."""
        self._session.write(data)
        return self._outgoing.read()

    def give(self, stream: bytes, chance: random.Random) -> None:
        """Hand the transport a stream in pieces of any size, until it closes."""
        at = 0
        while at < len(stream) and not self.socket.closed:
            size = chance.choice((1, 4, 5, 6, 100, RECORD_BYTES, 100_000))
            self.transport.data_received(stream[at : at + size])
            at += size


def some_data(chance: random.Random) -> list[bytes]:
    sizes = (0, 1, 100, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 50_000)
    return [chance.randbytes(chance.choice(sizes)) for _ in range(chance.randint(1, 8))]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_sent_arrives_however_it_is_split(seed: int) -> None:
    chance, peer = random.Random(seed), Peer()
    data = [one for one in some_data(chance) if one]
    peer.give(b"".join(map(peer.encrypted, data)), chance)
    assert peer.received.data == b"".join(data)
    assert not peer.socket.closed
    assert not peer.floods


@pytest.mark.parametrize("seed", range(200))
def test_after_damage_nothing_is_read_and_the_connection_ends(seed: int) -> None:
    chance, peer = random.Random(seed), Peer()
    data = [one for one in some_data(chance) if one] or [b"x"]
    stream = bytearray(b"".join(map(peer.encrypted, data)))
    at, damage = chance.randrange(len(stream)), chance.randrange(3)
    match damage:
        case 0:
            stream[at] ^= 1 << chance.randrange(8)
        case 1:
            del stream[at : at + chance.randint(1, 50)]
        case _:
            stream[at:at] = chance.randbytes(chance.randint(1, 50))
    # The last record may only look unfinished: more bytes settle it.
    stream += chance.randbytes(2 * RECORD_BYTES + 600)
    peer.give(bytes(stream), chance)
    assert b"".join(data).startswith(peer.received.data)
    assert damage != 0 or len(peer.received.data) < len(b"".join(data))
    assert peer.socket.closed


@pytest.mark.parametrize("seed", range(60))
def test_bytes_that_are_no_tls_end_the_connection(seed: int) -> None:
    chance, peer = random.Random(seed), Peer()
    peer.give(chance.randbytes(200_000), chance)
    assert peer.received.data == b""
    assert peer.socket.closed
