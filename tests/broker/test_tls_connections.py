"""TLS of the broker's connections on both event loops, with sockets and OpenSSL by hand."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import pytest
import uvloop

from sharegroup.broker.network.tls import accepting
from sharegroup.broker.network.tls.records import RECORD_BYTES
from sharegroup.broker.network.tls.transport import KEPT_BYTES, Tls
from sharegroup.broker.server import Broker
from sharegroup.model.limits import UNAUTHENTICATED_MIN
from sharegroup.tls.self_signed import authority, signed
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.framing import FrameSplitter, request_frame
from sharegroup.wire.messages.metadata import MetadataRequest
from tests.broker.by_hand import connect, produce, topic_with_records
from tests.broker.running import running
from tests.broker.share_wire import until
from tests.broker.test_leaving import ask, fetched, values

HOST = "127.0.0.1"
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
MIB = 1 << 20


@dataclass(frozen=True)
class Listener:
    """The protected one of a broker, and what a client must know."""

    broker: Broker
    port: int
    plain_port: int
    context: ssl.SSLContext
    handshakes: list[str]
    """The name of the thread that computed each."""

    async def stream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(HOST, self.port, ssl=self.context)

    async def hand(self, source: str = HOST) -> Hand:
        streams = await asyncio.open_connection(HOST, self.port, local_addr=(source, 0))
        return Hand(self.context, *streams)

    async def topic(self, records: Sequence[bytes]) -> UUID:
        """A new one; the records are written over the other listener."""
        topic_id = await topic_with_records(self.broker, self.plain_port, 1)
        connection = await connect(self.plain_port)
        for value in records:
            batch = encode_batch([(b"k", value)], timestamp_ms=0)
            assert await produce(connection, topic_id, batch) == 0
        connection.close()
        return topic_id

    @property
    def failures(self) -> dict[str, int]:
        """Failed handshakes by reason."""
        counted = self.broker.parts.counters.statistics()
        name = "tls_handshake_failures"
        return {reason: number for (kind, reason), number in counted.items() if kind == name}


class Hand:
    """A client that sends encrypted bytes as it likes."""

    def __init__(
        self, context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader, self.writer = reader, writer
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=HOST)
        self.splitter = FrameSplitter()

    async def receive(self) -> bool:
        """False at the end."""
        data = await self.reader.read(MIB)
        self.incoming.write(data)
        return bool(data)

    def hello(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    async def finish(self) -> bytes:
        """Read the server's half; the client's last bytes, not sent yet."""
        while True:
            assert await self.receive()
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.writer.write(self.outgoing.read())
            else:
                return self.outgoing.read()

    async def answers(self, count: int) -> list[int]:
        """The numbers of the questions that are answered."""
        numbers: list[int] = []
        while len(numbers) < count:
            try:
                frames = self.splitter.feed(self.tls.read(MIB))
                numbers += [int.from_bytes(frame[:4], "big") for frame in frames]
            except ssl.SSLWantReadError:
                assert await self.receive(), "closed"
        return numbers

    async def ended(self) -> bool:
        """Whether the broker ends TLS before the connection."""
        while True:
            try:
                if not self.tls.read(MIB):
                    return True
            except ssl.SSLZeroReturnError:
                return True
            except ssl.SSLWantReadError:
                if not await self.receive():
                    return False


def question(number: int) -> bytes:
    """A frame of Metadata."""
    return b"".join(request_frame(apis.METADATA, 12, number, "hand", MetadataRequest([])))


Scenario = Callable[[Listener], Coroutine[Any, Any, None]]


def listening(folder: Path, loop: Callable[[], Any], scenario: Scenario, *settings: str) -> None:
    """Run ``scenario`` against a broker with a listener SSL and one without."""
    known = authority()
    identity = signed(known, "broker", hosts=[HOST])
    store, threads = folder / "broker.pem", list[str]()
    store.write_text(identity.key_pem + identity.certificate_pem)

    def seen(*_hello: object) -> None:
        threads.append(threading.current_thread().name)

    async def main() -> None:
        options = (
            "listeners=SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={store}",
            *settings,
        )
        async with asyncio.timeout(240), running(folder, *options) as (broker, plain_port):
            _, port = await broker.listen(HOST, 0, "SSL")
            security = broker.security.open("SSL")
            assert security is not None
            assert security.material.context is not None
            security.material.context.sni_callback = seen
            context = ssl.create_default_context(cadata=known.certificate_pem)
            await scenario(Listener(broker, port, plain_port, context, threads))
            waiting = broker.connections.waiting_room
            await until(lambda: not (waiting.handshakes or len(waiting)))

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


on_both_loops = pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])


@on_both_loops
def test_a_handshake_does_not_run_on_the_event_loop(
    tmp_path: Path, loop: Callable[[], Any]
) -> None:
    """Other clients wait for whatever runs there."""

    async def scenario(listener: Listener) -> None:
        _, writer = await listener.stream()
        (thread,) = listener.handshakes
        assert thread.startswith("low-priority")
        writer.close()

    listening(tmp_path, loop, scenario)


@on_both_loops
def test_bytes_may_come_one_by_one_or_all_at_once(tmp_path: Path, loop: Callable[[], Any]) -> None:
    async def scenario(listener: Listener) -> None:
        slow = await listener.hand()
        for byte in slow.hello():
            slow.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        last = await slow.finish()
        slow.tls.write(question(1))
        for byte in last + slow.outgoing.read():
            slow.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert await slow.answers(1) == [1]

        hasty = await listener.hand()  # its first question comes with the end of the handshake
        hasty.writer.write(hasty.hello())
        last = await hasty.finish()
        hasty.tls.write(question(1))
        hasty.tls.write(question(2) + question(3))
        hasty.writer.write(last + hasty.outgoing.read())
        assert await hasty.answers(3) == [1, 2, 3]
        slow.writer.close()
        hasty.writer.close()

    listening(tmp_path, loop, scenario)


@on_both_loops
def test_large_answers_arrive_whole_however_slowly_they_are_read(
    tmp_path: Path, loop: Callable[[], Any]
) -> None:
    async def scenario(listener: Listener) -> None:
        topic_id = await listener.topic(values(16))
        reader, writer = await listener.stream()
        for _ in range(3):
            ask(writer, topic_id)
        connections = listener.broker.connections
        await until(lambda: any(c.unread_bytes > 8 * MIB for c in connections.all()))
        (late,) = (c for c in connections.all() if c.unread_bytes > 8 * MIB)
        transport: Any = late._transport
        assert transport.get_write_buffer_size() <= 3 * MIB, "the rest stays in the file"
        for _ in range(3):
            assert (await fetched(reader))[1:] == values(16)
        await until(lambda: not connections.answers.used)
        writer.close()

    listening(tmp_path, loop, scenario)


@on_both_loops
def test_each_side_may_end_tls(tmp_path: Path, loop: Callable[[], Any]) -> None:
    async def scenario(listener: Listener) -> None:
        connections = listener.broker.connections
        for how in ("end of TLS", "end of TCP", "a broken record", "the broker closes"):
            hand = await listener.hand()
            hand.writer.write(hand.hello())
            hand.writer.write(await hand.finish())
            hand.tls.write(question(1))
            hand.writer.write(hand.outgoing.read())
            assert await hand.answers(1) == [1]
            (connection,) = connections.all()
            if how == "end of TLS":
                with pytest.raises(ssl.SSLWantReadError):
                    hand.tls.unwrap()
                hand.writer.write(hand.outgoing.read())
                assert await hand.ended()
            elif how == "end of TCP":
                hand.writer.write_eof()
                assert not await hand.receive()
            elif how == "a broken record":
                hand.writer.write(b"\x17\x03\x03\x00\x20" + bytes(32))
                with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
                    await hand.ended()
            else:
                connection.close()
                connection.close()
                assert await hand.ended()
            await until(lambda: not connections.all())
            hand.writer.close()

    listening(tmp_path, loop, scenario)


@on_both_loops
def test_a_handshake_may_be_left_at_every_byte(tmp_path: Path, loop: Callable[[], Any]) -> None:
    """Each is counted once, and nothing of it stays."""

    async def scenario(listener: Listener) -> None:
        waiting = listener.broker.connections.waiting_room
        first = await listener.hand()
        hello = first.hello()
        first.writer.close()
        left = range(0, len(hello) + 1, 23)
        for size in left:
            hand = await listener.hand()
            hand.writer.write(hello[:size])
            await until(lambda: waiting.handshakes > 0)
            hand.writer.transport.abort()
            await until(lambda: waiting.handshakes == 0)
        assert sum(listener.failures.values()) >= len(left)
        hand = await listener.hand()
        hand.writer.write(hand.hello())
        await hand.finish()  # its last bytes are never sent
        hand.writer.transport.abort()
        await until(lambda: waiting.handshakes == 0)
        _, writer = await listener.stream()
        writer.close()

    listening(tmp_path, loop, scenario)


@on_both_loops
def test_a_peer_hears_why_there_is_no_tls(tmp_path: Path, loop: Callable[[], Any]) -> None:
    async def scenario(listener: Listener) -> None:
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("AES128-SHA:@SECLEVEL=0")
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
            await asyncio.open_connection(HOST, listener.port, ssl=old)
        reader, writer = await asyncio.open_connection(HOST, listener.port)
        writer.write(question(1))
        assert (await reader.read()).startswith(b"\x15\x03"), "an alert"
        writer.close()
        assert listener.failures == {
            "no shared cipher": 1,
            "the client speaks plaintext to a TLS listener": 1,
        }

    listening(tmp_path, loop, scenario)


@on_both_loops
def test_no_peer_is_blamed_for_what_the_broker_ends(
    tmp_path: Path, loop: Callable[[], Any]
) -> None:
    """A handshake that makes room for another is counted as refused, and not as failed as well; nor
    are those that a broker's end cuts off."""

    async def scenario(listener: Listener) -> None:
        counted = listener.broker.parts.counters.statistics
        waiting = listener.broker.connections.waiting_room
        hands = []
        for _ in range(UNAUTHENTICATED_MIN + 1):
            hand = await listener.hand()
            hand.writer.write(hand.hello()[:100])
            hands.append(hand)
        await until(lambda: counted().get(("connections_refused", "unauthenticated")) == 1)
        assert not await hands[0].receive(), "the oldest"
        assert waiting.handshakes == UNAUTHENTICATED_MIN
        await listener.broker.close()
        for hand in hands:
            while await hand.receive():
                pass
            hand.writer.close()
        await until(lambda: waiting.handshakes == 0)
        assert listener.failures == {}

    listening(tmp_path, loop, scenario, f"max.connections={4 * UNAUTHENTICATED_MIN}")


