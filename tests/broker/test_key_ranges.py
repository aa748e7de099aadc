"""Fetch with key ranges over real sockets: what is answered, how far it says it came, who waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from sharegroup.broker.server import Broker
from sharegroup.client.network.connection import Connection
from sharegroup.cooperative.hash_split import HASH_MAX
from sharegroup.model.limits import KEY_RANGES_MAX
from sharegroup.model.log import ReadBatches
from sharegroup.records.key_hashes import hash_of_key, hash_of_offset
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.markers import MarkerType, aborted_ranges
from sharegroup.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from sharegroup.wire.messages.ranges import Range
from tests.broker.running import run
from tests.broker.share_wire import TIMEOUT_MS, TOPIC, connect, new_topic, until
from tests.broker.test_read_committed import Transaction
from tests.records.making import written

LONG_MS = 20_000
HALF = HASH_MAX // 2
LOW, HIGH = ((0, HALF),), ((HALF + 1, HASH_MAX),)
NOT_ALLOWED, INVALID = 10089, 42
KEYS = [None if n % 5 == 0 else b"customer-%d" % n for n in range(200)]
Row = tuple[int, bytes | None]


class Reader:
    """Fetches partition 0 by hand."""

    def __init__(self, connection: Connection, topic_id: UUID, topic: str = TOPIC) -> None:
        self._connection = connection
        self._topic_id = topic_id
        self._topic = topic

    async def send(
        self,
        ranges: Sequence[tuple[int, int]],
        offset: int = 0,
        *,
        wait_ms: int = 0,
        bytes_max: int = 1 << 20,
        committed: bool = False,
        session: tuple[int, int] = (0, -1),
        named: bool = True,
    ) -> FetchResponse:
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=bytes_max)
        part.key_ranges = [Range(*each) for each in ranges]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            isolation_level=int(committed),
            session_id=session[0],
            session_epoch=session[1],
            topics=[FetchTopic(self._topic, self._topic_id, [part])] if named else [],
        )
        return await self._connection.send(apis.FETCH, request, timeout_ms=TIMEOUT_MS)

    async def fetch(self, *arguments: Any, **options: Any) -> PartitionData:
        answer = await self.send(*arguments, **options)
        return answer.responses[0].partitions[0]


async def reader(broker: Broker, port: int, **configs: str) -> Reader:
    """A topic that may be fetched by ranges, and a connection."""
    topic_id = await new_topic(broker, port, 1)
    configs = {"accept_range_fetch": "true", **configs}
    own = {name.replace("_", "."): value for name, value in configs.items()}
    broker.parts.configs.set_topic(TOPIC, own, validate_only=False)
    return Reader(await connect(port), topic_id)


async def write(broker: Broker, keys: Sequence[bytes | None]) -> None:
    log = broker.parts.topics.log(TOPIC, 0)
    batch = encode_batch([(key, b"value") for key in keys], timestamp_ms=5)
    await log.wait_durable((await log.append(batch)).last_offset + 1)


def rows(part: PartitionData) -> list[Row]:
    """By aiokafka's reader, as a stock client would read the answer."""
    found: list[Row] = []
    batches = MemoryRecords(bytes(part.records or b""))
    while (batch := batches.next_batch()) is not None:
        assert isinstance(batch, DefaultRecordBatch)
        assert batch.validate_crc()
        if not batch.is_control_batch:
            found += [(one.offset, one.key) for one in batch]
    return found


def inside(ranges: Sequence[tuple[int, int]], keys: Sequence[bytes | None]) -> list[Row]:
    hashes = [
        hash_of_offset(at) if key is None else hash_of_key(key) for at, key in enumerate(keys)
    ]
    return [
        (at, key)
        for at, key in enumerate(keys)
        if any(first <= hashes[at] <= last for first, last in ranges)
    ]


def key_in(ranges: Sequence[tuple[int, int]]) -> bytes:
    return next(key for _, key in inside(ranges, KEYS) if key is not None)


