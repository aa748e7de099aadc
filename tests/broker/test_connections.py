"""How many connections there may be, how long they may be idle, and what a slow reader costs."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.network.connection import BrokerConnection
from sharegroup.broker.server import Broker
from sharegroup.model.errors import KafkaError
from sharegroup.model.limits import WRITE_BYTES
from sharegroup.sim import MemoryDisk
from sharegroup.wire import apis
from sharegroup.wire.batch import decode_batch, encode_batch
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages import fetch
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sharegroup.wire.messages.metadata import MetadataRequest
from tests.broker.by_hand import GROUP, TIMEOUT_MS, Member, connect, produce, topic_with_records
from tests.broker.running import run
from tests.broker.share_wire import until
from tests.sim.test_broker_in_virtual_time import simulate, start

BROKER = 4
MIB = 1 << 20


async def is_refused(port: int) -> bool:
    """Whether a new connection is closed before it says anything."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.writelines(request_frame(apis.METADATA, 12, 1, "by-hand", MetadataRequest([])))
    try:
        return not await reader.read(1)
    except ConnectionError:
        return True
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("options", "most"),
    [
        (["max.connections=2"], 2),
        (["max.connections.per.ip=1"], 1),
        (["max.connections.per.ip=1", "max.connections.per.ip.overrides=127.0.0.1:3"], 3),
    ],
)
def test_a_connection_over_the_limit_is_closed(
    tmp_path: Path, options: list[str], most: int
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        held = [await connect(port) for _ in range(most)]
        assert await is_refused(port)
        metadata = await held[0].send(apis.METADATA, MetadataRequest([]), timeout_ms=TIMEOUT_MS)
        assert len(metadata.brokers) == 1, "those that are open are not disturbed"
        held.pop().close()
        while len(broker.connections) == most:
            assert await is_refused(port)
        assert not await is_refused(port)

    run(tmp_path, scenario, *options)


def test_the_limit_may_be_changed_while_running(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        setting = AlterableConfig("max.connections", 0, "1")
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "", [setting])])
        response = await connection.send(
            apis.INCREMENTAL_ALTER_CONFIGS, request, timeout_ms=TIMEOUT_MS
        )
        assert response.responses[0].error_code == 0
        assert await is_refused(port)

    run(tmp_path, scenario)


def test_an_idle_connection_is_closed_and_one_that_waits_is_not() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk, "connections.max.idle.ms=20000")
        topic_id = await topic_with_records(broker, port, 1)
        member = await Member.join(port, "m1")
        idle = await connect(port)
        assert await member.fetch(topic_id) == [(0, 0, 1)]
        # Its lock ends after 30 s; the idle one is closed before that.
        assert await member.fetch(topic_id, wait_ms=60_000) == [(0, 0, 2)]
        with pytest.raises(KafkaError):
            await idle.send(apis.METADATA, MetadataRequest([]), timeout_ms=TIMEOUT_MS)
        assert [led.key.group_id for led in broker.parts.share_partitions.all()] == [GROUP]
        assert len(broker.connections) == 1
        await asyncio.sleep(25)
        assert len(broker.connections) == 0
        await broker.close()

    simulate(scenario)


@pytest.mark.parametrize("idle_ms", [0, -1])
def test_no_connection_is_closed_where_there_is_no_limit(idle_ms: int) -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk, f"connections.max.idle.ms={idle_ms}")
        connection = await connect(port)
        await asyncio.sleep(3_600)
        await connection.send(apis.METADATA, MetadataRequest([]), timeout_ms=TIMEOUT_MS)
        await broker.close()

    simulate(scenario)


async def slow_connection(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """One that takes little in before somebody reads."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    peer.setblocking(False)
    await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=peer, limit=64 * 1024)


def whole_topic(topic_id: Any) -> fetch.FetchRequest:
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=64 * MIB)
    topic = fetch.FetchTopic(topic_id=topic_id, partitions=[part])
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=64 * MIB, topics=[topic])


def test_a_peer_that_does_not_read_costs_the_memory_of_one_answer(tmp_path: Path) -> None:
    version, asked = 13, 12

    async def scenario(broker: Broker, port: int) -> None:
        quick = await connect(port)
        topic_id = await topic_with_records(broker, port, 1)
        batch = encode_batch([(b"k", bytes(900_000))], timestamp_ms=0)
        for _ in range(16):
            assert await produce(quick, topic_id, batch) == 0
        reader, writer = await slow_connection(port)
        request = whole_topic(topic_id)
        for number in range(asked):
            writer.writelines(request_frame(apis.FETCH, version, number, "slow", request))
        # Others are served meanwhile; none of what they do moves the slow one on.
        for _ in range(50):
            await quick.send(apis.METADATA, MetadataRequest([]), timeout_ms=TIMEOUT_MS)
        assert any(c.unread_bytes > MIB for c in broker.connections.all())
        assert broker.parts.meters.request("Fetch").seconds.count <= 3
        for number in range(asked):
            size = int.from_bytes(await reader.readexactly(4), "big")
            frame = await reader.readexactly(size)
            correlation_id, at = response_body(apis.FETCH, version, frame)
            assert correlation_id == number
            response = decode(apis.FETCH.response, version, frame, at)
            (topic,) = response.responses
            assert len(topic.partitions[0].records or b"") > 16 * 900_000
        writer.close()

    run(tmp_path, scenario)


def test_a_large_answer_leaves_in_pieces(tmp_path: Path) -> None:
    """It is not copied into the socket's buffer as a whole, and arrives as it was."""
    version = 13

    def buffered(connection: BrokerConnection) -> int:
        transport = connection._transport
        return 0 if transport is None else transport.get_write_buffer_size()

    async def fetched(reader: asyncio.StreamReader) -> bytes:
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        _, at = response_body(apis.FETCH, version, frame)
        response = decode(fetch.FetchResponse, version, frame, at)
        return bytes(response.responses[0].partitions[0].records or b"")

    async def scenario(broker: Broker, port: int) -> None:
        quick = await connect(port)
        topic_id = await topic_with_records(broker, port, 1)
        batches = [encode_batch([(b"k", bytes([n]) * 900_000)], timestamp_ms=0) for n in range(16)]
        for batch in batches:
            assert await produce(quick, topic_id, batch) == 0
        reader, writer = await slow_connection(port)
        writer.writelines(request_frame(apis.FETCH, version, 1, "slow", whole_topic(topic_id)))
        await until(lambda: any(map(buffered, broker.connections.all())))
        (slow,) = filter(buffered, broker.connections.all())
        assert buffered(slow) <= WRITE_BYTES
        assert slow.unread_bytes > 8 * MIB, "the rest is where it was read to"
        await quick.send(apis.METADATA, MetadataRequest([]), timeout_ms=TIMEOUT_MS)
        records = await fetched(reader)
        assert [record[3] for record in decode_batch(records)][1:] == [
            bytes([n]) * 900_000 for n in range(16)
        ]
        await until(lambda: not broker.connections.answers.used)
        writer.writelines(request_frame(apis.FETCH, version, 2, "slow", whole_topic(topic_id)))
        assert await fetched(reader) == records, "and it is served again"
        writer.close()
        quick.close()

    run(tmp_path, scenario)


def test_hundreds_that_connect_while_the_broker_is_busy_get_in(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        # The loop does not run meanwhile; where the backlog is full, connecting fails.
        peers = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(300)]
        await until(lambda: len(broker.connections.all()) >= len(peers))
        for peer in peers:
            peer.close()

    run(tmp_path, scenario)
