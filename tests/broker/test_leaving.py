"""Answers whose records are sent from the file: they arrive as they were, whatever happens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import uvloop

from sharegroup.broker.network.connection import BrokerConnection
from sharegroup.broker.network.outgoing import Chunk, OutgoingChunks
from sharegroup.broker.server import Broker
from sharegroup.storage import LocalDisk
from sharegroup.wire import apis
from sharegroup.wire.batch import decode_batch, encode_batch
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages import fetch
from sharegroup.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.by_hand import TIMEOUT_MS, connect, produce, topic_with_records
from tests.broker.running import running
from tests.broker.share_wire import until
from tests.broker.test_connections import slow_connection, whole_topic

VERSION = 13
MIB = 1 << 20
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
Scenario = Callable[[Broker, int, UUID], Any]


def values(number: int) -> list[bytes]:
    return [bytes([n]) * 900_000 for n in range(number)]


def with_large_topic(folder: Path, loop: Callable[[], Any], scenario: Scenario) -> None:
    """Run ``scenario`` against a broker with a topic of 14 MB."""

    async def main() -> None:
        async with asyncio.timeout(240), running(folder) as (broker, port):
            topic_id = await topic_with_records(broker, port, 1)
            connection = await connect(port)
            for value in values(16):
                batch = encode_batch([(b"k", value)], timestamp_ms=0)
                assert await produce(connection, topic_id, batch) == 0
            connection.close()
            await scenario(broker, port, topic_id)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def fetched(reader: asyncio.StreamReader) -> list[bytes | None]:
    """The values of the records in the next answer."""
    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    _, at = response_body(apis.FETCH, VERSION, frame)
    response = decode(fetch.FetchResponse, VERSION, frame, at)
    records = bytes(response.responses[0].partitions[0].records or b"")
    return [record[3] for record in decode_batch(records)]


def ask(writer: asyncio.StreamWriter, topic_id: UUID) -> None:
    writer.writelines(request_frame(apis.FETCH, VERSION, 1, "slow", whole_topic(topic_id)))


async def behind(broker: Broker) -> BrokerConnection:
    """The connection whose peer does not read."""
    await until(lambda: any(c.unread_bytes > 8 * MIB for c in broker.connections.all()))
    return next(c for c in broker.connections.all() if c.unread_bytes > 8 * MIB)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_slow_reader_costs_no_memory(tmp_path: Path, loop: Callable[[], Any]) -> None:
    """What it has not read stays in the file; answers behind it keep their order."""

    async def scenario(broker: Broker, port: int, topic_id: UUID) -> None:
        reader, writer = await slow_connection(port)
        for _ in range(3):
            ask(writer, topic_id)
        transport: Any = (await behind(broker))._transport
        await until(lambda: transport.get_write_buffer_size() > 0)
        assert transport.get_write_buffer_size() <= 16 * 1024
        for _ in range(3):
            assert (await fetched(reader))[1:] == values(16)
        await until(lambda: not broker.connections.answers.used)
        _, high = transport.get_write_buffer_limits()
        assert high == 64 * 1024, "as before"
        writer.close()

    with_large_topic(tmp_path, loop, scenario)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_answer_outlives_its_topic(tmp_path: Path, loop: Callable[[], Any]) -> None:
    async def scenario(broker: Broker, port: int, topic_id: UUID) -> None:
        reader, writer = await slow_connection(port)
        ask(writer, topic_id)
        await behind(broker)
        quick = await connect(port)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(None, topic_id)])
        deleted = await quick.send(apis.DELETE_TOPICS, request, timeout_ms=TIMEOUT_MS)
        assert deleted.responses[0].error_code == 0
        assert not list((tmp_path / "data").glob("**/t*-0/*.log"))
        assert (await fetched(reader))[1:] == values(16)
        quick.close()
        writer.close()

    with_large_topic(tmp_path, loop, scenario)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_file_that_fails_ends_the_connection(tmp_path: Path, loop: Callable[[], Any]) -> None:
    async def scenario(broker: Broker, port: int, topic_id: UUID) -> None:
        reader, writer = await slow_connection(port)
        ask(writer, topic_id)
        await behind(broker)
        for path in (tmp_path / "data").glob("**/*.log"):
            os.truncate(path, 0)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await fetched(reader)
        counted = broker.parts.counters.statistics()
        assert counted["requests_out_of_means", ""] == 1
        writer.close()

    with_large_topic(tmp_path, loop, scenario)


class Recorder(asyncio.Transport):
    """A transport without a socket; it keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))


class ChunkRecorder(Recorder):
    """It keeps chunks apart, as TLS does."""

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        for data in list_of_data:
            self.write(data)


@pytest.mark.parametrize(("last", "writes"), [(16 * 1024 - 60, 1), (16 * 1024 - 59, 3)])
def test_small_chunks_leave_as_one(last: int, writes: int) -> None:
    """TLS makes a record of each write; large answers are not copied for that."""
    leaving, transport = OutgoingChunks(), ChunkRecorder()
    chunks: list[Chunk] = [b"h" * 30, memoryview(b"b" * 30), b"e" * last]
    leaving.add(chunks, sum(map(len, chunks)))
    leaving.write(transport, MIB)
    assert len(transport.written) == writes
    assert b"".join(transport.written) == b"h" * 30 + b"b" * 30 + b"e" * last


def test_what_is_read_leaves_together(tmp_path: Path) -> None:
    """TLS sends each write with a system call of its own."""
    file = LocalDisk().open(str(tmp_path / "a"))
    file.append(bytes(3 * MIB))
    one, other = file.range(MIB // 2, 0), file.range(2 * MIB, MIB)
    assert one is not None
    assert other is not None
    leaving, transport = OutgoingChunks(), Recorder()
    leaving.add([b"head", one, b"between", other], len(one) + len(other) + 11)
    while leaving:
        leaving.write(transport, MIB)
    assert list(map(len, transport.written)) == [MIB, MIB, MIB // 2 + 11]
    file.close()


@pytest.mark.parametrize("bytes_max", [1, 7, 1000, MIB, None])
def test_where_nothing_can_be_sent_the_file_is_read(tmp_path: Path, bytes_max: int | None) -> None:
    content = os.urandom(5000)
    file = LocalDisk().open(str(tmp_path / "a"))
    file.append(content)
    one, other = file.range(3000, 0), file.range(100, 4900)
    assert one is not None
    assert other is not None
    chunks: list[Chunk] = [b"head", one, b"", b"between", memoryview(b"and"), other, b"end"]
    whole = b"head" + content[:3000] + b"betweenand" + content[4900:] + b"end"
    leaving, transport = OutgoingChunks(), Recorder()
    leaving.add(chunks, sum(map(len, chunks)))
    left = len(whole)
    while leaving:
        assert leaving.size == left
        leaving.write(transport, bytes_max)
        left -= min(left, bytes_max or left)
    assert leaving.size == 0
    assert b"".join(transport.written) == whole
    file.close()
