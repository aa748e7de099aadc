"""A share session over the wire protocol: requests exactly as a test writes them, responses as they
come. Tests and benchmarks of single requests build on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from sharegroup.wire import apis
from sharegroup.wire.messages import share_acknowledge as ack_messages
from sharegroup.wire.messages import share_fetch as fetch_messages

TIMEOUT_MS = 120_000
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

Acks = Mapping[int, Sequence[tuple[int, int, Sequence[int]]]]
"""Partition → (first offset, last offset, types)."""

Range = tuple[int, int, int]
"""First and last offset, delivery count."""


class Sender(Protocol):
    """A connection, or what opens one when it is needed."""

    async def send(self, api: apis.Api, request: Any, *, timeout_ms: int) -> Any: ...


class Session:
    """A member's share session on a connection; ``epoch`` is that of its next request."""

    def __init__(
        self, connection: Sender, topic_id: UUID, member: str = "m-1", group: str = "workers"
    ) -> None:
        self.connection = connection
        self.topic_id = topic_id
        self.member = member
        self.group = group
        self.epoch = 0

    async def fetch(
        self,
        *partitions: int,
        acks: Acks | None = None,
        forget: Iterable[int] = (),
        epoch: int | None = None,
        **limits: Any,
    ) -> Any:
        """Add ``partitions`` to the session and fetch; without an ``epoch`` the next one."""
        wanted = acks or {}
        request = fetch_messages.ShareFetchRequest(
            self.group,
            self.member,
            self._next() if epoch is None else epoch,
            **{
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                **limits,
            },
        )
        named = [
            fetch_messages.FetchPartition(
                number,
                [ack_messages.AcknowledgementBatch(*batch) for batch in wanted.get(number, ())],
            )
            for number in (*partitions, *(number for number in wanted if number not in partitions))
        ]
        if named:
            request.topics = [fetch_messages.FetchTopic(self.topic_id, named)]
        if forget:
            gone = fetch_messages.ForgottenTopic(self.topic_id, list(forget))
            request.forgotten_topics_data = [gone]
        return await self.connection.send(apis.SHARE_FETCH, request, timeout_ms=TIMEOUT_MS)

    async def acknowledge(
        self, acks: Acks, *, epoch: int | None = None, is_renew_ack: bool = False
    ) -> Any:
        parts = [
            ack_messages.AcknowledgePartition(
                number, [ack_messages.AcknowledgementBatch(*batch) for batch in batches]
            )
            for number, batches in acks.items()
        ]
        request = ack_messages.ShareAcknowledgeRequest(
            self.group,
            self.member,
            self._next() if epoch is None else epoch,
            is_renew_ack=is_renew_ack,
            topics=[ack_messages.AcknowledgeTopic(self.topic_id, parts)],
        )
        return await self.connection.send(apis.SHARE_ACKNOWLEDGE, request, timeout_ms=TIMEOUT_MS)

    def _next(self) -> int:
        self.epoch += 1
        return self.epoch - 1


def parts(response: Any) -> dict[int, Any]:
    """Partition → its data, in a response that says nothing of the request as a whole."""
    assert response.error_code == 0, response
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def acquired(response: Any) -> dict[int, list[Range]]:
    """Partition → what was acquired of it; only those with records."""
    return {
        number: [(r.first_offset, r.last_offset, r.delivery_count) for r in part.acquired_records]
        for number, part in parts(response).items()
        if part.acquired_records
    }


def ack_codes(response: Any) -> dict[int, int]:
    """Partition → the outcome of its acknowledgements in a ShareFetch response."""
    return {number: part.acknowledge_error_code for number, part in parts(response).items()}


def codes(response: Any) -> dict[int, int]:
    """Partition → its error code."""
    return {number: part.error_code for number, part in parts(response).items()}


def endpoints(response: Any) -> list[tuple[int, str, int]]:
    """The leaders that a response names, and where they are reached."""
    return [(node.node_id, node.host, node.port) for node in response.node_endpoints]
