"""The ground moves under records in flight and waiting fetches: topics deleted and made again, the
log start moved, delivery state changed by an admin. Nothing hangs, nothing is delivered twice in
one go, and what can be delivered is.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey
from sharegroup.wire import apis
from sharegroup.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sharegroup.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    RELEASE,
    TIMEOUT_MS,
    TOPIC,
    Session,
    acquired,
    codes,
    connect,
    new_group,
    new_topic,
    parts,
    produce,
    started,
)

LONG_MS = 20_000
GONE = {errors.UnknownTopicId.code, errors.UnknownTopicOrPartition.code}


async def ask(port: int, api: apis.Api, request: Any) -> Any:
    connection = await connect(port)
    try:
        return await connection.send(api, request, timeout_ms=TIMEOUT_MS)
    finally:
        connection.close()


async def delete_topic(port: int) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)])
    response = await ask(port, apis.DELETE_TOPICS, request)
    assert response.responses[0].error_code == 0, response


async def delete_records(port: int, before_offset: int) -> None:
    part = DeleteRecordsPartition(0, before_offset)
    request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [part])], 1000)
    response = await ask(port, apis.DELETE_RECORDS, request)
    assert response.topics[0].partitions[0].error_code == 0, response


def share_key(session: Session) -> SharePartitionKey:
    return SharePartitionKey(GROUP, session.topic_id, 0)


def start_offset(broker: Broker, session: Session) -> int:
    led = broker.share_partitions.find(share_key(session))
    assert led is not None
    led.core.check_invariants()
    return led.core.start_offset


def test_a_topic_deleted_under_a_waiting_fetch_and_records_in_flight(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        waiting = asyncio.ensure_future(session.fetch(max_wait_ms=LONG_MS))
        await delete_topic(port)
        answered = codes(await waiting)
        assert answered.keys() == {0}
        assert set(answered.values()) <= GONE
        unknown = {0: errors.UnknownTopicId.code}
        assert codes(await session.acknowledge({0: [(0, 9, [ACCEPT])]})) == unknown
        assert codes(await session.fetch()) == unknown
        assert broker.share_partitions.find(share_key(session)) is None

    run(tmp_path, scenario)


def test_a_recreated_topic_is_another_topic(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        old_id = session.topic_id
        await delete_topic(port)
        session.topic_id = await new_topic(broker, port, partitions=1)
        assert session.topic_id != old_id
        await new_group(broker, port)
        await produce(port, session.topic_id, 0, 5)
        response = await session.fetch(0)
        by_id = {topic.topic_id: topic.partitions[0] for topic in response.responses}
        assert by_id[old_id].error_code == errors.UnknownTopicId.code
        ranges = by_id[session.topic_id].acquired_records
        assert [(r.first_offset, r.last_offset, r.delivery_count) for r in ranges] == [(0, 4, 1)]
        assert codes(await session.acknowledge({0: [(0, 4, [ACCEPT])]})) == {0: 0}
        assert start_offset(broker, session) == 5

    run(tmp_path, scenario)


def test_records_deleted_below_what_is_in_flight(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        await delete_records(port, 4)
        assert start_offset(broker, session) == 4
        # Those that have vanished are ignored with success, those that are left count.
        response = await session.acknowledge({0: [(0, 1, [ACCEPT]), (2, 6, [RELEASE])]})
        assert codes(response) == {0: 0}
        assert acquired(await session.fetch()) == {0: [(4, 6, 2)]}
        assert codes(await session.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: 0}
        assert start_offset(broker, session) == 10

    run(tmp_path, scenario)


def test_all_records_deleted_under_those_in_flight(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        waiting = asyncio.ensure_future(session.fetch(max_wait_ms=LONG_MS))
        await delete_records(port, -1)
        assert start_offset(broker, session) == 10
        await produce(port, session.topic_id, 0, 3)
        assert acquired(await waiting) == {0: [(10, 12, 1)]}
        assert codes(await session.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: 0}

    run(tmp_path, scenario)


def test_records_deleted_make_room_in_a_full_window(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, share_partition_max_record_locks="100")
        await produce(port, session.topic_id, 0, *[50] * 3)
        assert acquired(await session.fetch(0)) == {0: [(0, 99, 1)]}
        waiting = asyncio.ensure_future(session.fetch(max_wait_ms=LONG_MS))
        await delete_records(port, 50)
        assert acquired(await waiting) == {0: [(100, 149, 1)]}

    run(tmp_path, scenario)


def test_records_deleted_that_were_available_again(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        assert codes(await session.acknowledge({0: [(0, 9, [RELEASE])]})) == {0: 0}
        await delete_records(port, 7)
        response = await session.fetch()
        assert acquired(response) == {0: [(7, 9, 2)]}

    run(tmp_path, scenario)


@pytest.mark.parametrize("noticed", ["told", "found by the next read"])
def test_retention_takes_segments_with_records_in_flight(tmp_path: Path, noticed: str) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1)
        configs = {"segment.bytes": "1048576", "retention.bytes": "1"}
        broker.configs.set_topic(TOPIC, configs, validate_only=False)
        await produce(port, session.topic_id, 0, *[1] * 8, size=300_000)  # three to a segment
        assert acquired(await session.fetch(0, max_bytes=1 << 30)) == {0: [(0, 2, 1)]}
        assert acquired(await session.fetch(max_bytes=1 << 30)) == {0: [(3, 5, 1)]}
        assert acquired(await session.fetch(max_bytes=1 << 30)) == {0: [(6, 7, 1)]}
        assert codes(await session.acknowledge({0: [(0, 7, [RELEASE])]})) == {0: 0}
        if noticed == "told":
            await broker._enforce_retention()
        else:
            broker.store.enforce_retention(broker.clock.wall_ms())
        log = broker.topics.log(TOPIC, 0)
        assert log.log_start_offset == 6
        assert acquired(await session.fetch(max_wait_ms=LONG_MS)) == {0: [(6, 7, 2)]}
        assert start_offset(broker, session) == 6

    run(tmp_path, scenario)


def test_forgetting_a_share_partition_reloads_it(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        assert codes(await session.acknowledge({0: [(0, 4, [ACCEPT])]})) == {0: 0}
        waiting = asyncio.ensure_future(session.fetch(max_wait_ms=LONG_MS))
        other = Session(await connect(port), session.topic_id, "m-2")
        await other.fetch(0)
        broker.share_partitions.forget(GROUP, session.topic_id, 0)
        # Its locks are gone, so the fetch that waits gets what was in flight, by the durable state.
        assert acquired(await waiting) == {0: [(5, 9, 1)]}
        again = await other.acknowledge({0: [(5, 9, [ACCEPT])]})
        assert codes(again) == {0: errors.InvalidRecordState.code}

    run(tmp_path, scenario)


def test_forgetting_while_it_is_loaded(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=10)
        key = share_key(session)
        log = broker.topics.log(TOPIC, 0)
        loading = asyncio.ensure_future(broker.share_partitions.get(key, log))
        await asyncio.sleep(0)
        broker.share_partitions.forget(GROUP, session.topic_id, 0)
        led = await loading
        assert not led.fenced
        assert broker.share_partitions.find(key) is led
        assert parts(await session.fetch(0))[0].acquired_records

    run(tmp_path, scenario)
