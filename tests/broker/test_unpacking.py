"""Large compressed batches are looked into in a thread: one at a time, others go on meanwhile, and
the batches of one connection stay in their order.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.delivery import unpacking
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.broker.handlers.log.produce import produce as handle_produce
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.server import Broker
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.limits import UNPACKED_ON_LOOP_BYTES_MAX
from sharegroup.records.message_ids import MESSAGE_ID
from sharegroup.records.walked_batches import walk_batches
from sharegroup.wire import apis
from sharegroup.wire.batch import decode_batch, encode_batch
from sharegroup.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.by_hand import TIMEOUT_MS, connect, produce, topic_with_records
from tests.broker.running import run
from tests.records.bad import ZSTD, of, packed
from tests.records.making import batch_of, record, records, written


def unpacking_to(size: int) -> bytes:
    """A good batch of one record, compressed, whose plain records have ``size`` bytes."""
    body = record(0, value=bytes(size - 100))
    body = record(0, value=bytes(size - 100 + size - len(body)))
    assert len(body) == size
    return of(ZSTD, packed(ZSTD, body), 1)


class Gate:
    """Holds the thread until it is opened; knows who was where."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.reached = asyncio.Event()
        self.in_thread: list[int] = []
        self.at_once = 0
        self.at_once_max = 0
        self._loop_thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        monkeypatch.setattr(unpacking, "walk_batches", self._walk)

    def _walk(self, batches: bytes, *bound: int, **more: Any) -> Any:
        if threading.get_ident() == self._loop_thread:
            return walk_batches(batches, *bound, **more)
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        self.in_thread.append(len(batches))
        self._loop.call_soon_threadsafe(self.reached.set)
        assert self.open.wait(120)
        self.at_once -= 1
        return walk_batches(batches, **more)


