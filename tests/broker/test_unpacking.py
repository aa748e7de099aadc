"""Large compressed batches are looked into in a thread: one at a time, others go on meanwhile, and
batches of one partition stay in their order.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.delivery import unpacking
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.broker.server import Broker
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.limits import UNPACKED_ON_LOOP_BYTES_MAX
from sharegroup.records.walked_batches import walk_batches
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.by_hand import TIMEOUT_MS, connect, produce, topic_with_records
from tests.broker.running import run
from tests.records.bad import ZSTD, of, packed
from tests.records.making import batch_of, record, records

OTHER = TopicIdPartition(UUID(int=1), 0)


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
        return walk_batches(batches)


@pytest.mark.parametrize(("more", "in_thread"), [(0, 0), (1, 1)])
def test_the_bound_for_decompression_on_the_loop(
    more: int, in_thread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        gate = Gate(monkeypatch)
        gate.open.set()
        batch = unpacking_to(UNPACKED_ON_LOOP_BYTES_MAX + more)
        assert await Unpacking().walked(OTHER, batch) == batch
        assert len(gate.in_thread) == in_thread

    asyncio.run(scenario())


def test_many_small_batches_together_count_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        gate = Gate(monkeypatch)
        gate.open.set()
        half = unpacking_to(UNPACKED_ON_LOOP_BYTES_MAX // 2)
        await Unpacking().walked(OTHER, half * 2)
        assert gate.in_thread == []
        await Unpacking().walked(OTHER, batch_of(records(1), 1) + half * 3)
        assert len(gate.in_thread) == 1

    asyncio.run(scenario())


def test_other_requests_proceed_and_the_order_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two connections: the second's record for the same partition stands behind the large batch
    that came before it, and everything else is answered while that is looked into."""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        gate = Gate(monkeypatch)
        first, second, third = [await connect(port) for _ in range(3)]
        large = asyncio.create_task(produce(first, topic_id, unpacking_to(3_000_000)))
        await gate.reached.wait()
        small = encode_batch([(b"k", b"behind")], timestamp_ms=0)
        behind = asyncio.create_task(produce(second, topic_id, small))
        bombs = [
            asyncio.create_task(broker.parts.unpacking.walked(OTHER, unpacking_to(2_000_000)))
            for _ in range(5)
        ]
        try:
            request = CreateTopicsRequest([CreatableTopic("others", 1, -1)])
            created = await third.send(apis.CREATE_TOPICS, request, timeout_ms=TIMEOUT_MS)
            assert created.topics[0].error_code == 0
            data = TopicProduceData(
                "others", created.topics[0].topic_id, [PartitionProduceData(0, small)]
            )
            answer = await third.send(
                apis.PRODUCE, ProduceRequest(None, -1, 1000, [data]), timeout_ms=TIMEOUT_MS
            )
            assert answer.responses[0].partition_responses[0].error_code == 0
            assert not large.done()
            assert not behind.done()
        finally:
            gate.open.set()
        assert (await large, await behind) == (0, 0)
        await asyncio.gather(*bombs)
        assert gate.at_once_max == 1
        values = (await broker.parts.topics.log("jobs", 0).read(2, 1_000)).data
        assert b"behind" in bytes(values)

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
            await turns.walked(OTHER, bad)
        good = unpacking_to(1_000)
        assert await turns.walked(OTHER, good) == good
        assert len(gate.in_thread) == 1

    asyncio.run(scenario())
