"""Share groups spoken to by hand, on virtual time: a wait of seconds passes at once."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from sharegroup.broker.configs.broker import load
from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.broker.server import Broker
from sharegroup.client.network.connection import Connection
from sharegroup.client.network.versions import CLIENT_VERSIONS
from sharegroup.sim import MemoryDisk, SimulatedLoop, simulated_environment
from sharegroup.sim.disk import MemoryFile
from sharegroup.wire import apis
from sharegroup.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from sharegroup.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest
from sharegroup.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from sharegroup.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sharegroup.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from sharegroup.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
)
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GROUP = "grp"
TIMEOUT_MS = 600_000

Assigned = dict[UUID, list[int]]


class _File(MemoryFile):
    """A file of :class:`FillingDisk`."""

    def __init__(self, inner: MemoryFile, disk: FillingDisk) -> None:
        super().__init__(inner.path, inner._content)
        self._disk = disk
        self._life = disk.life

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        if self._life != self._disk.life:
            raise OSError(errno.EIO, "whoever opened it is dead", self.path)
        if self._disk.full_for and self._disk.full_for in self.path:
            raise OSError(errno.ENOSPC, "no space", self.path)
        super().append(data)

    def sync(self, size: int | None = None) -> None:
        self._disk.synced.append(self.path)
        if self._life == self._disk.life:
            super().sync(size)


class FillingDisk(MemoryDisk):
    """Has no space for files whose path contains ``full_for``, while that is set. Files opened
    before a crash are of no use after it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.full_for = ""
        self.life = 0
        self.synced: list[str] = []
        """Paths of files in the order in which they were synced."""

    def open(self, path: str) -> MemoryFile:
        return _File(super().open(path), self)

    def crash(self) -> None:
        super().crash()
        self.life += 1


class World:
    """A disk, the broker on it, and one connection to it."""

    def __init__(self, disk: FillingDisk, options: Sequence[str]) -> None:
        self.disk = disk
        self.options = options
        self.broker: Broker
        self._brokers: list[Broker] = []
        self._connection: Connection

    async def start(self) -> None:
        # Each start has ids of its own: a topic must not get the id of one made before a crash.
        environment = simulated_environment(self.disk, seed=len(self._brokers))
        self.broker = await Broker.open(load("", self.options), environment, "data")
        self._brokers.append(self.broker)
        _, self._port = await self.broker.listen("127.0.0.1", 0)
        self._connection = await self.connect()

    async def connect(self, **versions: int) -> Connection:
        """A connection for any API served, with some in that version at most."""
        spoken = {
            served.api: (served.versions.first, versions.get(served.api.module, 999))
            for served in API_TABLE.values()
        }
        return await Connection.open(
            "127.0.0.1",
            self._port,
            client_id="client-id",
            timeout_ms=TIMEOUT_MS,
            versions={**CLIENT_VERSIONS, **spoken},
        )

    async def restart(self) -> None:
        """Stop in order, start again."""
        await self.broker.close()
        await self.start()

    async def crash(self) -> None:
        """Lose all that is not durable, start again."""
        self.disk.crash()
        await self.start()

    async def stop(self) -> None:
        for broker in self._brokers:
            await broker.close()

    async def send(self, api: apis.Api, request: Any) -> Any:
        return await self._connection.send(api, request, timeout_ms=TIMEOUT_MS)

    async def heartbeat(
        self, member: str, epoch: int, topics: Sequence[str] | None = None, group: str = GROUP
    ) -> Any:
        return await self.send(
            apis.SHARE_GROUP_HEARTBEAT,
            ShareGroupHeartbeatRequest(group, member, epoch, None, topics),
        )

    async def alone(self, member: str, epoch: int, topics: Sequence[str]) -> Any:
        """A heartbeat by a connection of the member's own, as members have."""
        connection = await self.connect()
        request = ShareGroupHeartbeatRequest(GROUP, member, epoch, None, topics)
        return await connection.send(apis.SHARE_GROUP_HEARTBEAT, request, timeout_ms=TIMEOUT_MS)

    async def create_topic(self, name: str, partitions: int) -> UUID:
        topic = CreatableTopic(name, partitions, -1)
        await self.send(apis.CREATE_TOPICS, CreateTopicsRequest([topic]))
        found = self.broker.parts.topics.find(name)
        assert found is not None
        return found.topic_id

    async def grow_topic(self, name: str, partitions: int) -> None:
        topic = CreatePartitionsTopic(name, partitions, None)
        await self.send(apis.CREATE_PARTITIONS, CreatePartitionsRequest([topic], 1000))

    async def delete_topic(self, name: str) -> None:
        topics = [DeleteTopicState(name=name)]
        await self.send(apis.DELETE_TOPICS, DeleteTopicsRequest(topics=topics, timeout_ms=1000))

    async def describe(self, group: str = GROUP, *, operations: bool = False) -> DescribedGroup:
        request = ShareGroupDescribeRequest([group], operations)
        (described,) = (await self.send(apis.SHARE_GROUP_DESCRIBE, request)).groups
        assert isinstance(described, DescribedGroup)
        return described

    async def offsets(self, group: str = GROUP) -> dict[tuple[str, int], tuple[int, int]]:
        """(start offset, lag) of every partition that the group has state of."""
        asked = DescribeShareGroupOffsetsRequestGroup(group, None)
        request = DescribeShareGroupOffsetsRequest([asked])
        (answer,) = (await self.send(apis.DESCRIBE_SHARE_GROUP_OFFSETS, request)).groups
        assert answer.error_code == 0
        return {
            (topic.topic_name, part.partition_index): (part.start_offset, part.lag)
            for topic in answer.topics
            for part in topic.partitions
        }

    async def alter(self, starts: dict[tuple[str, int], int], group: str = GROUP) -> Any:
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                name,
                [
                    AlterShareGroupOffsetsRequestPartition(partition, offset)
                    for (topic, partition), offset in starts.items()
                    if topic == name
                ],
            )
            for name in dict.fromkeys(topic for topic, _ in starts)
        ]
        request = AlterShareGroupOffsetsRequest(group, topics)
        return await self.send(apis.ALTER_SHARE_GROUP_OFFSETS, request)

    async def delete_offsets(self, *names: str, group: str = GROUP) -> Any:
        topics = [DeleteShareGroupOffsetsRequestTopic(name) for name in names]
        request = DeleteShareGroupOffsetsRequest(group, topics)
        return await self.send(apis.DELETE_SHARE_GROUP_OFFSETS, request)

    async def delete_groups(self, *groups: str) -> dict[str, int]:
        """The error code of each."""
        response = await self.send(apis.DELETE_GROUPS, DeleteGroupsRequest(groups))
        for result in response.results:
            assert bool(result.error_message) == bool(result.error_code)
        return {result.group_id: result.error_code for result in response.results}


Scenario = Callable[[World], Awaitable[None]]


def simulate(scenario: Scenario, *options: str) -> None:
    """Run ``scenario`` to its end, in virtual time."""

    async def main() -> None:
        world = World(FillingDisk(), options)
        await world.start()
        await scenario(world)
        world.broker.parts.groups.groups.check_invariants()
        world.broker.parts.consumer_groups.groups.check_invariants()
        world.broker.parts.classic_groups.groups.check_invariants()
        await world.stop()

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(main())


def assigned(response: Any) -> Assigned | None:
    """What the answer to a heartbeat assigns; None when it says "as you know it"."""
    assert response.error_code == 0, response
    if response.assignment is None:
        return None
    return {
        topic.topic_id: list(topic.partitions) for topic in response.assignment.topic_partitions
    }
