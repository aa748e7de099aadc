"""Bad input gets the protocol's error or a closed connection; nobody else is disturbed."""

from __future__ import annotations

import asyncio
import errno
import struct
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from sharegroup.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.by_hand import (
    GROUP,
    TIMEOUT_MS,
    Member,
    connect,
    produce,
    topic_with_records,
)
from tests.broker.running import run
from tests.storage.faulty_disk import FaultyDisk


async def answer_to(port: int, sent: bytes) -> bytes:
    """All that comes back until the broker closes, or the first frame."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        head = await reader.readexactly(4)
        return await reader.readexactly(struct.unpack(">i", head)[0])
    except asyncio.IncompleteReadError as end:
        return end.partial
    finally:
        writer.close()


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(struct.pack(">i", 2**31 - 1) + b"x", id="frame over the limit"),
        pytest.param(struct.pack(">i", -5), id="negative frame length"),
        pytest.param(framed(b""), id="empty frame"),
        pytest.param(framed(b"\0\x12"), id="frame shorter than a header"),
        pytest.param(framed(struct.pack(">hhih", 999, 0, 7, -1)), id="unknown API"),
        pytest.param(framed(struct.pack(">hhih", 0, 99, 7, -1)), id="version not served"),
        pytest.param(framed(struct.pack(">hhih", 3, 0, 7, 5000)), id="client id past the end"),
        pytest.param(framed(struct.pack(">hhih", 78, 2, 7, -1) + b"\0\x05ab"), id="cut message"),
        pytest.param(
            framed(struct.pack(">hhih", 3, 1, 7, -1) + b"\x7f\xff\xff\xff"), id="huge array"
        ),
    ],
)
def test_an_invalid_message_closes_only_its_connection(tmp_path: Path, sent: bytes) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        other = await connect(port)
        assert await answer_to(port, sent) == b""
        assert broker.parts.counters.statistics()["malformed_requests", ""] == 1
        topic_id = await topic_with_records(broker, port, 1)
        assert await produce(other, topic_id, encode_batch([(None, b"v")], timestamp_ms=0)) == 0
        other.close()

    run(tmp_path, scenario)


def test_a_newer_api_versions_is_answered_with_our_versions(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        answer = await answer_to(port, framed(struct.pack(">hhih", 18, 99, 7, -1) + b"\0"))
        correlation_id, error_code, count = struct.unpack_from(">ihi", answer)
        assert (correlation_id, error_code) == (7, errors.UnsupportedVersion.code)
        assert count > 10

    run(tmp_path, scenario)


def test_answers_come_in_the_order_of_the_requests(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        member = await Member.join(port, "slow")
        assert await member.fetch(topic_id) == [(0, 0, 1)]
        waiting = asyncio.ensure_future(member.fetch(topic_id, wait_ms=300))
        await asyncio.sleep(0)
        later = asyncio.ensure_future(
            member.send(apis.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest(GROUP, "slow", 2))
        )
        done, _ = await asyncio.wait({waiting, later}, return_when=asyncio.FIRST_COMPLETED)
        assert waiting in done
        await later

    run(tmp_path, scenario)


def test_bad_batches_are_refused_and_the_log_is_as_before(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 3)
        connection = await connect(port)
        good = encode_batch([(b"k", b"v" * 50)], timestamp_ms=0)
        flipped = bytearray(good)
        flipped[-1] ^= 0x40
        assert await produce(connection, topic_id, bytes(flipped)) == errors.CorruptMessage.code
        assert await produce(connection, topic_id, good[:-3]) == errors.CorruptMessage.code
        assert await produce(connection, topic_id, b"") == errors.InvalidRequest.code
        huge = encode_batch([(None, b"x" * 1_100_000)], timestamp_ms=0)
        assert await produce(connection, topic_id, huge) == errors.MessageTooLarge.code
        unknown = errors.UnknownTopicOrPartition.code
        assert await produce(connection, topic_id, good, partition=9) == unknown
        assert broker.parts.topics.log("jobs", 0).log_end_offset == 3
        assert await produce(connection, topic_id, good) == 0

    run(tmp_path, scenario)


def test_share_sessions_refuse_wrong_epochs(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 3)
        member = await Member.join(port, "first")
        topics = [FetchTopic(topic_id, [FetchPartition(0)])]

        async def fetch(epoch: int, member_id: str = "first") -> int:
            request = ShareFetchRequest(
                GROUP, member_id, epoch, 0, 1, 1 << 20, 10, 10, topics=topics
            )
            response = await member.connection.send(
                apis.SHARE_FETCH, request, timeout_ms=TIMEOUT_MS
            )
            code: int = response.error_code
            return code

        async def acknowledge(epoch: int) -> int:
            request = ShareAcknowledgeRequest(GROUP, "first", epoch)
            response = await member.connection.send(
                apis.SHARE_ACKNOWLEDGE, request, timeout_ms=TIMEOUT_MS
            )
            code: int = response.error_code
            return code

        assert await fetch(1) == errors.ShareSessionNotFound.code
        assert await fetch(0) == 0
        assert await fetch(2) == errors.InvalidShareSessionEpoch.code
        assert await acknowledge(0) == errors.InvalidShareSessionEpoch.code
        assert await fetch(1) == 0
        assert await acknowledge(2) == 0
        assert await fetch(1) == errors.InvalidShareSessionEpoch.code
        assert await acknowledge(-1) == 0
        assert await acknowledge(3) == errors.ShareSessionNotFound.code
        assert await fetch(0, member_id="") == errors.InvalidRequest.code

    run(tmp_path, scenario)


def test_acknowledging_records_that_are_not_held_is_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 10)
        first, second = await Member.join(port, "first"), await Member.join(port, "second")
        assert await first.fetch(topic_id) == [(0, 9, 1)]
        assert await second.fetch(topic_id) == []
        refused = errors.InvalidRecordState.code
        assert await second.acknowledge(topic_id, 0, 3, kind=1) == refused
        assert await first.acknowledge(topic_id, 20, 30, kind=1) == errors.InvalidRequest.code
        assert await first.acknowledge(topic_id, 5, 3, kind=1) == errors.InvalidRequest.code
        assert await first.acknowledge(topic_id, 0, 3, kind=9) == errors.InvalidRequest.code
        assert await first.acknowledge(topic_id, 0, 3, kind=4) == errors.InvalidRequest.code
        assert await first.acknowledge(UUID(int=5), 0, 3, kind=1) == errors.UnknownTopicId.code
        assert await first.acknowledge(topic_id, 0, 9, kind=1) == 0

    run(tmp_path, scenario)


def test_a_dropped_connection_releases_its_records_at_once(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 4)
        first, second = await Member.join(port, "first"), await Member.join(port, "second")
        assert await first.fetch(topic_id) == [(0, 3, 1)]
        assert await second.fetch(topic_id) == []
        first.connection.close()
        assert await second.fetch(topic_id, wait_ms=20_000) == [(0, 3, 2)]

    run(tmp_path, scenario)


def test_a_full_disk_refuses_and_nothing_else_breaks(tmp_path: Path) -> None:
    disk = FaultyDisk()

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 4)
        member = await Member.join(port, "first")
        assert await member.fetch(topic_id) == [(0, 3, 1)]
        producer = await connect(port)
        batch = encode_batch([(None, b"v")], timestamp_ms=0)
        disk.append_errno = errno.ENOSPC
        assert await produce(producer, topic_id, batch) == errors.KafkaStorageError.code
        refused = await member.acknowledge(topic_id, 0, 3, kind=1)
        assert refused == errors.CoordinatorNotAvailable.code
        disk.append_errno = 0
        assert await produce(producer, topic_id, batch) == 0
        # The share partition was loaded again: nothing was accepted, nothing was lost.
        assert await member.fetch(topic_id, wait_ms=60_000) == [(0, 4, 1)]
        assert await member.acknowledge(topic_id, 0, 4, kind=1) == 0
        assert await member.fetch(topic_id) == []

    run(tmp_path, scenario, disk=disk)
