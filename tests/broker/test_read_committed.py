"""What readers of committed records see while transactions begin, go on and end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.server import Broker
from sharegroup.wire import apis
from sharegroup.wire.batch import TRANSACTIONAL, batch_bounds, encode_batch
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.markers import MarkerType, encode_marker
from sharegroup.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    TIMEOUT_MS,
    TOPIC,
    Session,
    acquired,
    codes,
    parts,
    produce,
    started,
)

LONG_MS = 20_000
COMMITTED = 1
LATEST, FIRST = -1, 0
VERSION = 16


class Transaction:
    """A producer's transaction in partition 0, written as a coordinator would have it written."""

    def __init__(self, broker: Broker, producer_id: int) -> None:
        self._log = broker.topics.log(TOPIC, 0)
        self._producer_id = producer_id
        self._sequence = 0

    async def write(self, *records: int) -> None:
        """A batch for each."""
        for count in records:
            batch = encode_batch(
                [(None, b"v" * 40)] * count,
                timestamp_ms=1000,
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=self._sequence,
                attributes=TRANSACTIONAL,
            )
            self._sequence += count
            await self._append(batch)

    async def end(self, marker: MarkerType) -> None:
        await self._append(
            encode_marker(
                marker, producer_id=self._producer_id, producer_epoch=0, timestamp_ms=1000
            )
        )

    async def _append(self, batch: bytes) -> None:
        await self._log.wait_durable(self._log.append_trusted(batch).last_offset + 1)


async def committed_group(broker: Broker, port: int) -> Session:
    configs = {"share_isolation_level": "read_committed"}
    return await started(broker, port, partitions=1, **configs)


def test_an_open_transaction_holds_a_share_group_back(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await committed_group(broker, port)
        one, two = Transaction(broker, 1), Transaction(broker, 2)
        await produce(port, session.topic_id, 0, 2)
        await one.write(3)
        await two.write(1)
        assert acquired(await session.fetch(0)) == {0: [(0, 1, 1)]}
        waiting = asyncio.ensure_future(session.fetch(max_wait_ms=LONG_MS))
        await two.end(MarkerType.COMMIT)  # 6: still behind the other one
        await one.end(MarkerType.COMMIT)  # 7
        # Markers are given too: the client reports them as gaps.
        assert acquired(await waiting) == {0: [(2, 7, 1)]}
        accepted = [ACCEPT] * 6 + [0, 0]
        assert codes(await session.acknowledge({0: [(0, 7, accepted)]})) == {0: 0}

    run(tmp_path, scenario)


def test_aborted_records_are_not_delivered(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await committed_group(broker, port)
        one, two = Transaction(broker, 1), Transaction(broker, 2)
        await one.write(2)  # 0-1 aborted
        await two.write(3)  # 2-4 committed
        await one.write(1)  # 5 aborted
        await one.end(MarkerType.ABORT)  # 6
        await two.end(MarkerType.COMMIT)  # 7
        assert acquired(await session.fetch(0)) == {0: [(2, 4, 1), (6, 7, 1)]}
        done = {0: [(2, 4, [ACCEPT]), (6, 7, [0])]}
        assert codes(await session.acknowledge(done)) == {0: 0}
        await produce(port, session.topic_id, 0, 1)
        assert acquired(await session.fetch()) == {0: [(8, 8, 1)]}

    run(tmp_path, scenario)


def test_a_long_aborted_transaction_is_skipped_in_one_fetch(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await committed_group(broker, port)
        aborted = Transaction(broker, 1)
        await aborted.write(*[50] * 40)
        await aborted.end(MarkerType.ABORT)
        await produce(port, session.topic_id, 0, 3)
        # Each read takes about 10,000 bytes, a tenth of what is void.
        got = await session.fetch(0, max_bytes=10_000, max_records=10, max_wait_ms=LONG_MS)
        assert acquired(got) == {0: [(2000, 2003, 1)]}

    run(tmp_path, scenario)


def test_the_level_is_read_at_each_fetch(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await committed_group(broker, port)
        await Transaction(broker, 1).write(3)
        assert acquired(await session.fetch(0)) == {}
        level = {"share.isolation.level": "read_uncommitted"}
        broker.configs.set_group(session.group, level, validate_only=False)
        assert acquired(await session.fetch()) == {0: [(0, 2, 1)]}

    run(tmp_path, scenario)


async def fetch(port: int, topic_id: UUID, isolation: int, **limits: int) -> Any:
    """Partition 0's part of a plain Fetch, which our client does not speak."""
    wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_max_bytes=1 << 20)])
    request = FetchRequest(isolation_level=isolation, topics=[wanted], **limits)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.writelines(request_frame(apis.FETCH, VERSION, 7, "plain", request))
    size = int.from_bytes(await reader.readexactly(4), "big")
    frame = await reader.readexactly(size)
    writer.close()
    _, body = response_body(apis.FETCH, VERSION, frame)
    return decode(apis.FETCH.response, VERSION, frame, body).responses[0].partitions[0]


async def list_offset(session: Session, isolation: int, timestamp: int) -> int:
    part = ListOffsetsPartition(0, -1, timestamp)
    request = ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(TOPIC, [part])])
    answer = await session.connection.send(apis.LIST_OFFSETS, request, timeout_ms=TIMEOUT_MS)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


