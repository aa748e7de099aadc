"""A connection that sends much is no obstacle to one that sends little."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from sharegroup.broker.network.request_scheduler import COMPANY_S, RequestScheduler
from sharegroup.broker.server import Broker
from sharegroup.model.limits import (
    OPEN_BYTES_MAX,
    OPEN_REQUESTS_MAX,
    STEP_REQUESTS,
    STEP_REQUESTS_ALONE,
    TURN_BYTES,
    TURN_REQUESTS,
)
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import response_body
from sharegroup.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sharegroup.wire.messages.metadata import MetadataRequest
from sharegroup.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.by_hand import TIMEOUT_MS, connect, topic_with_records
from tests.broker.greedy import Greedy, frame, metadata
from tests.broker.running import run
from tests.broker.share_wire import until


class Player:
    """Has so many requests to start, each of which counts for ``size``."""

    def __init__(self, name: str, left: int, started: list[str], size: int = 1) -> None:
        self.name, self.left, self.started, self.size = name, left, started, size

    @property
    def wants_turn(self) -> bool:
        return self.left > 0

    def take_turn(self) -> int:
        self.left -= 1
        self.started.append(self.name)
        return self.size


def test_a_lone_request_is_started_at_once_and_a_greedy_one_in_steps() -> None:
    async def scenario() -> None:
        started: list[str] = []
        turns = RequestScheduler()
        turns.enter(Player("greedy", 1_000, started))
        assert len(started) == TURN_REQUESTS, "no more in the step in which it came"
        turns.enter(Player("late", 1, started))
        assert started[-1] == "late", "who comes late has its turn in the same step"
        await asyncio.sleep(0)
        assert len(started) == 2 * TURN_REQUESTS + 1

    asyncio.run(scenario())


def test_what_waits_for_those_in_line_comes_after_each_of_them_had_a_turn() -> None:
    async def scenario() -> None:
        started: list[str] = []
        turns = RequestScheduler()
        turns.after_those_in_line(lambda: started.append("nobody"))
        await until(lambda: bool(started))
        many = [Player(f"p{number}", 5, started) for number in range(10 * STEP_REQUESTS)]
        for player in many:
            turns.enter(player)
        turns.after_those_in_line(lambda: started.append("after"))
        await until(lambda: "after" in started)
        before = started[: started.index("after")]
        assert {player.name for player in many} <= {*before}
        assert any(player.left for player in many), "not after all that they have"

    asyncio.run(scenario())


def test_a_single_connection_gets_larger_steps() -> None:
    async def scenario() -> None:
        started: list[str] = []
        turns = RequestScheduler()
        turns.enter(Player("alone", 1_000_000, started))
        steps: set[int] = set()
        async with asyncio.timeout(240):
            while STEP_REQUESTS_ALONE not in steps:
                before = len(started)
                await asyncio.sleep(0)
                steps.add(len(started) - before)
        assert steps == {TURN_REQUESTS, STEP_REQUESTS_ALONE}
        turns.enter(Player("late", 1, started))
        await asyncio.sleep(0)
        before = len(started)
        await asyncio.sleep(0)
        assert len(started) - before == TURN_REQUESTS, "there is company again"

    asyncio.run(scenario())


class SteadyLoop(asyncio.SelectorEventLoop):
    """Each look at its clock is a millisecond after the last, however busy the machine is."""

    looks = 0

    def time(self) -> float:
        self.looks += 1
        return self.looks / 1000


def test_a_constantly_busy_connection_counts_as_another_for_a_recurring_one() -> None:
    """The greedy one does not get in line anew: it is in it all the time."""

    async def scenario() -> None:
        started: list[str] = []
        turns = RequestScheduler()
        turns.enter(Player("greedy", 1_000_000, started))
        victim = Player("victim", 1, started)
        loop = asyncio.get_running_loop()
        until = loop.time() + 3 * COMPANY_S
        while loop.time() < until:
            victim.left = 1
            turns.enter(victim)
            before = len(started)
            await asyncio.sleep(0)
            assert len(started) - before <= STEP_REQUESTS

    with asyncio.Runner(loop_factory=SteadyLoop) as runner:
        runner.run(scenario())


def test_a_connection_that_waits_for_its_answer_is_company_however_long() -> None:
    """Its answer is ready between two steps of the other one's requests: they stay small."""

    async def scenario() -> None:
        started: list[str] = []
        turns = RequestScheduler()
        greedy, victim = Player("greedy", 1_000_000, started), Player("victim", 1, started)
        loop = asyncio.get_running_loop()
        answers = [loop.create_future() for _ in range(2)]
        waits = [
            asyncio.ensure_future(turns.owing(player, answer))
            for player, answer in zip((greedy, victim), answers, strict=True)
        ]
        turns.enter(greedy)
        turns.enter(victim)
        assert await largest_step(started, loop.time() + 5 * COMPANY_S) == TURN_REQUESTS
        answers[1].set_result(None)
        await waits[1]
        after = await largest_step(started, loop.time() + 5 * COMPANY_S)
        assert after == STEP_REQUESTS_ALONE, "and large again when it has gone"
        answers[0].set_result(None)
        await waits[0]

    with asyncio.Runner(loop_factory=SteadyLoop) as runner:
        runner.run(scenario())


