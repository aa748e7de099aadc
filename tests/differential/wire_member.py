"""A member of a share group that sends single requests and knows what it holds."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from sharegroup.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from sharegroup.wire.messages.share_fetch import (
    AcknowledgementBatch as FetchAcknowledgementBatch,
)
from sharegroup.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest

TIMEOUT_MS = 30_000
COORDINATOR_LOADING = {14, 15, 16}
RETRY_S = 0.05
RETRIES = 400
EMPTY_WAITS_MS = (0, 20, 120)
"""How long each fetch of a poll waits; as many empty ones end it."""

Batch = tuple[int, int, list[int]]
"""First offset, last offset, acknowledgement types."""


async def connect(port: int, client_id: str) -> Connection:
    return await Connection.open("127.0.0.1", port, client_id=client_id, timeout_ms=TIMEOUT_MS)


class WireMember:
    """One member and its connection; a session is opened when it is first needed.

    `held` is what it has acquired and not answered: partition -> offset -> delivery count.
    """

    def __init__(self, port: int, group: str, member_id: str, topic_id: UUID, partitions: int):
        self.port = port
        self.group = group
        self.member_id = member_id
        self.topic_id = topic_id
        self.partitions = range(partitions)
        self.member_epoch = 0
        self.session_epoch = 0
        self.held: dict[int, dict[int, int]] = {p: {} for p in self.partitions}
        self._connection: Connection | None = None

    async def send(self, api: apis.Api, request: Any) -> Any:
        """One request; asked again while a coordinator is being loaded."""
        for _ in range(RETRIES):
            if self._connection is None or self._connection.closed:
                self._connection = await connect(self.port, self.member_id)
            response = await self._connection.send(api, request, timeout_ms=TIMEOUT_MS)
            if getattr(response, "error_code", 0) not in COORDINATOR_LOADING:
                return response
            await asyncio.sleep(RETRY_S)
        raise AssertionError(f"{api.name}: the coordinator does not come up")

    def disconnect(self) -> None:
        """Drop the connection; the broker ends the session and takes back what is held."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self.forget_session()

    def forget_session(self) -> None:
        self.session_epoch = 0
        self.held = {p: {} for p in self.partitions}

    async def open_session(self) -> None:
        """Begin a session without acquiring anything."""
        if self.session_epoch == 0:
            await self.fetch(0, 500, 0, 0)

    def _turn(self, epoch: int | None) -> int:
        if epoch is not None:
            return epoch
        now = self.session_epoch
        self.session_epoch += 1
        return now

    async def fetch(
        self, records: int, batch_size: int, mode: int, wait_ms: int, *, epoch: int | None = None
    ) -> Any:
        """One ShareFetch; `epoch` in place of the session's own leaves the session's alone."""
        turn = self._turn(epoch)
        new = [FetchTopic(self.topic_id, [FetchPartition(p) for p in self.partitions])]
        request = ShareFetchRequest(
            *(self.group, self.member_id, turn, wait_ms, 1, 1 << 24, records, batch_size),
            share_acquire_mode=mode,
            topics=new if turn == 0 else [],
        )
        response = await self.send(apis.SHARE_FETCH, request)
        self._take(response)
        return response

    def _take(self, response: Any) -> None:
        for topic in response.responses:
            for part in topic.partitions:
                for run in part.acquired_records:
                    for offset in range(run.first_offset, run.last_offset + 1):
                        self.held[part.partition_index][offset] = run.delivery_count

    async def acknowledge(
        self, batches: dict[int, list[Batch]], *, renew: bool = False, epoch: int | None = None
    ) -> Any:
        """One ShareAcknowledge."""
        parts = [
            AcknowledgePartition(p, [AcknowledgementBatch(*batch) for batch in own])
            for p, own in sorted(batches.items())
        ]
        request = ShareAcknowledgeRequest(
            *(self.group, self.member_id, self._turn(epoch)),
            is_renew_ack=renew,
            topics=[AcknowledgeTopic(self.topic_id, parts)] if parts else [],
        )
        return await self.send(apis.SHARE_ACKNOWLEDGE, request)

    async def acknowledge_by_fetch(
        self, batches: dict[int, list[Batch]], *, renew: bool = False
    ) -> Any:
        """Acknowledgements that ride on a ShareFetch which acquires nothing."""
        parts = [
            FetchPartition(p, [FetchAcknowledgementBatch(*batch) for batch in own])
            for p, own in sorted(batches.items())
        ]
        request = ShareFetchRequest(
            *(self.group, self.member_id, self._turn(None), 0, 0, 0, 0, 0),
            is_renew_ack=renew,
            topics=[FetchTopic(self.topic_id, parts)] if parts else [],
        )
        return await self.send(apis.SHARE_FETCH, request)

    async def bad_fetch(
        self,
        records: int,
        renew: bool,
        partition: int,
        batches: list[Batch],
        first_epoch: bool,
    ) -> Any:
        """A ShareFetch of anything, which leaves the session as it finds it."""
        part = FetchPartition(partition, [FetchAcknowledgementBatch(*batch) for batch in batches])
        request = ShareFetchRequest(
            *(self.group, self.member_id, 0 if first_epoch else self.session_epoch),
            *(0, 0, 1 << 20 if records else 0, records, records),
            is_renew_ack=renew,
            topics=[FetchTopic(self.topic_id, [part])],
        )
        response = await self.send(apis.SHARE_FETCH, request)
        if response.error_code == 0 and not first_epoch:
            self.session_epoch += 1
        return response
