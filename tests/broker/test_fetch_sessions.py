"""Incremental fetch sessions: the rules of KIP-227, alone and over the wire."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.broker import fetch_sessions
from sharegroup.broker.fetch_sessions import EVICTION_MS, FetchSessions, Told, next_epoch
from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.model.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from sharegroup.model.limits import STEP_REQUESTS
from sharegroup.wire import apis
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tests.apache_kafka.tools import run_tool
from tests.broker.greedy import Greedy, metadata
from tests.broker.running import run
from tests.broker.share_wire import TOPIC, new_topic, produce, until

VERSION = 17
ID = UUID(int=5)
NOT_FOUND, BAD_EPOCH = 70, 71


def request(
    session_id: int, epoch: int, *partitions: int, forget: tuple[int, ...] = (), offset: int = 0
) -> FetchRequest:
    wanted = [FetchPartition(number, -1, offset, -1, -1, 1 << 20) for number in partitions]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic("", ID, wanted)] if wanted else [],
        forgotten_topics_data=[ForgottenTopic("", ID, list(forget))] if forget else [],
    )


def sessions(slots: int = 3) -> FetchSessions:
    numbers = count(1)
    return FetchSessions(slots, lambda: next(numbers))


def answered(
    held: FetchSessions, asked: FetchRequest, now_ms: int = 0, **data: Any
) -> tuple[Told, list[int]]:
    """(what is told, the partitions that were read); ``data`` is what every partition has."""
    fetching = held.begin(asked, VERSION, now_ms)
    numbers = [part.partition for _, part in fetching.wanted]
    found = [PartitionData(number, **data) for number in numbers]
    told = held.end(asked, VERSION, fetching, found, now_ms)
    held.check_invariants()
    return told, numbers


def test_a_session_from_its_beginning_to_its_end() -> None:
    held = sessions()
    assert answered(held, request(0, 0, 1, 2), high_watermark=5) == (Told([0, 1], 1), [1, 2])
    assert answered(held, request(1, 1), high_watermark=5) == (Told([], 1), [1, 2])
    told, read = answered(held, request(1, 2, 3, forget=(1,)), high_watermark=5)
    assert (told, read) == (Told([1], 1), [2, 3])
    assert answered(held, request(1, 3), high_watermark=6)[0] == Told([0, 1], 1)
    with_records = {"high_watermark": 6, "records": b"x"}
    assert answered(held, request(1, 4), **with_records)[0] == Told([0, 1], 1)
    failing = {"error_code": 3, "high_watermark": -1}
    for epoch in (5, 6):  # an error is told each time
        assert answered(held, request(1, epoch), **failing)[0] == Told([0, 1], 1)
    assert answered(held, request(1, 7), high_watermark=6)[0] == Told([0, 1], 1)
    assert answered(held, request(1, -1))[0] == Told([], 0)
    assert len(held) == 0


def test_requests_that_do_not_fit() -> None:
    held = sessions()
    answered(held, request(0, 0, 1))
    for session_id, epoch, version, error in (
        (9, 1, VERSION, FetchSessionIdNotFound),
        (1, 2, VERSION, InvalidFetchSessionEpoch),
        (1, 1, 12, FetchSessionTopicIdError),
    ):
        with pytest.raises(error):
            held.begin(request(session_id, epoch), version, 0)
    first = held.begin(request(1, 1), VERSION, 0)
    answered(held, request(1, 2))
    with pytest.raises(InvalidFetchSessionEpoch):  # the later one came while it waited
        held.end(request(1, 1), VERSION, first, [PartitionData(1)], 0)
    assert next_epoch(2**31 - 1) == 1


def test_a_session_without_partitions_ends() -> None:
    held = sessions()
    assert answered(held, request(0, 0))[0].session_id == 0
    answered(held, request(0, 0, 1))
    assert answered(held, request(1, 1, forget=(1,))) == (Told([], 0), [])
    assert len(held) == 0


def test_who_is_evicted() -> None:
    held = sessions(2)
    small = answered(held, request(0, 0, 1))[0].session_id
    large = answered(held, request(0, 0, 1, 2))[0].session_id
    assert answered(held, request(0, 0, 1, 2, 3), EVICTION_MS)[0].session_id == 0
    answered(held, request(small, 1), EVICTION_MS + 1)
    answered(held, request(large, 1), EVICTION_MS + 1)
    assert answered(held, request(0, 0, 1), EVICTION_MS + 1)[0].session_id == 0
    assert answered(held, request(0, 0, 1, 2), EVICTION_MS + 1)[0].session_id > 0  # small goes
    with pytest.raises(FetchSessionIdNotFound):
        held.begin(request(small, 2), VERSION, EVICTION_MS + 1)
    idle = 2 * EVICTION_MS + 2
    assert answered(held, request(0, 0, 1), idle)[0].session_id > 0  # large goes: it was idle
    with pytest.raises(FetchSessionIdNotFound):
        held.begin(request(large, 2), VERSION, idle)
    assert held.evicted == 2
    assert answered(sessions(0), request(0, 0, 1))[0].session_id == 0


def test_the_bound_of_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "FETCH_SESSION_PARTITIONS_MAX", 3)
    held = sessions()
    assert answered(held, request(0, 0, 1, 2, 3, 4))[0] == Told([0, 1, 2, 3], 0)
    first = answered(held, request(0, 0, 1, 2, 3))[0].session_id
    assert first > 0
    assert answered(held, request(0, 0, 1))[0].session_id == 0
    with pytest.raises(FetchSessionIdNotFound):  # its consumer begins anew
        held.begin(request(first, 1, 4), VERSION, 0)
    held.check_invariants()
    assert len(held) == 0


STEPS = st.lists(
    st.tuples(
        st.sets(st.integers(0, 4)),
        st.sets(st.integers(0, 4)),
        st.dictionaries(st.integers(0, 4), st.integers(1, 3)),
        st.sampled_from(["next", "next", "next", "next", "full", "lost"]),
    ),
    max_size=20,
)


@given(STEPS)
def test_a_consumer_knows_all_that_a_full_fetch_would_say(
    steps: list[tuple[set[int], set[int], dict[int, int], str]],
) -> None:
    held, now_ms = sessions(2), 0
    marks = dict.fromkeys(range(5), 0)
    mine: set[int] = set()
    known: dict[int, int] = {}
    session_id, epoch = 0, 0
    for add, forget, grow, kind in steps:
        for number, more in grow.items():
            marks[number] += more
        forget = forget & mine - add
        mine = (mine | add) - forget
        if kind == "lost":  # an answer that never came: the consumer begins anew
            session_id, epoch = (session_id, 0) if session_id else (0, 0)
        if kind == "full" or not session_id:
            epoch = 0
        asked = request(session_id, epoch, *sorted(add if epoch else mine), forget=tuple(forget))
        fetching = held.begin(asked, VERSION, now_ms)
        assert {part.partition for _, part in fetching.wanted} == mine
        found = [
            PartitionData(part.partition, high_watermark=marks[part.partition])
            for _, part in fetching.wanted
        ]
        told = held.end(asked, VERSION, fetching, found, now_ms)
        held.check_invariants()
        for at in told.indexes:
            known[found[at].partition_index] = found[at].high_watermark
        session_id = told.session_id
        epoch = next_epoch(epoch) if session_id else 0
        assert {number: known[number] for number in mine} == {n: marks[n] for n in mine}


async def send(reader: Any, writer: Any, asked: FetchRequest) -> Any:
    writer.writelines(request_frame(apis.FETCH, VERSION, 7, "plain", asked))
    size = int.from_bytes(await reader.readexactly(4), "big")
    frame = await reader.readexactly(size)
    _, body = response_body(apis.FETCH, VERSION, frame)
    return decode(apis.FETCH.response, VERSION, frame, body)


def test_over_the_wire(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await new_topic(broker, port, 2)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        def of(session_id: int, epoch: int, *offsets: int) -> FetchRequest:
            parts = [
                FetchPartition(number, 0, offset, -1, -1, 1 << 20)
                for number, offset in enumerate(offsets)
            ]
            topics = [FetchTopic("", topic_id, parts)] if parts else []
            return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics)

        first = await send(reader, writer, of(0, 0, 0, 0))
        assert first.session_id > 0
        assert len(first.responses[0].partitions) == 2
        told = (await MetricsReader(broker.parts).text())[0].decode()
        assert "\nsharegroup_fetch_sessions 1.0\n" in told
        assert "\nsharegroup_fetch_session_partitions 2.0\n" in told
        assert "\nsharegroup_fetch_sessions_evicted_total 0.0\n" in told
        await produce(port, topic_id, 1, 3)
        second = await send(reader, writer, of(first.session_id, 1))
        [part] = second.responses[0].partitions
        assert (part.partition_index, part.high_watermark) == (1, 3)
        third = await send(reader, writer, of(first.session_id, 2, 0, 3))
        assert (third.error_code, third.session_id, third.responses) == (0, first.session_id, [])
        again = await send(reader, writer, of(first.session_id, 2))
        assert (again.error_code, again.session_id) == (BAD_EPOCH, 0)
        unknown = await send(reader, writer, of(first.session_id ^ 1, 1))
        assert (unknown.error_code, unknown.session_id) == (NOT_FOUND, 0)
        await send(reader, writer, of(first.session_id, -1))
        assert len(broker.parts.fetch_sessions) == 0
        writer.close()

    run(tmp_path, scenario)


PIPELINED = 400
CHANGED = 300


def test_an_ever_changing_session_does_not_starve_a_neighbour(tmp_path: Path) -> None:
    """One client sends hundreds of requests at once, each of which adds and forgets hundreds of
    partitions of its session: a neighbour's requests are answered after a few of them each."""

    def changing(session_id: int, epoch: int) -> bytes:
        added = range(CHANGED * (epoch % 2), CHANGED * (epoch % 2 + 1))
        gone = tuple(range(CHANGED - added[0], 2 * CHANGED - added[0]))
        asked = request(session_id, epoch, *added, forget=gone)
        asked.max_wait_ms = 0
        return b"".join(request_frame(apis.FETCH, VERSION, epoch, "greedy", asked))

    async def scenario(broker: Broker, port: int) -> None:
        greedy, neighbour = await Greedy.connect(port), await Greedy.connect(port, begun=True)
        begins = request(0, 0, *range(CHANGED))
        begins.max_wait_ms = 0
        greedy.send(b"".join(request_frame(apis.FETCH, VERSION, 0, "greedy", begins)))
        frame = await greedy.answer()
        first = decode(
            apis.FETCH.response, VERSION, frame, response_body(apis.FETCH, VERSION, frame)[1]
        )
        fetches = broker.parts.meters.request("Fetch").seconds
        greedy.send(b"".join(changing(first.session_id, at) for at in range(1, PIPELINED + 1)))
        reading = asyncio.ensure_future(_numbers(greedy, PIPELINED))
        await until(lambda: fetches.count > 10)
        asked = 0
        while fetches.count < PIPELINED // 2:
            before = fetches.count
            neighbour.send(metadata())
            await neighbour.answer()
            assert fetches.count - before <= 2 * STEP_REQUESTS
            asked += 1
        assert asked >= PIPELINED // 2 // (2 * STEP_REQUESTS)
        assert await reading == list(range(1, PIPELINED + 1)), "and its answers are in order"
        assert broker.parts.fetch_sessions.partition_count() <= 2 * CHANGED
        greedy.close()
        neighbour.close()

    run(tmp_path, scenario)


async def _numbers(peer: Greedy, answers: int) -> list[int]:
    """The correlation ids of so many answers."""
    return [int.from_bytes((await peer.answer())[:4], "big") for _ in range(answers)]


@pytest.mark.kafka
def test_javas_consumer_uses_one(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await new_topic(broker, port, 3)
        for partition in range(3):
            await produce(port, topic_id, partition, *[100] * 5)
        printed = await asyncio.to_thread(
            run_tool,
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", f"127.0.0.1:{port}", "--topic", TOPIC),
            *("--partition", "1", "--offset", "earliest", "--max-messages", "500"),
        )
        assert printed.count("v" * 10) == 500
        assert broker.parts.fetch_sessions.created > 0
        assert len(broker.parts.fetch_sessions) == 0  # it ends its session when it closes

    run(tmp_path, scenario)