async def largest_step(started: list[str], until_s: float) -> int:
    """The most requests that one step of the loop starts until then."""
    largest = 0
    while asyncio.get_running_loop().time() < until_s:
        before = len(started)
        await asyncio.sleep(0)
        largest = max(largest, len(started) - before)
    return largest


def test_turns_are_round_robin() -> None:
    async def scenario() -> None:
        started: list[str] = []
        turns = RequestScheduler()
        for name in "abcdefgh":
            turns.enter(Player(name, 100, started))
        while len(started) < 400:
            before = len(started)
            await asyncio.sleep(0)
            assert len(started) - before <= STEP_REQUESTS
        assert {started.count(name) for name in "abcdefgh"} <= set(range(46, 55))

    asyncio.run(scenario())


def test_a_large_request_is_a_turn_of_its_own() -> None:
    async def scenario() -> None:
        started: list[str] = []
        turns = RequestScheduler()
        turns.enter(Player("large", 10, started, size=TURN_REQUESTS))
        assert started == ["large"]
        await asyncio.sleep(0)
        assert started == ["large", "large"]

    asyncio.run(scenario())


@pytest.mark.parametrize("split", [1, 5, 6, 7])
def test_a_request_that_comes_in_pieces_is_answered(tmp_path: Path, split: int) -> None:
    """Also in pieces that end inside its length, or just behind it."""

    async def scenario(broker: Broker, port: int) -> None:
        peer = await Greedy.connect(port)
        sent = metadata(1) + metadata(2)
        first = len(metadata(1)) + split
        peer.send(sent[:first])
        await peer.answer()
        other = await connect(port)  # the broker has not lost itself in what is not there
        peer.send(sent[first:])
        assert (await peer.answer())[:4] == b"\0\0\0\2"
        other.close()
        peer.close()

    run(tmp_path, scenario)


def test_a_pipelining_connection_does_not_delay_others(tmp_path: Path) -> None:
    """The neighbour's requests are answered after few of the greedy one's, not after all."""
    pipelined, asked = 20_000, 20

    async def scenario(broker: Broker, port: int) -> None:
        greedy, neighbour = await Greedy.connect(port), await connect(port)
        greedy.send(metadata() * pipelined)
        reading = asyncio.ensure_future(read(greedy, pipelined))
        served = broker.parts.meters.request("Metadata").seconds
        await until(lambda: served.count > 50)
        before = served.count
        for _ in range(asked):
            await neighbour.send(apis.METADATA, MetadataRequest([]), timeout_ms=TIMEOUT_MS)
        assert served.count - before < asked * 150
        assert not reading.done()
        assert max(c.open_requests for c in broker.connections.all()) <= OPEN_REQUESTS_MAX
        await reading
        greedy.close()
        neighbour.close()

    run(tmp_path, scenario)


