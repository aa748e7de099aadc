"""Committed offsets spoken to by hand, in any version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from sharegroup.broker.coordination.offset_coordinator import OffsetTransaction
from sharegroup.broker.coordination.transaction_writes import OffsetAdmission
from sharegroup.client.network.connection import Connection
from sharegroup.client.network.versions import CLIENT_VERSIONS
from sharegroup.wire import apis
from sharegroup.wire.messages import offset_commit as commit
from sharegroup.wire.messages import offset_delete as delete
from sharegroup.wire.messages import offset_fetch as fetch
from sharegroup.wire.messages import txn_offset_commit as txn
from tests.broker.group_wire import TIMEOUT_MS, World

Place = tuple[str, int]
LATEST = {
    apis.OFFSET_COMMIT: 10,
    apis.OFFSET_FETCH: 10,
    apis.OFFSET_DELETE: 0,
    apis.TXN_OFFSET_COMMIT: 6,
}
MADE_UP = UUID(int=404)
"""The id of topics that do not exist."""


class Target(NamedTuple):
    """The broker that is spoken to."""

    port: Callable[[], int]
    id_of: Callable[[str], UUID | None]


async def allow(transaction: OffsetTransaction, partition: int) -> None:
    """Take every transaction for open."""


class OffsetClient:
    """One group's client; each call has its own connection."""

    def __init__(self, target: World | Target, group: str = "readers", **versions: int) -> None:
        if isinstance(target, World):
            self.world = target
            self.target = Target(lambda: self.world._port, self._id_in_world)
        else:
            self.target = target
        self.group = group
        self.metadata: str | None = "here"
        self._versions = {api: versions.get(api.module, last) for api, last in LATEST.items()}

    async def send(self, api: apis.Api, request: Any) -> Any:
        version = self._versions[api]
        connection = await Connection.open(
            "127.0.0.1",
            self.target.port(),
            client_id="client-id",
            timeout_ms=TIMEOUT_MS,
            versions={**CLIENT_VERSIONS, api: (version, version)},
        )
        try:
            return await connection.send(api, request, timeout_ms=TIMEOUT_MS)
        finally:
            connection.close()

    async def commit(
        self,
        offsets: Mapping[Place, int],
        *,
        epoch: int = -1,
        member: str = "",
        retention_ms: int = -1,
    ) -> dict[Place, int]:
        """The error code of each partition."""
        topics = [
            commit.OffsetCommitRequestTopic(
                topic,
                self._id(topic),
                [
                    commit.OffsetCommitRequestPartition(at, offsets[topic, at], 5, self.metadata)
                    for at in partitions
                ],
            )
            for topic, partitions in by_topic(offsets).items()
        ]
        request = commit.OffsetCommitRequest(
            self.group, epoch, member, retention_time_ms=retention_ms, topics=topics
        )
        return self._codes(offsets, await self.send(apis.OFFSET_COMMIT, request))

    async def commit_in_transaction(
        self,
        offsets: Mapping[Place, int],
        producer: tuple[int, int] = (7, 0),
        *,
        epoch: int = -1,
        member: str = "",
    ) -> dict[Place, int]:
        """The error code of each partition. Whether there is such a transaction is not asked: the
        transaction coordinator has its own tests."""
        coordinator = self.world.broker.parts.offsets
        if isinstance(coordinator.check_transaction, OffsetAdmission):
            coordinator.check_transaction = allow
        topics = [
            txn.TxnOffsetCommitRequestTopic(
                topic,
                self._id(topic),
                [
                    txn.TxnOffsetCommitRequestPartition(at, offsets[topic, at], 5, self.metadata)
                    for at in partitions
                ],
            )
            for topic, partitions in by_topic(offsets).items()
        ]
        request = txn.TxnOffsetCommitRequest(
            "txn", self.group, *producer, epoch, member, topics=topics
        )
        return self._codes(offsets, await self.send(apis.TXN_OFFSET_COMMIT, request))

    async def end(self, *, committed: bool, producer: tuple[int, int] = (7, 0)) -> None:
        """What the transaction coordinator does at the end of a transaction."""
        offsets = self.world.broker.parts.offsets
        await offsets.complete_transaction(
            offsets.partition_of(self.group), *producer, committed=committed, coordinator_epoch=0
        )

    async def fetch(self, *places: Place, stable: bool = False) -> dict[Place, int]:
        """The offset of each partition, or of all; its error code below -1 (as -1 - code)."""
        answer = await self.answer(*places, stable=stable)
        names = {self._id(topic): topic for topic in ("jobs", "kept", "gone")}
        return {
            (
                topic.name or names[topic.topic_id],
                partition.partition_index,
            ): partition.committed_offset - partition.error_code
            for topic in answer.topics
            for partition in topic.partitions
        }

    async def answer(self, *places: Place, stable: bool = False) -> Any:
        """The answer for the group."""
        several = self._versions[apis.OFFSET_FETCH] >= 8
        wanted = by_topic(places)
        request = fetch.OffsetFetchRequest(self.group, require_stable=stable)
        if several:
            topics = [
                fetch.OffsetFetchRequestTopics(topic, self._id(topic), partitions)
                for topic, partitions in wanted.items()
            ]
            request.groups = [
                fetch.OffsetFetchRequestGroup(self.group, topics=topics if places else None)
            ]
        else:
            request.topics = (
                [
                    fetch.OffsetFetchRequestTopic(topic, partitions)
                    for topic, partitions in wanted.items()
                ]
                if places
                else None
            )
        response = await self.send(apis.OFFSET_FETCH, request)
        return response.groups[0] if several else response

    async def delete(self, *places: Place) -> dict[Place, int] | int:
        """The error code of each partition, or that of the group."""
        topics = [
            delete.OffsetDeleteRequestTopic(
                topic, [delete.OffsetDeleteRequestPartition(at) for at in partitions]
            )
            for topic, partitions in by_topic(places).items()
        ]
        response = await self.send(
            apis.OFFSET_DELETE, delete.OffsetDeleteRequest(self.group, topics)
        )
        if response.error_code:
            code: int = response.error_code
            return code
        return self._codes(places, response)

    def _codes(self, places: Any, response: Any) -> dict[Place, int]:
        names = iter(by_topic(list(places)))
        return {
            (name, partition.partition_index): partition.error_code
            for name, topic in zip(names, response.topics, strict=True)
            for partition in topic.partitions
        }

    def _id(self, topic: str) -> UUID:
        return self.target.id_of(topic) or MADE_UP

    def _id_in_world(self, topic: str) -> UUID | None:
        return self.world.broker.parts.topics.id_of(topic)


def by_topic(places: Sequence[Place] | Mapping[Place, int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found
