"""A member of a share group that sends single requests and knows what it holds."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from tests.servers.share_session import Session

TIMEOUT_MS = 120_000
COORDINATOR_LOADING = {14, 15, 16}
RETRY_S = 0.05
RETRIES = 400
EMPTY_WAITS_MS = (0, 20, 120)
"""How long each fetch of a poll waits; as many empty ones end it."""

NOTHING = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "batch_size": 0}
"""The limits of a ShareFetch that acquires nothing."""

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
        self._session = Session(self, topic_id, member_id, group)
        self.held: dict[int, dict[int, int]] = {p: {} for p in self.partitions}
        self._connection: Connection | None = None

    async def send(self, api: apis.Api, request: Any, *, timeout_ms: int = TIMEOUT_MS) -> Any:
        """One request; asked again while a coordinator is being loaded."""
        for _ in range(RETRIES):
            if self._connection is None or self._connection.closed:
                self._connection = await connect(self.port, self.member_id)
            response = await self._connection.send(api, request, timeout_ms=timeout_ms)
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

    @property
    def session_epoch(self) -> int:
        """The epoch of the session's next request."""
        return self._session.epoch

    def forget_session(self) -> None:
        self._session.epoch = 0
        self.held = {p: {} for p in self.partitions}

    async def open_session(self) -> None:
        """Begin a session without acquiring anything."""
        if self.session_epoch == 0:
            await self.fetch(0, 500, 0, 0)

    async def fetch(
        self, records: int, batch_size: int, mode: int, wait_ms: int, *, epoch: int | None = None
    ) -> Any:
        """One ShareFetch; `epoch` in place of the session's own leaves the session's alone."""
        turn = self.session_epoch if epoch is None else epoch
        response = await self._session.fetch(
            *(self.partitions if turn == 0 else ()),
            epoch=epoch,
            max_wait_ms=wait_ms,
            max_bytes=1 << 24,
            max_records=records,
            batch_size=batch_size,
            share_acquire_mode=mode,
        )
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
        in_order = dict(sorted(batches.items()))
        return await self._session.acknowledge(in_order, epoch=epoch, is_renew_ack=renew)

    async def acknowledge_by_fetch(
        self, batches: dict[int, list[Batch]], *, renew: bool = False
    ) -> Any:
        """Acknowledgements that ride on a ShareFetch which acquires nothing."""
        in_order = dict(sorted(batches.items()))
        return await self._session.fetch(acks=in_order, is_renew_ack=renew, **NOTHING)

    async def bad_fetch(
        self,
        records: int,
        renew: bool,
        partition: int,
        batches: list[Batch],
        first_epoch: bool,
    ) -> Any:
        """A ShareFetch of anything, which leaves the session as it finds it."""
        limits = {**NOTHING, "max_records": records, "batch_size": records}
        response = await self._session.fetch(
            acks={partition: batches},
            epoch=0 if first_epoch else self.session_epoch,
            is_renew_ack=renew,
            **{**limits, "max_bytes": 1 << 20 if records else 0},
        )
        if response.error_code == 0 and not first_epoch:
            self._session.epoch += 1
        return response