async def read(peer: Greedy, answers: int) -> None:
    for _ in range(answers):
        await peer.answer()


def produce_frame(topic_id: object, value: bytes, number: int) -> bytes:
    batch = encode_batch([(None, value)], timestamp_ms=0)
    data = TopicProduceData("jobs", topic_id, [PartitionProduceData(0, batch)])  # type: ignore[arg-type]
    return frame(apis.PRODUCE, 13, ProduceRequest(None, -1, 1000, [data]), number)


def test_pipelined_produce_requests_keep_their_order(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        peer = await Greedy.connect(port, begun=True)
        peer.send(b"".join(produce_frame(topic_id, b"v", number) for number in range(500)))
        for number in range(500):
            answer = await peer.answer()
            correlation_id, at = response_body(apis.PRODUCE, 13, answer)
            assert correlation_id == number
            response = decode(apis.PRODUCE.response, 13, answer, at)
            part = response.responses[0].partition_responses[0]  # type: ignore[attr-defined]
            assert part.base_offset == number + 1
        peer.close()

    run(tmp_path, scenario)


def test_large_requests_of_one_connection_are_open_a_few_at_a_time(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        peer = await Greedy.connect(port, begun=True)
        one = produce_frame(topic_id, bytes(900_000), 1)
        peer.send(one * 20)
        held: list[int] = []
        reading = asyncio.ensure_future(read(peer, 20))
        while not reading.done():
            held.append(broker.connections.requests.used)
            await asyncio.sleep(0)
        assert OPEN_BYTES_MAX // 2 < max(held) < OPEN_BYTES_MAX + 3 * len(one)
        assert broker.connections.requests.used == 0
        peer.close()

    run(tmp_path, scenario)


def test_a_waiting_fetch_delays_nothing(tmp_path: Path) -> None:
    """Nor do answers pile up behind it: those that must wait for it bound what is started."""
    topics = 400

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        part = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
        waiting = FetchRequest(
            max_wait_ms=600_000,
            min_bytes=1,
            topics=[FetchTopic(topic_id=topic_id, partitions=[part])],
        )
        peer = await Greedy.connect(port)
        peer.send(frame(apis.FETCH, 13, waiting, 0))
        peer.send(b"".join(produce_frame(topic_id, b"v", number) for number in range(1, topics)))
        assert (await peer.answer())[:4] == b"\0\0\0\0", "the produce behind it ends the wait"
        await read(peer, topics - 1)
        peer.close()

    run(tmp_path, scenario)


def test_the_turn_of_a_request_counts_its_bytes() -> None:
    assert 1 < TURN_REQUESTS < STEP_REQUESTS
    assert TURN_BYTES * TURN_REQUESTS <= 16 << 10, "a frame of acknowledgements fills its turn"


@pytest.mark.parametrize("cut", [1, 3, 6])
def test_a_connection_reads_more_when_all_its_requests_have_started(
    cut: int, tmp_path: Path
) -> None:
    """What came last is the beginning of a request: no answer is open when that is found out."""

    async def scenario(broker: Broker, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in (1, 5, OPEN_REQUESTS_MAX, 3 * OPEN_REQUESTS_MAX):
            frames = [struct.pack(">ihhih", 10, 18, 0, i, -1) for i in range(number + 1)]
            last = frames.pop()
            writer.write(b"".join(frames) + last[:cut])
            for _ in frames:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await reader.readexactly(size)
            writer.write(last[cut:])
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            answer = await reader.readexactly(size)
            assert struct.unpack_from(">i", answer) == (number,)
        writer.close()

    run(tmp_path, scenario)