@pytest.mark.parametrize(("more", "in_thread"), [(0, 0), (1, 1)])
def test_the_bound_for_decompression_on_the_loop(
    more: int, in_thread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        gate = Gate(monkeypatch)
        gate.open.set()
        batch = unpacking_to(UNPACKED_ON_LOOP_BYTES_MAX + more)
        assert await Unpacking().walked(batch) == batch
        assert len(gate.in_thread) == in_thread

    asyncio.run(scenario())


def test_many_small_batches_together_count_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        gate = Gate(monkeypatch)
        gate.open.set()
        half = unpacking_to(UNPACKED_ON_LOOP_BYTES_MAX // 2)
        await Unpacking().walked(half * 2)
        assert gate.in_thread == []
        await Unpacking().walked(batch_of(records(1), 1) + half * 3)
        assert len(gate.in_thread) == 1

    asyncio.run(scenario())


def test_other_requests_proceed_and_the_order_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that comes on the same connection stands behind the large batch that came before
    it, and other connections are answered while that is looked into."""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        gate = Gate(monkeypatch)
        first, second = [await connect(port) for _ in range(2)]
        large = asyncio.create_task(produce(first, topic_id, unpacking_to(3_000_000)))
        await gate.reached.wait()
        small = encode_batch([(b"k", b"behind")], timestamp_ms=0)
        behind = asyncio.create_task(produce(first, topic_id, small))
        bombs = [
            asyncio.create_task(broker.parts.unpacking.walked(unpacking_to(2_000_000)))
            for _ in range(5)
        ]
        try:
            request = CreateTopicsRequest([CreatableTopic("others", 1, -1)])
            created = await second.send(apis.CREATE_TOPICS, request, timeout_ms=TIMEOUT_MS)
            assert created.topics[0].error_code == 0
            data = TopicProduceData(
                "others", created.topics[0].topic_id, [PartitionProduceData(0, small)]
            )
            answer = await second.send(
                apis.PRODUCE, ProduceRequest(None, -1, 1000, [data]), timeout_ms=TIMEOUT_MS
            )
            assert answer.responses[0].partition_responses[0].error_code == 0
            assert broker.parts.topics.log("jobs", 0).high_watermark == 1
        finally:
            gate.open.set()
        assert (await large, await behind) == (0, 0)
        await asyncio.gather(*bombs)
        assert gate.at_once_max == 1
        values = (await broker.parts.topics.log("jobs", 0).read(2, 1_000)).data
        assert b"behind" in bytes(values)

    run(tmp_path, scenario)


def to_jobs(topic_id: UUID, *batches: bytes, first: int = 0) -> ProduceRequest:
    """A request with one record set for each partition from ``first`` on."""
    data = [PartitionProduceData(index, each) for index, each in enumerate(batches, first)]
    return ProduceRequest(None, -1, 1000, [TopicProduceData("jobs", topic_id, data)])


async def make_jobs(port: int, partitions: int, **configs: str) -> UUID:
    settings = [CreatableTopicConfig(name.replace("_", "."), configs[name]) for name in configs]
    request = CreateTopicsRequest([CreatableTopic("jobs", partitions, -1, [], settings)])
    connection = await connect(port)
    created = await connection.send(apis.CREATE_TOPICS, request, timeout_ms=TIMEOUT_MS)
    topic_id: UUID = created.topics[0].topic_id
    return topic_id


async def values_of(broker: Broker, partition: int) -> list[bytes | None]:
    data = (await broker.parts.topics.log("jobs", partition).read(0, 10_000_000)).data
    return [value for _, _, _, value in decode_batch(bytes(data))]


def test_a_pipelined_request_does_not_overtake_the_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request waits for the thread with its batch of partition 0; that of partition 1
    goes before the second request's."""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await make_jobs(port, 3)
        gate = Gate(monkeypatch)
        pipe, other = await connect(port), await connect(port)
        small = [encode_batch([(None, b"%d" % at)], timestamp_ms=0) for at in range(3)]
        answers = [pipe.post(apis.PRODUCE, to_jobs(topic_id, unpacking_to(3_000_000), small[0]))]
        await gate.reached.wait()
        answers += [pipe.post(apis.PRODUCE, to_jobs(topic_id, one, first=1)) for one in small[1:]]
        try:
            assert await produce(other, topic_id, small[0], partition=2) == 0
            assert await values_of(broker, 1) == []
        finally:
            gate.open.set()
        for answer in await asyncio.gather(*answers):
            assert {p.error_code for p in answer.responses[0].partition_responses} == {0}
        assert await values_of(broker, 1) == [b"0", b"1", b"2"]
        assert len(broker.parts.unpacking.producing) == 0

    run(tmp_path, scenario)


def test_repeated_records_that_are_taken_out_in_the_thread_keep_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large batch goes to the thread twice where some of its records have been there; the request
    behind it waits for both."""

    def batch(*names: bytes, size: int = 1, codec: int = 0) -> bytes:
        return written([(None, name * size, 0, [(MESSAGE_ID, name)]) for name in names], codec)

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await make_jobs(port, 1, deduplication_window_ms="3600000")
        pipe, other = await connect(port), await connect(port)
        assert await produce(other, topic_id, batch(b"a")) == 0
        gate = Gate(monkeypatch)
        large = batch(b"a", b"b", size=UNPACKED_ON_LOOP_BYTES_MAX, codec=ZSTD)
        answers = [pipe.post(apis.PRODUCE, to_jobs(topic_id, large))]
        await gate.reached.wait()
        small = batch(b"c", codec=ZSTD)
        answers.append(pipe.post(apis.PRODUCE, to_jobs(topic_id, small)))
        try:
            assert await produce(other, topic_id, batch(b"d")) == 0
        finally:
            gate.open.set()
        await asyncio.gather(*answers)
        firsts = [value and value[:1] for value in await values_of(broker, 0)]
        assert firsts == [b"a", b"d", b"b", b"c"]

    run(tmp_path, scenario)


def test_a_cancelled_request_gives_up_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await make_jobs(port, 1)
        gate = Gate(monkeypatch)
        context = RequestContext(13, "", "", object(), Access(), ("", 0))
        small = [encode_batch([(None, b"%d" % at)], timestamp_ms=0) for at in range(2)]
        requests = [
            asyncio.create_task(handle_produce(broker.parts, to_jobs(topic_id, one), context))
            for one in (unpacking_to(3_000_000), *small)
        ]
        await gate.reached.wait()
        try:
            for cancelled in requests[:2]:
                cancelled.cancel()
            answer = await requests[2]
        finally:
            gate.open.set()
        assert answer is not None
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert await values_of(broker, 0) == [b"1"]
        assert len(broker.parts.unpacking.producing) == 0

    run(tmp_path, scenario)


def test_only_the_bad_batch_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        gate = Gate(monkeypatch)
        gate.open.set()
        turns = Unpacking()
        bad = of(ZSTD, packed(ZSTD, bytes(3_000_000)), 1)
        with pytest.raises(CorruptMessage):
            await turns.walked(bad)
        good = unpacking_to(1_000)
        assert await turns.walked(good) == good
        assert len(gate.in_thread) == 1

    asyncio.run(scenario())
