"""A member of a share group that only speaks the wire protocol.

For measurements of a single request and its answer, which the buffers, retries and threads of a
client would disturb. One topic, one node, one connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID, uuid4

from sharegroup.client.network.connection import Connection
from sharegroup.model.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    error_from_code,
)
from sharegroup.wire import apis
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from sharegroup.wire.messages.share_fetch import ShareFetchableTopicResponse
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.servers.share_session import ACCEPT as ACCEPT
from tests.servers.share_session import RELEASE as RELEASE
from tests.servers.share_session import Session

TIMEOUT_MS = 60_000
JOIN_SECONDS = 60
COORDINATOR_IS_COMING = {
    error.code for error in (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)
}
GROUP = 0  # a key type of FindCoordinator
RECORD_LIMIT = 1


class Held(NamedTuple):
    """A range of records that this member has acquired."""

    partition: int
    first: int
    last: int
    delivery_count: int


class WireMember:
    """Made by :meth:`join`."""

    def __init__(self, connection: Connection, group: str, topic_id: UUID, partitions: int) -> None:
        self._connection = connection
        self._group = group
        self._member = str(uuid4())
        self.topic_id = topic_id
        self._partitions = partitions
        self._session = Session(connection, topic_id, self._member, group)

    @classmethod
    async def join(cls, bootstrap: str, group: str, topic: str) -> WireMember:
        """Join, and return when the group has assigned a partition to this member."""
        host, port = bootstrap.split(":")
        connection = await Connection.open(
            host, int(port), client_id="bench", timeout_ms=TIMEOUT_MS
        )
        found = await connection.send(
            apis.METADATA,
            MetadataRequest(topics=[MetadataRequestTopic(name=topic)]),
            timeout_ms=TIMEOUT_MS,
        )
        about = found.topics[0]
        member = cls(connection, group, about.topic_id, len(about.partitions))
        async with asyncio.timeout(JOIN_SECONDS):
            await until_coordinated(connection, group)
            await member._until_assigned(topic)
        return member

    async def _until_assigned(self, topic: str) -> None:
        epoch, names = 0, [topic]
        while True:
            answer = await self._connection.send(
                apis.SHARE_GROUP_HEARTBEAT,
                ShareGroupHeartbeatRequest(
                    group_id=self._group,
                    member_id=self._member,
                    member_epoch=epoch,
                    subscribed_topic_names=names,
                ),
                timeout_ms=TIMEOUT_MS,
            )
            if answer.error_code not in COORDINATOR_IS_COMING:
                _check(answer.error_code)
                epoch = answer.member_epoch
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    return
            await asyncio.sleep(0.05)

    async def fetch(self, max_records: int, *, wait_ms: int, exactly: bool = False) -> list[Held]:
        """Acquire from all partitions; empty if nothing came within `wait_ms`."""
        answer = await self._session.fetch(
            *(range(self._partitions) if self._session.epoch == 0 else ()),
            max_wait_ms=wait_ms,
            max_bytes=50 << 20,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=RECORD_LIMIT if exactly else 0,
        )
        _check(answer.error_code)
        return list(_held(answer.responses))

    async def acknowledge(self, held: Sequence[Held], kind: int) -> None:
        """Send one ShareAcknowledge for these ranges and wait for the answer."""
        by_partition: dict[int, list[tuple[int, int, list[int]]]] = {}
        for one in held:
            by_partition.setdefault(one.partition, []).append((one.first, one.last, [kind]))
        answer = await self._session.acknowledge(by_partition)
        _check(answer.error_code)
        for topic in answer.responses:
            for partition in topic.partitions:
                _check(partition.error_code)

    def die(self) -> None:
        """Cut the connection without leaving the group."""
        self._connection.close()


async def until_coordinated(connection: Connection, group: str) -> None:
    """Wait for the group's coordinator: Kafka creates `__consumer_offsets` at the first request."""
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group])
    while True:
        answer = await connection.send(apis.FIND_COORDINATOR, request, timeout_ms=TIMEOUT_MS)
        code = answer.coordinators[0].error_code
        if code not in COORDINATOR_IS_COMING:
            return _check(code)
        await asyncio.sleep(0.05)


def records(held: Iterable[Held]) -> int:
    """How many records these ranges hold."""
    return sum(one.last - one.first + 1 for one in held)


def _held(topics: Iterable[ShareFetchableTopicResponse]) -> Iterable[Held]:
    for topic in topics:
        for part in topic.partitions:
            _check(part.error_code)
            for got in part.acquired_records:
                yield Held(
                    part.partition_index, got.first_offset, got.last_offset, got.delivery_count
                )


def _check(code: int) -> None:
    if code:
        raise error_from_code(code)
