"""Requests to the leader of one partition of the cluster: append a batch as it is, read batches as
they are, offsets, deletion."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.versions import LAST_BY_NAME
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.records.batches import bounds_of
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sharegroup.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sharegroup.wire.schema import Message

ALL_IN_SYNC: Final = -1
EARLIEST: Final = -2
LATEST: Final = -1
LARGEST_TIMESTAMP: Final = -3
LARGEST_TIMESTAMP_SINCE: Final = 7
"""The version of ListOffsets. A broker that does not have it looks for a record of that time."""
COMMITTED: Final = 1
ANY_EPOCH: Final = -1


def whole_batches(data: bytes) -> bytes:
    """Without what follows the last whole batch: Apache Kafka ends an answer wherever it is full.

    Raises:
        CorruptMessage: a length that no batch can have.
    """
    return data[: sum(len(each.batch) for each in bounds_of(memoryview(data)))]


class RawLog:
    """See the module. Each call is one attempt: errors of the cluster are raised, and the leader is
    asked for anew after them. With an ``epoch`` only a leader of this epoch answers; others raise
    FencedLeaderEpoch or UnknownLeaderEpoch.

    Args:
        lane: requests on one lane are answered in order.
    """

    def __init__(self, cluster: Cluster, where: TopicPartition, lane: str) -> None:
        self.where = where
        self._cluster = cluster
        self._lane = lane

    async def append(self, batch: bytes, timeout_ms: int) -> int:
        """Append a batch, durably. Returns the offset of its first record.

        Raises:
            KafkaError: it may have been appended all the same.
        """
        topic = TopicProduceData(
            name=self.where.topic,
            partition_data=[PartitionProduceData(self.where.partition, batch)],
        )
        request = ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=timeout_ms, topic_data=[topic])
        response = await self._send(apis.PRODUCE, request, timeout_ms)
        answer = response.responses[0].partition_responses[0]
        await self._check(answer.error_code, getattr(answer, "error_message", None))
        return int(answer.base_offset)

    async def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        wait_ms: int = 0,
        isolation: int = 0,
        epoch: int = ANY_EPOCH,
    ) -> PartitionData:
        """Whole batches from the one that holds ``offset`` on; none if the log ends there.

        Raises:
            OffsetOutOfRange: ``offset`` lies before the log or behind it.
            OffsetNotAvailable: the cluster throttles this client; the time for which it does is
                over.
            KafkaError: the partition cannot be read now.
        """
        partition = FetchPartition(
            partition=self.where.partition,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=isolation,
            topics=[FetchTopic(topic=self.where.topic, partitions=[partition])],
        )
        response = await self._send(apis.FETCH, request, self._cluster.request_timeout_ms + wait_ms)
        await self._check(response.error_code)
        if not response.responses:  # what Apache Kafka answers to who is over its quota
            await asyncio.sleep(response.throttle_time_ms / 1000)
            raise errors.OffsetNotAvailable(f"the cluster throttles who reads {self.where}")
        answer: PartitionData = response.responses[0].partitions[0]
        await self._check(answer.error_code)
        data = bytes(answer.records or b"")
        answer.records = whole_batches(data)
        if data and not answer.records:
            raise errors.CorruptMessage(f"{len(data)} bytes of a batch, not all of it")
        return answer

    async def offset(self, at: int, isolation: int = 0, *, epoch: int = ANY_EPOCH) -> int:
        """The offset of a moment: EARLIEST, LATEST, or milliseconds since 1970; -1: there is none.

        Raises:
            KafkaError: the partition cannot be asked now.
        """
        return (await self._found(at, isolation, epoch=epoch)).offset

    async def record_at(self, at: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record at or after a time in milliseconds since 1970, or
        of the one with the LARGEST_TIMESTAMP; None: there is none.

        Raises:
            UnsupportedVersion: the leader does not know of the largest timestamp.
            KafkaError: the partition cannot be asked now.
        """
        found = await self._found(at, version_min=LARGEST_TIMESTAMP_SINCE if at < 0 else 0)
        return None if found.offset < 0 else (found.offset, found.timestamp)

    async def _found(
        self, at: int, isolation: int = 0, *, epoch: int = ANY_EPOCH, version_min: int = 0
    ) -> ListOffsetsPartitionResponse:
        partition = ListOffsetsPartition(self.where.partition, epoch, at)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(self.where.topic, [partition])],
        )
        timeout_ms = self._cluster.request_timeout_ms
        response = await self._send(apis.LIST_OFFSETS, request, timeout_ms, version_min)
        answer: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
        await self._check(answer.error_code)
        return answer

    async def delete_before(self, offset: int) -> int:
        """Delete the records before an offset. Returns where the log begins now.

        Raises:
            KafkaError: nothing may have been deleted.
        """
        topic = DeleteRecordsTopic(
            self.where.topic, [DeleteRecordsPartition(self.where.partition, offset)]
        )
        timeout_ms = self._cluster.request_timeout_ms
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        response = await self._send(apis.DELETE_RECORDS, request, timeout_ms)
        answer = response.topics[0].partitions[0]
        await self._check(answer.error_code)
        return int(answer.low_watermark)

    async def _send(self, api: Api, request: Message, timeout_ms: int, version_min: int = 0) -> Any:
        topic = await self._cluster.topic(self.where.topic)
        leader = topic.partitions[self.where.partition].leader
        if leader not in self._cluster.metadata.nodes:
            await self._cluster.refresh()
            raise errors.LeaderNotAvailable(f"{self.where} has no leader now")
        try:
            if version_min:
                await self._check_version(leader, api, version_min)
            return await self._cluster.send(
                leader,
                api,
                request,
                timeout_ms=timeout_ms,
                lane=self._lane,
                version_max=LAST_BY_NAME.get(api),
            )
        except errors.NetworkException:
            await self._refresh_quietly()
            raise

    async def _check_version(self, leader: int, api: Api, version_min: int) -> None:
        connection = await self._cluster.connection(leader, self._lane)
        version = connection.version_of(api)
        if version < version_min:
            raise errors.UnsupportedVersion(
                f"node {leader} of the cluster has version {version} of {api.name}, "
                f"and {version_min} is needed"
            )

    async def _check(self, code: int, message: str | None = None) -> None:
        if code:
            error = errors.error_from_code(code, message)
            if error.retriable:
                await self._refresh_quietly()
            raise error

    async def _refresh_quietly(self) -> None:
        """Ask for the leaders; who called has an error of its own to tell."""
        try:
            await self._cluster.refresh()
        except errors.KafkaError:
            return