class WatchedMemory:
    """Knows the most bytes that have waited in it: OpenSSL keeps memory for so many."""

    def __init__(self) -> None:
        self.memory = ssl.MemoryBIO()
        self.most = 0

    @property
    def pending(self) -> int:
        self.most = max(self.most, self.memory.pending)
        return self.memory.pending

    def write(self, data: bytes) -> int:
        written = self.memory.write(data)
        assert self.pending
        return written

    def read(self, size: int = -1) -> bytes:
        assert self.pending >= 0
        return self.memory.read(size)


class WatchedTls(Tls):
    """With such."""

    all: ClassVar[list[WatchedTls]] = []

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.came, self.left = WatchedMemory(), WatchedMemory()
        self.incoming: Any
        self.outgoing: Any
        self.incoming, self.outgoing = self.came, self.left
        self.session = context.wrap_bio(self.came.memory, self.left.memory, server_side=True)
        self.all.append(self)


@on_both_loops
def test_a_connection_keeps_little_memory_of_what_it_has_moved(
    tmp_path: Path, loop: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "Tls", WatchedTls)
    monkeypatch.setattr(WatchedTls, "all", [])

    async def scenario(listener: Listener) -> None:
        topic_id = await listener.topic(values(4))
        reader, writer = await listener.stream()
        ask(writer, topic_id)
        assert (await fetched(reader))[1:] == values(4)
        writer.write((2 * MIB).to_bytes(4, "big") + bytes.fromhex("00000009") + bytes(MIB))
        connections = listener.broker.connections
        await until(lambda: any(one.moved_bytes > MIB for one in connections.all()))
        writer.close()
        loud = await listener.hand()
        loud.writer.write(loud.hello() + bytes(MIB))
        with contextlib.suppress(ConnectionError):  # not all that it has sent is read
            while await loud.receive():
                pass
        loud.writer.close()
        assert len(WatchedTls.all) == 2
        for tls in WatchedTls.all:
            assert 0 < tls.came.most <= 3 * RECORD_BYTES
            assert 0 < tls.left.most <= KEPT_BYTES + 2 * RECORD_BYTES

    listening(tmp_path, loop, scenario)
