"""Fetches records ahead: one request at a time to each broker, for the partitions of which no
records wait for the application.

A request for partitions that have been read to their ends waits at the broker. Meanwhile no fetch
can be sent for partitions whose records the application is taking now, and they are needed soon. So
while there are such partitions, the request is sent without a wait, and not more often than it
would have waited (Kafka's consumer sends no request then, KAFKA-17182).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sharegroup.client.core.access_errors import error_on
from sharegroup.client.core.key_ranges import without_ranges
from sharegroup.client.core.positions import Position, Positions
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.uncommitted_ranges import Covered
from sharegroup.client.errors import CorruptRecordBatch
from sharegroup.client.group.chunks import ENDLESS, Chunk, FetchedBytes
from sharegroup.client.group.metrics import GroupConsumerMetrics
from sharegroup.client.group.settings import ReadSettings
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.metadata import NO_LEADER, PartitionInfo
from sharegroup.client.network.retrying import pause
from sharegroup.client.network.versions import LAST_BY_NAME
from sharegroup.cooperative.intervals import Intervals, minus, normal
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID, TopicPartition
from sharegroup.model.log import AbortedTransaction
from sharegroup.wire.apis import FETCH
from sharegroup.wire.messages.fetch import (
    CooperativeMember,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from sharegroup.wire.messages.ranges import Range

if TYPE_CHECKING:
    from sharegroup.client.group.arrow_chunks import ArrowChunk

log = logging.getLogger("sharegroup.client")

Wanted = dict[TopicPartition, tuple[int, Position]]
"""Partition → the version of its position, and the position."""


MEMBERSHIP_CHANGES = (
    errors.FencedMemberEpoch,
    errors.GroupIdNotFound,
    errors.InvalidFetchSessionEpoch,
    errors.StaleMemberEpoch,
    errors.UnknownMemberId,
)
"""Errors of a fetch in turns while its member gets a new epoch, or, InvalidFetchSessionEpoch, after
the broker has lost the turns. Only this last one makes the member begin its turns anew: that gives
back the records that it works on."""


class LogFetcher:
    """See the module.

    Args:
        identity: the member that fetches in turns.
        on_news: called when a fetch was answered, or has failed.

    Attributes:
        arrived: the fetched partitions that the application has not taken yet, in order; some of
            them decoded.
        errors: errors that the next poll raises.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        covered: Covered,
        settings: ReadSettings,
        identity: Callable[[], MemberIdentity],
        metrics: GroupConsumerMetrics,
        on_news: Callable[[], None],
    ) -> None:
        self.arrived: deque[FetchedBytes | Chunk | ArrowChunk] = deque()
        self.errors: deque[errors.SharegroupError] = deque()
        self._cluster = cluster
        self._positions = positions
        self._covered = covered
        self._settings = settings
        self._identity = identity
        self._metrics = metrics
        self._on_news = on_news
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._fetching: set[TopicPartition] = set()
        self._began: dict[int, float] = {}
        """When the last fetch from each node began."""
        self._refreshing: asyncio.Task[None] | None = None
        self._resting: set[TopicPartition] = set()
        """Partitions that were refused: they are asked for again after the pause of the refresh."""
        self._pauses = cluster.pauses()

    def begin(self) -> None:
        """Send the fetches that can be sent now."""
        self._cluster.refresh_when_old()
        here = {one.where for one in self.arrived}
        by_node: dict[int, Wanted] = {}
        for where, version in self._positions.fetchable(
            here | self._fetching | self._resting
        ).items():
            position = self._positions.position(where)
            info = self.leader_of(where)
            if info is None:
                self.refresh()
                continue
            self._positions.saw_leader(where, info.leader_epoch)
            if position is not None and info.leader not in self._under_way:
                by_node.setdefault(info.leader, {})[where] = (version, position)
        taken_from = self._nodes_of(here) if here else ()
        for node_id, wanted in by_node.items():
            max_wait_ms = self._settings.max_wait_ms
            now = asyncio.get_running_loop().time()
            # Otherwise a fetch that waits for new records would delay the next one to this node.
            if node_id in taken_from and self._read_to_the_end(wanted):
                if now < self._began.get(node_id, now) + max_wait_ms / 1000:
                    continue
                max_wait_ms = 0
            self._began[node_id] = now
            self._fetching |= wanted.keys()
            # The request is made now: when the task begins, a partition may be ours no more.
            fetch = self._fetch(node_id, wanted, self._request(wanted, max_wait_ms))
            self._under_way[node_id] = asyncio.create_task(fetch, name=f"fetch {node_id}")

    def _nodes_of(self, buffered: set[TopicPartition]) -> set[int]:
        """The leaders of the buffered partitions that will be fetched again as soon as the
        application has taken their records."""
        soon = self._positions.fetchable(()).keys() & buffered
        return {info.leader for info in map(self.leader_of, soon) if info is not None}

    def _read_to_the_end(self, wanted: Wanted) -> bool:
        """Whether all these partitions are read to their known ends."""
        for where, (_, position) in wanted.items():
            end = self._positions.end(where)
            if end is None or position.offset < end or self._positions.turn(where):
                return False
        return True

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop. Returns the cancelled tasks, which are about to end."""
        tasks: list[asyncio.Task[Any]] = list(self._under_way.values())
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        for task in tasks:
            task.cancel()
        return tasks

    def leader_of(self, where: TopicPartition) -> PartitionInfo | None:
        """The partition's metadata; None: it has no leader, or the leader is not known."""
        topic = self._cluster.metadata.topics.get(where.topic)
        if topic is None or where.partition >= len(topic.partitions):
            return None
        info = topic.partitions[where.partition]
        known = info.leader != NO_LEADER and info.leader in self._cluster.metadata.nodes
        return info if known else None

    def _rest(self, wheres: Iterable[TopicPartition]) -> None:
        """Fetch nothing of these partitions until the metadata were asked for, after a pause."""
        self._resting.update(wheres)
        self.refresh()

    def refresh(self) -> None:
        """Ask for metadata after a pause."""
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh(), name="consumer-metadata")

    async def _refresh(self) -> None:
        try:
            await pause(self._pauses)
            await self._cluster.refresh()
        except errors.KafkaError as error:
            log.debug("no metadata: %s", error)
        finally:
            self._refreshing = None
            self._resting.clear()
            self._on_news()

    # --- one request ------------------------------------------------------------------------------

    async def _fetch(self, node_id: int, wanted: Wanted, request: FetchRequest) -> None:
        began = self._metrics.time()
        try:
            by_name = any(topic.topic_id == NULL_TOPIC_ID for topic in request.topics)
            response: FetchResponse = await self._cluster.send(
                node_id, FETCH, request, version_max=LAST_BY_NAME[FETCH] if by_name else None
            )
            if response.error_code:
                raise errors.error_from_code(response.error_code)
        except errors.KafkaError as error:
            if error.retriable:
                log.debug("fetch from node %d: %s", node_id, error)
                self._rest(wanted)
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
        names = {topic.topic_id: topic.topic for topic in request.topics}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for answer in topic.partitions:
                where = TopicPartition(name, answer.partition_index)
                if where in wanted:
                    self._answered(where, answer, *wanted[where])

    def _ended(self, node_id: int, wanted: Wanted) -> None:
        self._under_way.pop(node_id, None)
        self._fetching -= wanted.keys()
        self._on_news()

    def _request(self, wanted: Wanted, max_wait_ms: int) -> FetchRequest:
        settings = self._settings
        topics: dict[str, list[FetchPartition]] = {}
        for where, (_, position) in wanted.items():
            info = self.leader_of(where)
            part = FetchPartition(
                partition=where.partition,
                current_leader_epoch=-1 if info is None else info.leader_epoch,
                fetch_offset=position.offset,
                partition_max_bytes=settings.partition_bytes,
                key_ranges=[Range(*each) for each in self._positions.key_ranges(where)],
                turn=self._positions.turn(where),
            )
            topics.setdefault(where.topic, []).append(part)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=int(settings.committed),
            topics=[
                FetchTopic(topic=name, topic_id=self._topic_id(name, own), partitions=own)
                for name, own in topics.items()
            ],
            rack_id=settings.rack_id,
            member=self._member() if any(map(self._positions.turn, wanted)) else None,
        )

    def _topic_id(self, name: str, parts: Iterable[FetchPartition]) -> UUID:
        """The topic that the positions of these partitions belong to; NULL_TOPIC_ID: it is not
        known of all."""
        ids = {self._positions.topic_id(TopicPartition(name, one.partition)) for one in parts}
        return ids.pop() or NULL_TOPIC_ID if len(ids) == 1 else NULL_TOPIC_ID

    def _member(self) -> CooperativeMember:
        me = self._identity()
        return CooperativeMember(me.group_id, me.member_id, me.generation_id)

    def _answered(
        self, where: TopicPartition, answer: PartitionData, version: int, position: Position
    ) -> None:
        if not self._positions.is_current(where, version):
            return
        if answer.error_code:
            error = error_on(answer.error_code, None, "READ", f"topic {where.topic!r}")
            self._refused(where, error, version, position)
            return
        self._pauses.reset()
        committed = self._settings.committed
        end = answer.last_stable_offset if committed else answer.high_watermark
        if end >= 0:
            self._positions.saw_end(where, end)
        holes: Intervals = ()
        if self._positions.turn(where):
            self._answered_turn(where, answer, version, position)
            return
        if self._positions.key_ranges(where):
            holes = normal((one.first, one.last) for one in answer.without_records)
            if answer.read_up_to < 0:
                self.errors.append(without_ranges(where))
                return
            if not answer.records and answer.read_up_to > position.offset:
                behind = min(answer.read_up_to, max(end, position.offset))
                self._covered.read(where, (), holes)
                self._positions.advance(where, version, Position(behind, position.leader_epoch))
        if answer.records and answer.high_watermark > position.offset:
            # Kafka looks at the high watermark first and reads afterwards, so some records may lie
            # at or after it. They come again with the next fetch.
            fetched = self._fetched(where, version, position, answer)
            self.arrived.append(fetched._replace(read_up_to=answer.read_up_to, holes=holes))

    def _answered_turn(
        self, where: TopicPartition, answer: PartitionData, version: int, position: Position
    ) -> None:
        """Take the answer to a turn. The offsets of turns do not ascend, because records that were
        given back come again. The position ascends nevertheless, so that all records before it are
        done when none is in work.
        """
        holes = normal((one.first, one.last) for one in answer.without_records)
        if not answer.given:
            if answer.records:
                self.errors.append(without_ranges(where))
            self._covered.read(where, (), holes)
            behind = max(position.offset, holes[-1][1] + 1 if holes else 0)
            self._positions.advance(where, version, Position(behind, position.leader_epoch))
            return
        given = normal((one.first, one.last) for one in answer.given)
        first, end = given[0][0], given[-1][1] + 1
        behind = max(position.offset, end, holes[-1][1] + 1 if holes else 0)
        fetched = self._fetched(where, version, Position(first, position.leader_epoch), answer)
        others = minus(((0, ENDLESS),), given)
        self.arrived.append(
            fetched._replace(read_up_to=behind, holes=holes, given=given, done=others)
        )
        self._positions.next_turn(where, version)

    def _refused(
        self, where: TopicPartition, error: errors.KafkaError, version: int, position: Position
    ) -> None:
        if isinstance(error, errors.OffsetOutOfRange):
            log.info("offset %d of %s is out of range", position.offset, where)
            if not self._positions.out_of_range(where, version):
                text = f"{where} has no offset {position.offset}, and auto_offset_reset is 'none'"
                self.errors.append(errors.OffsetOutOfRange(text))
        elif self._positions.turn(where) and isinstance(error, MEMBERSHIP_CHANGES):
            if isinstance(error, errors.InvalidFetchSessionEpoch):
                self._positions.begin_turns_anew(where)
            self._rest([where])  # the next heartbeat says what to do; the turn is asked again
        elif isinstance(error, errors.CorruptMessage) and not self._positions.turn(where):
            damage = CorruptRecordBatch(where, position.offset, error.message)
            damage.__cause__ = error
            self.errors.append(damage)
            behind = Position(position.offset + 1, position.leader_epoch)
            # Nobody in the group will read the offset: a commit passes it.
            self._covered.read(where, (), ((position.offset, position.offset),))
            self._positions.advance(where, version, behind)
        elif error.retriable and not isinstance(error, errors.CorruptMessage):
            log.debug("fetch of %s: %s", where, error)
            self._rest([where])
        else:  # also damage in turns: the broker passes over it where it can, and knows the offset
            self.errors.append(errors.error_from_code(error.code, f"{where}: {error}"))
            self._rest([where])

    def _fetched(
        self, where: TopicPartition, version: int, position: Position, answer: PartitionData
    ) -> FetchedBytes:
        aborted = [
            AbortedTransaction(one.producer_id, one.first_offset)
            for one in answer.aborted_transactions or ()
        ]
        return FetchedBytes(
            where,
            version,
            position,
            answer.high_watermark,
            answer.records or b"",
            aborted,
            topic_id=self._positions.topic_id(where),
        )
