"""A peer of a cluster that asks the share coordinator by hand (APIs 83-87)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from sharegroup.wire.messages import delete_share_group_state as delete
from sharegroup.wire.messages import initialize_share_group_state as initialize
from sharegroup.wire.messages import read_share_group_state as read
from sharegroup.wire.messages import read_share_group_state_summary as summary
from sharegroup.wire.messages import write_share_group_state as write
from tests.broker.by_hand import TIMEOUT_MS

Batch = tuple[int, int, int, int]


class Peer:
    """Another broker's persister, by hand; every call is about one share partition."""

    def __init__(self, connection: Connection, topic_id: UUID, group: str = "peers") -> None:
        self.connection = connection
        self.topic_id = topic_id
        self.group = group
        self.partition = 0
        """Where a call does not say another."""

    async def send(self, api: apis.Api, request: Any) -> Any:
        """The one result."""
        response = await self.connection.send(api, request, timeout_ms=TIMEOUT_MS)
        ((topic,),) = (response.results,)
        assert topic.topic_id == request.topics[0].topic_id
        (result,) = topic.partitions
        assert result.partition == request.topics[0].partitions[0].partition
        assert bool(result.error_message) == bool(result.error_code)
        return result

    def _of(self, partition: int | None) -> int:
        return self.partition if partition is None else partition

    async def initialize(
        self, *, epoch: int = 0, start: int = 0, partition: int | None = None
    ) -> int:
        asked = initialize.PartitionData(self._of(partition), epoch, start)
        topic = initialize.InitializeStateData(self.topic_id, [asked])
        request = initialize.InitializeShareGroupStateRequest(self.group, [topic])
        code: int = (await self.send(apis.INITIALIZE_SHARE_GROUP_STATE, request)).error_code
        return code

    async def read(self, *, leader: int = 0, partition: int | None = None) -> Any:
        topic = read.ReadStateData(self.topic_id, [read.PartitionData(self._of(partition), leader)])
        request = read.ReadShareGroupStateRequest(self.group, [topic])
        return await self.send(apis.READ_SHARE_GROUP_STATE, request)

    async def write(
        self,
        *batches: Batch,
        epoch: int = 0,
        leader: int = 0,
        start: int = -1,
        complete: int = -1,
        due_ms: int = -1,
        partition: int | None = None,
    ) -> int:
        own = [write.StateBatch(*batch, due_ms) for batch in batches]
        asked = write.PartitionData(self._of(partition), epoch, leader, start, complete, own)
        topic = write.WriteStateData(self.topic_id, [asked])
        request = write.WriteShareGroupStateRequest(self.group, [topic])
        code: int = (await self.send(apis.WRITE_SHARE_GROUP_STATE, request)).error_code
        return code

    async def delete(self, *, partition: int | None = None) -> int:
        topic = delete.DeleteStateData(self.topic_id, [delete.PartitionData(self._of(partition))])
        request = delete.DeleteShareGroupStateRequest(self.group, [topic])
        code: int = (await self.send(apis.DELETE_SHARE_GROUP_STATE, request)).error_code
        return code

    async def summary(self, *, partition: int | None = None) -> tuple[int, ...]:
        """(error code, state epoch, leader epoch, start offset, delivery complete count)"""
        asked = summary.PartitionData(self._of(partition), 0)
        topic = summary.ReadStateSummaryData(self.topic_id, [asked])
        request = summary.ReadShareGroupStateSummaryRequest(self.group, [topic])
        found = await self.send(apis.READ_SHARE_GROUP_STATE_SUMMARY, request)
        return (
            found.error_code,
            found.state_epoch,
            found.leader_epoch,
            found.start_offset,
            found.delivery_complete_count,
        )


def quads(batches: Sequence[Any]) -> list[Batch]:
    return [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in batches]
