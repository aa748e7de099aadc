"""Runs the share session with one broker: one request at a time. Its answers change locks and
epochs.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from sharegroup.client.core.access_errors import error_on
from sharegroup.client.core.acknowledgements import AcknowledgedRange
from sharegroup.client.core.fetched import Acknowledged, FetchedPartition, Lease, LockedRange
from sharegroup.client.core.offset_notes import OffsetNotes
from sharegroup.client.core.share_session import Acknowledgements, FetchLimits, ShareSession
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.share.loop_pulse import LoopPulse
from sharegroup.client.share.metrics import ShareConsumerMetrics
from sharegroup.model import errors
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.wire.apis import SHARE_ACKNOWLEDGE, SHARE_FETCH, Api
from sharegroup.wire.messages.share_acknowledge import PartitionData as AcknowledgedPartition
from sharegroup.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from sharegroup.wire.messages.share_fetch import PartitionData, ShareFetchResponse
from sharegroup.wire.schema import Message

log = logging.getLogger("sharegroup.client")

WITHOUT_RECORDS_FEATURE: Final = "share.acquire.without.records"
_NO_ANSWER: Final = errors.InvalidRecordState(
    "the broker's response has no result for these records"
)
_NUMBERS: Final = itertools.count(1)
_NOTHING: Final = FetchLimits(max_records=0, max_bytes=0, max_wait_ms=0, min_bytes=0)


class NodeSession:
    """See the module. Methods that send wait for one another.

    Args:
        displaced: called when the broker's session under this member id is not ours.

    Attributes:
        lock_timeout_ms: how long the broker's acquisition locks last, as its last answer said;
            None before the first answer.
    """

    def __init__(
        self,
        cluster: Cluster,
        node_id: int,
        group_id: str,
        member_id: str,
        metrics: ShareConsumerMetrics,
        displaced: Callable[[], None],
        reasons: OffsetNotes[str],
        pauses: OffsetNotes[int],
    ) -> None:
        self.node_id = node_id
        self.lock_timeout_ms: int | None = None
        self._cluster = cluster
        self._session = ShareSession(group_id, member_id, reasons, pauses)
        self._metrics = metrics
        self._lease = Lease(node_id)
        self._turn = asyncio.Lock()
        self._displaced = displaced
        self._retired = False
        self._request = 0

    def retire(self) -> None:
        """Another process uses the member's id: send nothing under this id any more. The locks are
        that process's.
        """
        self._retired = True
        self._lose()

    @property
    def open(self) -> bool:
        """Whether acknowledgements can be sent without a fetch before them."""
        return self._session.open

    async def fetch(
        self,
        wanted: Collection[TopicIdPartition],
        acknowledgements: Acknowledgements,
        limits: FetchLimits,
    ) -> tuple[list[FetchedPartition], list[Acknowledged]]:
        """One fetch. The acknowledgements ride on it; the caller gives some only if the session is
        open.

        Raises:
            KafkaError: the request as a whole failed; all ``acknowledgements`` failed with it.
        """
        async with self._turn:
            return await self._fetch(wanted, acknowledgements, limits)

    async def acknowledge(
        self,
        acknowledgements: Acknowledgements,
        wanted: Collection[TopicIdPartition] = (),
        *,
        final: bool = False,
    ) -> list[Acknowledged]:
        """Acknowledge without fetching. If the session is not open, a fetch of nothing from the
        ``wanted`` partitions opens it first.

        Raises:
            KafkaError: the request as a whole failed; all ``acknowledgements`` failed with it.
        """
        async with self._turn:
            if not self._session.open:
                await self._fetch({*wanted, *acknowledgements}, {}, _NOTHING)
            request = self._session.acknowledge_request(acknowledgements, final=final)
            if request.is_renew_ack:
                await self._need_version_2(SHARE_ACKNOWLEDGE, "renewing locks")
            response: ShareAcknowledgeResponse = await self._send(SHARE_ACKNOWLEDGE, request)
            self._note_lock_timeout(response.acquisition_lock_timeout_ms)
            if final:
                self._lose()
            answers = {
                TopicIdPartition(topic.topic_id, p.partition_index): p
                for topic in response.responses
                for p in topic.partitions
            }
            return [
                self._acknowledged(partition, ranges, answers.get(partition))
                for partition, ranges in acknowledgements.items()
            ]

    async def _fetch(
        self,
        wanted: Collection[TopicIdPartition],
        acknowledgements: Acknowledgements,
        limits: FetchLimits,
    ) -> tuple[list[FetchedPartition], list[Acknowledged]]:
        if limits.strict:
            await self._need_version_2(SHARE_FETCH, "share_acquire_mode=record_limit")
        if limits.without_records:
            connection = await self._cluster.connection(self.node_id)
            if WITHOUT_RECORDS_FEATURE not in connection.features:
                limits = replace(limits, without_records=False)
        if acknowledgements and not self._session.open:  # it was lost while we waited
            raise errors.NotLeaderOrFollower(
                "the share session was lost before the acknowledgement was sent"
            )
        request = self._session.fetch_request(wanted, acknowledgements, limits)
        pulse = LoopPulse()
        try:
            response = await self._send(SHARE_FETCH, request, limits.max_wait_ms)
        finally:
            before_s = pulse.end()
        self._note_lock_timeout(response.acquisition_lock_timeout_ms)
        return self._read(response, acknowledgements, before_s)

    def _read(
        self, response: ShareFetchResponse, acknowledgements: Acknowledgements, before_s: float
    ) -> tuple[list[FetchedPartition], list[Acknowledged]]:
        deadline = before_s + (self.lock_timeout_ms or 0) / 1000
        fetched = []
        answers: dict[TopicIdPartition, PartitionData] = {}
        for topic in response.responses:
            name = self._cluster.metadata.name_of(topic.topic_id) or ""
            for data in topic.partitions:
                partition = TopicIdPartition(topic.topic_id, data.partition_index)
                answers[partition] = data
                if data.acquired_records or data.error_code:
                    fetched.append(self._fetched(name, partition, data, deadline))
        acknowledged = [
            self._acknowledged(partition, ranges, answers.get(partition))
            for partition, ranges in acknowledgements.items()
        ]
        return fetched, acknowledged

    def _acknowledged(
        self,
        partition: TopicIdPartition,
        ranges: Sequence[AcknowledgedRange],
        answer: AcknowledgedPartition | PartitionData | None,
    ) -> Acknowledged:
        if answer is None:
            return Acknowledged(partition, ranges, _NO_ANSWER, self._request)
        gone_back = [OffsetRange(one.first, one.last) for one in answer.gone_back]
        return Acknowledged(partition, ranges, _outcome(answer), self._request, gone_back)

    def _fetched(
        self, topic: str, partition: TopicIdPartition, data: PartitionData, deadline: float
    ) -> FetchedPartition:
        return FetchedPartition(
            topic=topic,
            topic_id=partition.topic_id,
            partition=partition.partition,
            records=bytes(data.records or b""),
            acquired=[
                LockedRange(a.first_offset, a.last_offset, a.delivery_count)
                for a in data.acquired_records
            ],
            error=_error(data.error_code, data.error_message, topic),
            lease=self._lease,
            lock_deadline=deadline,
            request=self._request,
            ordered=data.ordered,
        )

    async def _send(
        self,
        api: Api,
        request: Message,
        wait_ms: int = 0,
    ) -> Any:
        """Send a request, and step the epoch. Any failure loses the session."""
        if self._retired:
            raise errors.NotLeaderOrFollower("the share session was taken over by another process")
        now = asyncio.get_running_loop().time
        began = now()
        self._request = next(_NUMBERS)
        try:
            response = await self._cluster.send(
                self.node_id, api, request, timeout_ms=self._cluster.request_timeout_ms + wait_ms
            )
            if response.error_code:
                raise errors.error_from_code(response.error_code, response.error_message)
        except BaseException as error:
            was_open = self._session.open
            self._lose()
            if (
                was_open
                and isinstance(error, errors.InvalidShareSessionEpoch)
                and not self._retired
            ):
                self._displaced()
            raise
        self._session.answered()
        self._metrics.request_answered(now() - began, response.throttle_time_ms)
        return response

    def _lose(self) -> None:
        self._session.lost()
        self._lease.lost = True
        self._lease = Lease(self.node_id)
        self._lease.lost = self._retired

    def _note_lock_timeout(self, timeout_ms: int) -> None:
        if timeout_ms > 0:
            self.lock_timeout_ms = timeout_ms

    async def _need_version_2(self, api: Api, what: str) -> None:
        connection = await self._cluster.connection(self.node_id)
        if connection.version_of(api) < 2:
            raise errors.UnsupportedVersion(
                f"{what} needs {api.name} version 2 (Apache Kafka 4.2), which the broker at "
                f"{connection.address} does not serve"
            )


def _outcome(answer: AcknowledgedPartition | PartitionData) -> errors.KafkaError | None:
    if isinstance(answer, PartitionData):
        return _error(answer.acknowledge_error_code, answer.acknowledge_error_message)
    return _error(answer.error_code, answer.error_message)


def _error(code: int, message: str | None, topic: str = "") -> errors.KafkaError | None:
    return error_on(code, message, "READ", f"topic {topic!r}") if code else None
