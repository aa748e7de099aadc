"""Fetches records ahead: one request at a time to each broker, for the partitions of which nothing
waits for the application.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sharegroup.client.core.positions import Position, Positions
from sharegroup.client.errors import CorruptRecordBatch
from sharegroup.client.group.chunks import Chunk, Fetched
from sharegroup.client.group.metrics import ConsumerMetrics
from sharegroup.client.group.settings import ReadSettings
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.metadata import NO_LEADER, PartitionInfo
from sharegroup.model.errors import (
    CorruptMessage,
    KafkaError,
    OffsetOutOfRange,
    SharegroupError,
    error_from_code,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import AbortedTransaction
from sharegroup.wire.apis import FETCH
from sharegroup.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from sharegroup.client.group.arrow_chunks import ArrowChunk

log = logging.getLogger("sharegroup.client")

Wanted = dict[TopicPartition, tuple[int, Position]]
"""Partition → the version of its position, and the position."""


class Fetcher:
    """See the module.

    Args:
        on_news: called when something was fetched, or has failed.

    Attributes:
        arrived: what was fetched and not taken yet, in order; partly decoded.
        errors: for the application.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        settings: ReadSettings,
        metrics: ConsumerMetrics,
        on_news: Callable[[], None],
    ) -> None:
        self.arrived: deque[Fetched | Chunk | ArrowChunk] = deque()
        self.errors: deque[SharegroupError] = deque()
        self._cluster = cluster
        self._positions = positions
        self._settings = settings
        self._metrics = metrics
        self._on_news = on_news
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._fetching: set[TopicPartition] = set()
        self._refreshing: asyncio.Task[None] | None = None
        self._backoff = cluster.backoff()

    def begin(self) -> None:
        """Send the fetches that can be sent now."""
        self._cluster.refresh_when_old()
        here = {one.where for one in self.arrived}
        by_node: dict[int, Wanted] = {}
        for where, version in self._positions.fetchable(here | self._fetching).items():
            position = self._positions.position(where)
            info = self.leader_of(where)
            if info is None:
                self.refresh()
                continue
            self._positions.saw_leader(where, info.leader_epoch)
            if position is not None and info.leader not in self._under_way:
                by_node.setdefault(info.leader, {})[where] = (version, position)
        for node_id, wanted in by_node.items():
            self._fetching |= wanted.keys()
            task = asyncio.create_task(self._fetch(node_id, wanted), name=f"fetch {node_id}")
            self._under_way[node_id] = task

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop. Returns the tasks that end now."""
        tasks: list[asyncio.Task[Any]] = list(self._under_way.values())
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        for task in tasks:
            task.cancel()
        return tasks

    def leader_of(self, where: TopicPartition) -> PartitionInfo | None:
        """The partition, if it has a leader that is known."""
        topic = self._cluster.metadata.topics.get(where.topic)
        if topic is None or where.partition >= len(topic.partitions):
            return None
        info = topic.partitions[where.partition]
        known = info.leader != NO_LEADER and info.leader in self._cluster.metadata.nodes
        return info if known else None

    def refresh(self) -> None:
        """Ask for metadata after a pause."""
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh(), name="consumer-metadata")

    async def _refresh(self) -> None:
        try:
            await asyncio.sleep(self._backoff.next_ms() / 1000)
            await self._cluster.refresh()
        except KafkaError as error:
            log.debug("no metadata: %s", error)
        finally:
            self._refreshing = None
            self._on_news()

    # --- one request ------------------------------------------------------------------------------

    async def _fetch(self, node_id: int, wanted: Wanted) -> None:
        began = self._metrics.time()
        try:
            response: FetchResponse = await self._cluster.send(
                node_id, FETCH, self._request(wanted)
            )
            if response.error_code:
                raise error_from_code(response.error_code)
        except KafkaError as error:
            if error.retriable:
                log.debug("fetch from node %d: %s", node_id, error)
                self.refresh()
            else:
                self.errors.append(error)
            self._ended(node_id, wanted)
            return
        except asyncio.CancelledError:
            self._ended(node_id, wanted)
            raise
        self._ended(node_id, wanted)
        self._metrics.request_answered(self._metrics.time() - began, response.throttle_time_ms)
        parts = [part for topic in response.responses for part in topic.partitions]
        self._metrics.fetched(sum(len(part.records or b"") for part in parts))
        for topic in response.responses:
            for answer in topic.partitions:
                where = TopicPartition(topic.topic, answer.partition_index)
                if where in wanted:
                    self._answered(where, answer, *wanted[where])

    def _ended(self, node_id: int, wanted: Wanted) -> None:
        self._under_way.pop(node_id, None)
        self._fetching -= wanted.keys()
        self._on_news()

    def _request(self, wanted: Wanted) -> FetchRequest:
        settings = self._settings
        topics: dict[str, list[FetchPartition]] = {}
        for where, (_, position) in wanted.items():
            info = self.leader_of(where)
            part = FetchPartition(
                partition=where.partition,
                current_leader_epoch=-1 if info is None else info.leader_epoch,
                fetch_offset=position.offset,
                partition_max_bytes=settings.partition_bytes,
            )
            topics.setdefault(where.topic, []).append(part)
        return FetchRequest(
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=int(settings.committed),
            topics=[FetchTopic(topic=name, partitions=own) for name, own in topics.items()],
            rack_id=settings.rack_id,
        )

    def _answered(
        self, where: TopicPartition, answer: PartitionData, version: int, position: Position
    ) -> None:
        if not self._positions.is_current(where, version):
            return
        if answer.error_code:
            self._refused(where, error_from_code(answer.error_code), version, position)
            return
        self._backoff.reset()
        committed = self._settings.committed
        end = answer.last_stable_offset if committed else answer.high_watermark
        if end >= 0:
            self._positions.saw_end(where, end)
        if answer.records:
            aborted = [
                AbortedTransaction(one.producer_id, one.first_offset)
                for one in answer.aborted_transactions or ()
            ]
            self.arrived.append(
                Fetched(where, version, position, answer.high_watermark, answer.records, aborted)
            )

    def _refused(
        self, where: TopicPartition, error: KafkaError, version: int, position: Position
    ) -> None:
        if isinstance(error, OffsetOutOfRange):
            log.info("offset %d of %s is out of range", position.offset, where)
            if not self._positions.out_of_range(where, version):
                text = f"{where} has no offset {position.offset}, and auto_offset_reset is 'none'"
                self.errors.append(OffsetOutOfRange(text))
        elif isinstance(error, CorruptMessage):
            self.errors.append(CorruptRecordBatch(where, position.offset, error.message))
            behind = Position(position.offset + 1, position.leader_epoch)
            self._positions.advance(where, version, behind)
        elif error.retriable:
            log.debug("fetch of %s: %s", where, error)
            self.refresh()
        else:
            self.errors.append(error_from_code(error.code, f"{where}: {error}"))
            self.refresh()