def test_records_of_the_ranges_and_how_far_it_came(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        wire = await reader(broker, port)
        for at in range(0, 200, 20):
            await write(broker, KEYS[at : at + 20])
        for ranges in (LOW, HIGH, (*LOW, *HIGH), ((5, 5),), ((0, 10), (HALF, HASH_MAX))):
            part = await wire.fetch(ranges)
            assert (part.error_code, part.read_up_to) == (0, 200)
            assert rows(part) == inside(ranges, KEYS)
        plain = await wire.fetch(())
        assert (plain.read_up_to, len(rows(plain))) == (-1, 200)
        assert len(broker.parts.range_reading.index) == 10

    run(tmp_path, scenario)


def test_the_answer_s_bytes_are_counted(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        wire = await reader(broker, port)
        for at in range(0, 200, 20):
            await write(broker, KEYS[at : at + 20])
        found: list[Row] = []
        at, fetches = 0, 0
        while at < 200:
            part = await wire.fetch(LOW, at, bytes_max=700)
            assert 0 < len(part.records or b"") <= 700
            assert part.read_up_to > at
            at, fetches = part.read_up_to, fetches + 1
            found += rows(part)
        assert found == inside(LOW, KEYS)
        assert 3 < fetches <= 10, "whole batches of about ten records"

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("ranges", "code"),
    [
        ([(0, 0)], 0),
        ([(HASH_MAX, HASH_MAX)], 0),
        ([(-1, 5)], INVALID),
        ([(6, 5)], INVALID),
        ([(0, 1), (7, -1)], INVALID),
        ([(at, at) for at in range(KEY_RANGES_MAX)], 0),
        ([(at, at) for at in range(KEY_RANGES_MAX + 1)], INVALID),
    ],
)
def test_malformed_ranges(tmp_path: Path, ranges: list[tuple[int, int]], code: int) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        wire = await reader(broker, port)
        await write(broker, KEYS)
        assert (await wire.fetch(ranges)).error_code == code

    run(tmp_path, scenario)


def test_a_topic_that_does_not_allow_it(tmp_path: Path) -> None:
    """KIP-X's test plan: topic restriction. A plain fetch goes on; the switch holds at once."""

    async def scenario(broker: Broker, port: int) -> None:
        wire = await reader(broker, port)
        await write(broker, KEYS)
        broker.parts.configs.set_topic(TOPIC, {}, validate_only=False)
        part = await wire.fetch(LOW)
        assert (part.error_code, part.records, part.read_up_to) == (NOT_ALLOWED, b"", -1)
        assert (await wire.fetch(())).error_code == 0
        allowed = {"accept.range.fetch": "true"}
        broker.parts.configs.set_topic(TOPIC, allowed, validate_only=False)
        assert (await wire.fetch(LOW)).error_code == 0

    run(tmp_path, scenario)


def test_a_waiting_fetch_sleeps_through_what_is_not_its_own(tmp_path: Path) -> None:
    """It answers once, with the record of its range; and none of the others is looked at twice."""

    async def scenario(broker: Broker, port: int) -> None:
        wire = await reader(broker, port)
        other = key_in(HIGH)
        log = broker.parts.topics.log(TOPIC, 0)
        waiting = asyncio.ensure_future(wire.fetch(LOW, wait_ms=LONG_MS))
        await until(lambda: len(broker.parts.waiters) > 0)
        begins: list[int] = []
        read = log.read

        async def noted(offset: int, *arguments: Any, **options: Any) -> ReadBatches:
            begins.append(offset)
            return await read(offset, *arguments, **options)

        log.read = noted  # type: ignore[method-assign]
        for n in range(30):
            await write(broker, [other])
            await until(lambda n=n: len(begins) > n)
        assert not waiting.done()
        assert begins == list(range(30))
        await write(broker, [key_in(LOW)])
        part = await waiting
        assert rows(part) == [(30, key_in(LOW))]
        assert part.read_up_to == 31

    run(tmp_path, scenario)


def test_a_fetch_that_found_nothing_says_how_far_it_came(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        wire = await reader(broker, port)
        await write(broker, [key_in(HIGH)] * 50)
        part = await wire.fetch(LOW, wait_ms=100)
        assert (part.records, part.read_up_to, part.error_code) == (b"", 50, 0)
        assert (await wire.fetch(LOW, 50, wait_ms=1)).read_up_to == 50

    run(tmp_path, scenario)


def test_no_more_than_so_many_bytes_are_looked_at(tmp_path: Path) -> None:
    """A long way without a match is answered in steps, though the fetch might wait."""

    async def scenario(broker: Broker, port: int) -> None:
        wire = await reader(broker, port)
        for _ in range(10):
            await write(broker, [key_in(HIGH)] * 10)
        await write(broker, [key_in(LOW)])
        steps = []
        at = 0
        while at < 101:
            part = await wire.fetch(LOW, at, wait_ms=LONG_MS)
            assert part.read_up_to > at
            at = part.read_up_to
            steps.append(at)
        assert steps == [20, 40, 60, 80, 100, 101]
        assert rows(part) == [(100, key_in(LOW))]

    size = len(encode_batch([(key_in(HIGH), b"value")] * 10, timestamp_ms=5))
    run(tmp_path, scenario, f"max.bytes.fetcher.filtering={size + 1}")


def test_a_session_keeps_the_ranges(tmp_path: Path) -> None:
    """KIP-227: a partition that is not named again keeps its ranges; naming it changes them."""

    async def scenario(broker: Broker, port: int) -> None:
        wire = await reader(broker, port)
        await write(broker, KEYS)
        first = await wire.send(LOW, session=(0, 0))
        assert rows(first.responses[0].partitions[0]) == inside(LOW, KEYS)
        number = first.session_id
        again = await wire.send((), session=(number, 1), named=False)
        assert rows(again.responses[0].partitions[0]) == inside(LOW, KEYS)
        other = await wire.send(HIGH, session=(number, 2))
        assert rows(other.responses[0].partitions[0]) == inside(HIGH, KEYS)
        whole = await wire.send((), session=(number, 3))
        assert len(rows(whole.responses[0].partitions[0])) == 200
        nothing = await wire.send(((5, 5),), session=(number, 4))
        assert nothing.responses[0].partitions[0].read_up_to == 200, "the move is told"
        assert not (await wire.send(((5, 5),), 200, session=(number, 5))).responses

    run(tmp_path, scenario)


def test_aborted_records_and_markers(tmp_path: Path) -> None:
    """The records of aborted transactions and the markers that end them are as in a plain fetch."""

    async def scenario(broker: Broker, port: int) -> None:
        wire = await reader(broker, port)
        one, two = Transaction(broker, 1), Transaction(broker, 2)
        await one.write(20)  # 0-19 aborted
        await two.write(20)  # 20-39 committed
        await one.end(MarkerType.ABORT)  # 40
        await one.write(20)  # 41-60 committed
        await one.end(MarkerType.COMMIT)  # 61
        await two.end(MarkerType.COMMIT)  # 62
        await two.write(5)  # 63-67 open
        found = []
        for ranges in (LOW, HIGH):
            part = await wire.fetch(ranges, committed=True)
            assert part.read_up_to == 63
            markers = [(each.first, each.last) for each in part.without_records]
            assert markers == [(40, 40), (61, 62)]
            aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions]
            assert aborted == [(1, 0)]
            hidden = aborted_ranges(part.records, part.aborted_transactions)
            mine = [at for at, _ in rows(part)]
            found += [at for at in mine if not any(a <= at <= b for a, b in hidden)]
        assert sorted(found) == [*range(20, 40), *range(41, 61)]
        part = await wire.fetch(((5, 5),), committed=True)
        assert (part.records, part.read_up_to) == (b"", 63), "markers alone are left out"

    run(tmp_path, scenario)


def test_the_feature_is_announced(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        assert connection.features["cooperative.consumption"] == (0, 3)

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("records", "codec", "aside"), [(20, 0, False), (2_000, 0, True), (20, 1, True)]
)
def test_only_small_plain_reads_are_filtered_on_the_loop_s_thread(
    tmp_path: Path, records: int, codec: int, aside: bool
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        wire = await reader(broker, port)
        log = broker.parts.topics.log(TOPIC, 0)
        await log.append(written([(b"k", b"value", 5, [])] * records, codec))
        await log.wait_durable(records)
        index = broker.parts.range_reading.index
        threads = []
        keep = index.keep

        def noted(*arguments: Any, **options: Any) -> None:
            threads.append(threading.current_thread() is threading.main_thread())
            keep(*arguments, **options)

        index.keep = noted  # type: ignore[method-assign]
        part = await wire.fetch((*LOW, (HALF + 1, HASH_MAX - 1)))
        assert len(rows(part)) == records
        assert threads == [not aside]

    run(tmp_path, scenario)