@pytest.mark.parametrize("isolation", [0, COMMITTED])
def test_plain_readers(tmp_path: Path, isolation: int) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1)
        one, two = Transaction(broker, 1), Transaction(broker, 2)
        await one.write(2)  # 0-1
        await one.end(MarkerType.ABORT)  # 2
        await two.write(3)  # 3-5, open
        part = await fetch(port, session.topic_id, isolation)
        assert (part.high_watermark, part.last_stable_offset) == (6, 3)
        bounds = batch_bounds(part.records)
        if isolation == COMMITTED:
            assert bounds == [(0, 1), (2, 2)]
            aborted = part.aborted_transactions
            assert [(each.producer_id, each.first_offset) for each in aborted] == [(1, 0)]
        else:
            assert bounds == [(0, 1), (2, 2), (3, 5)]
            assert part.aborted_transactions is None
        end = 3 if isolation == COMMITTED else 6
        assert await list_offset(session, isolation, LATEST) == end
        assert await list_offset(session, isolation, FIRST) == 0

    run(tmp_path, scenario)


def test_a_plain_committed_reader_waits_for_the_marker(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1)
        transaction = Transaction(broker, 1)
        await transaction.write(3)
        assert (await fetch(port, session.topic_id, COMMITTED)).records == b""
        assert await list_offset(session, COMMITTED, FIRST) == -1
        limits = {"max_wait_ms": LONG_MS, "min_bytes": 1}
        waiting = asyncio.ensure_future(fetch(port, session.topic_id, COMMITTED, **limits))
        await transaction.end(MarkerType.COMMIT)
        part = await waiting
        assert batch_bounds(part.records) == [(0, 2), (3, 3)]
        assert part.aborted_transactions == []

    run(tmp_path, scenario)


def test_a_group_that_reads_everything_gets_aborted_records_too(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1)
        transaction = Transaction(broker, 1)
        await transaction.write(2)
        await transaction.end(MarkerType.ABORT)
        response = await session.fetch(0)
        assert acquired(response) == {0: [(0, 2, 1)]}
        assert batch_bounds(parts(response)[0].records) == [(0, 1), (2, 2)]

    run(tmp_path, scenario)


def test_the_brokers_limit_holds_for_a_plain_fetch(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1)
        await produce(port, session.topic_id, 0, *[1] * 20, size=1000)
        part = await fetch(port, session.topic_id, 0, max_bytes=1 << 20)
        assert 3000 < len(part.records) <= 5000

    run(tmp_path, scenario, "fetch.max.bytes=5000")
