"""A full disk under the whole broker: errors that clients try again after, nothing half-made."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.server import Broker
from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sharegroup.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from sharegroup.wire.messages.metadata import MetadataRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.by_hand import GROUP, TIMEOUT_MS, Member, connect, produce, topic_with_records
from tests.broker.running import run
from tests.servers.sharegroup_server import SharegroupServer
from tests.storage.lacks import FullDisk

STORAGE, NOT_AVAILABLE, LOADING = 56, 15, 14
TOPIC, BROKER, GROUP_CONFIG = 2, 4, 32


class Client:
    """Asks for one thing each; the error codes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def _send(self, api: apis.Api, request: Any) -> Any:
        return await self._connection.send(api, request, timeout_ms=TIMEOUT_MS)

    async def producer_id(self) -> int:
        response = await self._send(apis.INIT_PRODUCER_ID, InitProducerIdRequest(None, 1000))
        return int(response.error_code)

    async def alter(self, kind: int, name: str, setting: str, value: str) -> int:
        resource = AlterConfigsResource(kind, name, [AlterableConfig(setting, 0, value)])
        response = await self._send(
            apis.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([resource])
        )
        return int(response.responses[0].error_code)

    async def create(self, name: str, partitions: int) -> int:
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)])
        return int((await self._send(apis.CREATE_TOPICS, request)).topics[0].error_code)

    async def grow(self, name: str, partitions: int) -> int:
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, partitions, None)], 1000)
        return int((await self._send(apis.CREATE_PARTITIONS, request)).results[0].error_code)

    async def delete(self, name: str) -> int:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name)])
        return int((await self._send(apis.DELETE_TOPICS, request)).responses[0].error_code)

    async def delete_records(self, name: str, before: int) -> int:
        topic = DeleteRecordsTopic(name, [DeleteRecordsPartition(0, before)])
        response = await self._send(apis.DELETE_RECORDS, DeleteRecordsRequest([topic], 1000))
        return int(response.topics[0].partitions[0].error_code)

    async def heartbeat(self, member_id: str, group: str = GROUP) -> int:
        request = ShareGroupHeartbeatRequest(group, member_id, 0, None, ["jobs"])
        return int((await self._send(apis.SHARE_GROUP_HEARTBEAT, request)).error_code)

    async def topics(self) -> list[str]:
        response = await self._send(apis.METADATA, MetadataRequest(None))
        return sorted(topic.name for topic in response.topics if not topic.is_internal)

    async def changes(self) -> dict[str, int]:
        """Everything that must write."""
        return {
            "producer id": await self.producer_id(),
            "group": await self.alter(GROUP_CONFIG, GROUP, "share.auto.offset.reset", "earliest"),
            "topic": await self.alter(TOPIC, "jobs", "retention.ms", "99999"),
            "broker": await self.alter(BROKER, "", "max.connections.per.ip", "99"),
            "create": await self.create("more", 3),
            "grow": await self.grow("jobs", 3),
        }


def failures(broker: Broker) -> list[str]:
    """APIs whose handler has failed, as no client may make it."""
    return [
        label for name, label in broker.parts.counters.statistics() if name == "handler_failures"
    ]


def test_every_write_on_a_full_disk_gets_a_retriable_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FullDisk()

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 10)
        member = await Member.join(port, "m1")
        assert await member.fetch(topic_id) == [(0, 9, 1)]
        connection = await connect(port)
        client = Client(connection)
        disk.full = True
        batch = encode_batch([(b"k", b"v")], timestamp_ms=0)
        for _ in range(2):  # the first ones may still find the room that is kept for deletions
            codes = await client.changes()
        assert set(codes.values()) == {STORAGE}, codes
        assert await produce(connection, topic_id, batch) == STORAGE
        assert await client.heartbeat("m2") in (NOT_AVAILABLE, LOADING)
        assert await client.heartbeat("m1", "another") in (NOT_AVAILABLE, LOADING)
        broker.parts.store.enforce_retention(broker.parts.clock.wall_ms())
        await broker._enforce_retention()
        assert await client.topics() == ["jobs"]
        disk.full = False
        codes = await client.changes()
        assert set(codes.values()) == {0}, codes
        assert await produce(connection, topic_id, batch) == 0
        assert await client.delete_records("jobs", 3) == 0
        assert await client.heartbeat("m1", "another") == 0
        assert all(log.failure is None for log in broker.parts.store.logs)
        assert failures(broker) == []

    run(tmp_path, scenario, disk=disk)
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_full_disk_gets_room_by_deletions(tmp_path: Path) -> None:
    disk = FullDisk()

    async def scenario(broker: Broker, port: int) -> None:
        await topic_with_records(broker, port, 10)
        client = Client(await connect(port))
        assert await client.create("old", 3) == 0
        disk.full = True
        assert await client.delete("old") == 0
        assert await client.topics() == ["jobs"]
        disk.full = False
        assert await client.create("old", 2) == 0
        disk.full = True
        assert await client.delete_records("jobs", 5) == 0
        disk.full = False
        assert failures(broker) == []

    run(tmp_path, scenario, disk=disk)


def test_an_internal_topic_is_created_when_there_is_room_again(tmp_path: Path) -> None:
    disk = FullDisk()

    async def scenario(broker: Broker, port: int) -> None:
        client = Client(await connect(port))
        assert await client.create("jobs", 1) == 0
        disk.full = True
        for _ in range(3):
            assert await client.heartbeat("m1") == NOT_AVAILABLE
        disk.full = False
        assert await client.heartbeat("m1") == 0
        assert failures(broker) == []

    run(tmp_path, scenario, disk=disk)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB, where the system lets us mount one."""
    path = tmp_path / "small"
    path.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    options = b"size=3m"
    if libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", 0, options) != 0:
        pytest.skip(f"no file system can be mounted: {os.strerror(ctypes.get_errno())}")
    yield path
    libc.umount2(os.fsencode(path), 2)


@pytest.mark.process
def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    async def main(server: SharegroupServer) -> None:
        connection = await connect(server.port)
        client = Client(connection)
        assert await client.create("jobs", 1) == 0
        assert await client.create("kept", 1) == 0
        response = await connection.send(
            apis.METADATA, MetadataRequest(None), timeout_ms=TIMEOUT_MS
        )
        ids = {topic.name: topic.topic_id for topic in response.topics}
        for size in (90_000, 9_000, 900, 90):
            batch = encode_batch([(b"k", bytes(size))], timestamp_ms=0)
            while (code := await produce(connection, ids["jobs"], batch)) == 0:
                continue
            assert code == STORAGE
        for _ in range(2):
            codes = await client.changes()
            assert set(codes.values()) <= {STORAGE, 0}, codes
        assert codes["create"] == codes["grow"] == STORAGE
        assert await client.topics() == ["jobs", "kept"]
        assert await client.delete("jobs") == 0
        assert await client.create("jobs", 2) == 0
        assert set((await client.changes()).values()) == {0}
        connection.close()

    with SharegroupServer(small_disk) as server:
        asyncio.run(main(server))  # as long as it takes: the test has its limit
        assert "Traceback" not in server.output()
