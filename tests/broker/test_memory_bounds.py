"""What all connections together may take of memory, and who has to go when there is no more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.configs.broker import load
from sharegroup.broker.event_counters import Counters
from sharegroup.broker.network.answer_memory import AnswerMemory
from sharegroup.broker.network.request_memory import RequestMemory
from sharegroup.broker.server import Broker
from sharegroup.model.errors import ConfigError
from sharegroup.model.limits import (
    ACKNOWLEDGING_REQUEST_BYTES_MAX,
    ANSWER_BYTES_MIN,
    FIRST_REQUEST_BYTES_MAX,
    MODEST_BYTES,
    SMALL_REQUEST_BYTES_MAX,
)
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import response_body
from sharegroup.wire.messages import fetch
from tests.broker.by_hand import connect, produce, topic_with_records
from tests.broker.greedy import Greedy, begun, frame
from tests.broker.running import run
from tests.broker.share_wire import until
from tests.broker.test_connections import slow_connection, whole_topic

MIB = 1 << 20
BATCH = encode_batch([(None, b"v")], timestamp_ms=0)


@pytest.mark.parametrize(
    ("api", "version", "most"),
    [
        (apis.METADATA, 12, SMALL_REQUEST_BYTES_MAX),
        (apis.WRITE_SHARE_GROUP_STATE, 0, SMALL_REQUEST_BYTES_MAX),
        (apis.SHARE_ACKNOWLEDGE, 1, ACKNOWLEDGING_REQUEST_BYTES_MAX),
        (apis.PRODUCE, 13, 100 * MIB),
        (apis.PRODUCE, 2, SMALL_REQUEST_BYTES_MAX),  # not served
        (apis.Api(999, "Nothing", ""), 0, SMALL_REQUEST_BYTES_MAX),
    ],
    ids=lambda value: value.name if isinstance(value, apis.Api) else str(value),
)
def test_a_request_is_refused_by_its_length_before_it_is_read(
    tmp_path: Path, api: apis.Api, version: int, most: int
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        inside = await Greedy.connect(port, begun=True)
        inside.send(begun(api, version, most))
        outside = await Greedy.connect(port, begun=True)
        outside.send(begun(api, version, most + 1))
        assert await outside.closed()
        assert broker.parts.counters.statistics()["malformed_requests", ""] == 1
        assert len(broker.connections) == 1, "the one at the edge is waited for"
        inside.close()
        outside.close()

    run(tmp_path, scenario)


def test_a_first_request_has_a_lower_size_limit(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        inside, outside = await Greedy.connect(port), await Greedy.connect(port)
        inside.send(begun(apis.PRODUCE, 13, FIRST_REQUEST_BYTES_MAX))
        outside.send(begun(apis.PRODUCE, 13, FIRST_REQUEST_BYTES_MAX + 1))
        assert await outside.closed()
        assert len(broker.connections) == 1
        inside.close()
        outside.close()

    run(tmp_path, scenario)


BOUND = 32 * MIB
TIGHT = (f"queued.max.request.bytes={BOUND}", f"socket.request.max.bytes={20 * MIB}")


def test_unfinished_requests_are_bounded_together(tmp_path: Path) -> None:
    """Room is kept for some; the others are not read until those that do not move are closed, and
    who sends little is served all the while."""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        memory = broker.connections.requests
        victim = await connect(port)
        greedy = [await Greedy.connect(port, begun=True) for _ in range(12)]
        for peer in greedy:
            peer.send(begun(apis.PRODUCE, 13, 10 * MIB, bytes(9 * MIB)))
        await until(lambda: memory.waiting > 0)
        counts = broker.parts.counters.statistics
        while counts().get(("connections_dropped", "request memory"), 0) < 3:
            assert await produce(victim, topic_id, BATCH) == 0
            large = encode_batch([(None, bytes(900_000))], timestamp_ms=0)
            assert await produce(victim, topic_id, large) == 0, "small ones keep room of their own"
            assert memory.used <= BOUND
            assert sum(c.held_bytes for c in broker.connections.all()) == memory.used
        for peer in greedy:
            peer.close()
        await until(lambda: memory.used == 0 and memory.waiting == 0)
        assert await produce(victim, topic_id, BATCH) == 0
        victim.close()

    run(tmp_path, scenario, *TIGHT)


NOTHING = b"\0\0" + bytes(2) + bytes(4) + b"\1"
"""The body of a produce request with acks=0 and no topics: it is not answered."""


def test_requests_that_wait_for_room_get_it_in_turn(tmp_path: Path) -> None:
    """Nobody is closed who sends what he claims: all are answered, however long the line."""

    async def scenario(broker: Broker, port: int) -> None:
        peers = [await Greedy.connect(port, begun=True) for _ in range(8)]
        length = 10 * MIB
        for peer in peers:
            peer.send(begun(apis.PRODUCE, 13, length))
        memory = broker.connections.requests
        await until(lambda: memory.waiting == len(peers) - 2)
        for peer in peers:
            peer.send(NOTHING + bytes(length - 10 - len(NOTHING)))
        await until(lambda: memory.used == 0 and memory.waiting == 0)
        assert len(broker.connections) == len(peers)
        for peer in peers:
            peer.close()

    run(tmp_path, scenario, *TIGHT)


class Peer:
    """A connection as the memory sees it."""

    def __init__(self, *, unread: int = 0, read: int = 0) -> None:
        self.host = "peer"
        self.held_bytes = self.moved_bytes = 0
        self.claimed = False
        self.modest = True
        self.unread_bytes = unread
        self.read_bytes = read
        self.blocked_s = 0.0
        self.blocked_read_bytes = 0
        self.told = 0
        self.aborted = False

    def may_read_again(self) -> None:
        self.told += 1

    def abort(self) -> None:
        self.aborted = True


def memory_of(*peers: Peer, bound: int = BOUND) -> RequestMemory:
    counters = Counters(lambda: 0)
    return RequestMemory(
        lambda: bound, lambda: 20 * MIB, lambda: list(peers), lambda _: None, counters
    )


def test_at_the_bound_nothing_is_read_until_enough_is_free() -> None:
    async def scenario() -> None:
        one, other = Peer(), Peer()
        memory = memory_of(one, other)
        memory.count(one, BOUND)
        assert not memory.full, "just inside"
        memory.count(other, 1)
        assert memory.full
        memory.count(one, -BOUND // 8)
        assert memory.full
        memory.count(one, -BOUND // 8 - 1)
        assert not memory.full
        assert one.told == other.told == 1
        memory.close()

    asyncio.run(scenario())


def test_at_the_bound_connections_that_held_little_are_read_a_while_longer() -> None:
    async def scenario() -> None:
        crowd, one, other = Peer(), Peer(), Peer()
        peers = [Peer() for _ in range(BOUND // 8 // MODEST_BYTES)]
        memory = memory_of(crowd, one, other, *peers)
        memory.count(crowd, BOUND)
        memory.count(one, MODEST_BYTES)
        assert memory.full
        memory.count(other, MODEST_BYTES + 1)
        assert [memory.may_read(peer) for peer in (crowd, one, other)] == [False, True, False]
        memory.count(other, -MODEST_BYTES - 1)
        assert not memory.may_read(other), "it would fill what is kept for others, bit by bit"
        for peer in peers:
            assert memory.may_read(peer), "just inside"
            memory.count(peer, MODEST_BYTES)
        assert not any(map(memory.may_read, peers))
        other.claimed = True
        assert memory.may_read(other)
        memory.count(crowd, -BOUND // 2)
        assert memory.may_read(one)
        memory.close()

    asyncio.run(scenario())


def test_a_bound_of_0_means_none() -> None:
    async def scenario() -> None:
        one = Peer()
        memory = memory_of(one, bound=-1)
        memory.count(one, 10 * BOUND)
        assert memory.claim(one, 10 * BOUND)
        assert not memory.full

    asyncio.run(scenario())


def test_queued_bytes_must_hold_the_longest_request() -> None:
    with pytest.raises(
        ConfigError, match=r"queued\.max\.request\.bytes must be greater than or equal"
    ):
        load("", [f"queued.max.request.bytes={100 * MIB - 1}"])
    load("", [f"queued.max.request.bytes={100 * MIB}"])
    load("", ["queued.max.request.bytes=-1"])
    load("", [f"socket.request.max.bytes={500 * MIB}"])


def test_unread_answers_are_bounded_together(tmp_path: Path) -> None:
    """Twenty that fetch all and read nothing: beyond a quarter of the room each gets no more
    than it has read before."""
    bound = 32 * MIB

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await filled(broker, port, 16)
        memory = broker.connections.answers
        slow = [await slow_connection(port) for _ in range(20)]
        for _, writer in slow:
            writer.write(frame(apis.FETCH, 13, whole_topic(topic_id)) * 3)
        fetches = broker.parts.meters.request("Fetch").seconds
        await until(lambda: fetches.count >= len(slow))
        assert memory.used <= bound
        assert fetches.count < 3 * len(slow), "nothing more is fetched for who has not read"
        assert await records_fetched(port, whole_topic(topic_id))
        for _, writer in slow:
            writer.close()
        await until(lambda: memory.used == 0)

    run(tmp_path, scenario, f"queued.max.response.bytes={bound}")


def test_the_slowest_reader_is_disconnected_when_memory_is_full(tmp_path: Path) -> None:
    bound = 6 * MIB

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await filled(broker, port, 16)
        slow = [await slow_connection(port) for _ in range(20)]
        for _, writer in slow:
            writer.write(frame(apis.FETCH, 13, whole_topic(topic_id)) * 10)
        dropped = ("connections_dropped", "response memory")
        await until(lambda: broker.parts.counters.statistics().get(dropped, 0) > 2)
        assert broker.connections.answers.used <= bound
        assert await records_fetched(port, whole_topic(topic_id))
        for _, writer in slow:
            writer.close()

    run(tmp_path, scenario, f"queued.max.response.bytes={bound}")


async def records_fetched(port: int, request: fetch.FetchRequest) -> int:
    """Bytes of records in the answer, on a connection of its own."""
    peer = await Greedy.connect(port, begun=True)
    peer.send(frame(apis.FETCH, 13, request))
    answer = await peer.answer()
    peer.close()
    _, at = response_body(apis.FETCH, 13, answer)
    response = decode(fetch.FetchResponse, 13, answer, at)
    return len(response.responses[0].partitions[0].records or b"")


async def filled(broker: Broker, port: int, batches: int) -> Any:
    """A topic with so many batches of 900 kB."""
    topic_id = await topic_with_records(broker, port, 1)
    connection = await connect(port)
    batch = encode_batch([(b"k", bytes(900_000))], timestamp_ms=0)
    for _ in range(batches):
        assert await produce(connection, topic_id, batch) == 0
    connection.close()
    return topic_id


def test_a_peer_that_does_not_read_gets_smaller_answers() -> None:
    bound = 40 * MIB
    memory = AnswerMemory(lambda: bound, Counters(lambda: 0))
    fresh, reader = Peer(), Peer(read=12 * MIB)
    assert memory.allowance(fresh) == bound // 4
    memory.falls_behind(Peer(unread=bound // 4))
    assert memory.allowance(fresh) == ANSWER_BYTES_MIN
    assert memory.allowance(reader) == 12 * MIB
    memory.falls_behind(Peer(unread=bound // 2))
    assert memory.allowance(reader) == bound // 4, "and no more than there is room"


def test_the_slowest_reader_is_found_by_its_rate() -> None:
    async def scenario() -> None:
        memory = AnswerMemory(lambda: 10 * MIB, Counters(lambda: 0))
        reads = Peer(unread=5 * MIB, read=MIB)
        hangs, hangs_less = Peer(unread=4 * MIB), Peer(unread=2 * MIB)
        for peer in (reads, hangs, hangs_less):
            memory.falls_behind(peer)
        memory.check()
        assert (hangs.aborted, hangs_less.aborted, reads.aborted) == (True, False, False)

    asyncio.run(scenario())


def test_a_fetch_with_a_lowered_limit_does_not_wait_for_more(tmp_path: Path) -> None:
    """min_bytes over what there is room for would otherwise wait to its end."""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await filled(broker, port, 4)
        part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=64 * MIB)
        topic = fetch.FetchTopic(topic_id=topic_id, partitions=[part])
        request = fetch.FetchRequest(
            max_wait_ms=600_000, min_bytes=3 * MIB, max_bytes=64 * MIB, topics=[topic]
        )
        assert await records_fetched(port, request)

    run(tmp_path, scenario, f"queued.max.response.bytes={4 * MIB}")
