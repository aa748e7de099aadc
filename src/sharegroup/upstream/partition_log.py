"""The log of one partition of the cluster, as the broker reads and appends to it; implements
``model.log.PartitionLog`` as far as a cluster can.

What one reader has read stays for the next, about CHUNK_BYTES: several groups of one partition cost
one read of the cluster, as long as they are close together. A partition that somebody reads, or
waits for, is *followed*: :class:`~sharegroup.upstream.following.Following` asks for what comes. Who
works off a backlog reads CHUNK_BYTES at a time, which others do not push out: they are kept beside
the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Final, TypeVar
from uuid import UUID

from sharegroup.client.errors import IllegalState
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.metadata import PartitionInfo
from sharegroup.client.network.retrying import retrying
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID, TopicPartition
from sharegroup.model.log import (
    AbortedTransaction,
    Appended,
    DamagedOffsets,
    LogOffsets,
    MessageIds,
    ProducerStates,
    ReadableLog,
    ReadBatches,
    Recompression,
)
from sharegroup.upstream.raw_log import (
    ANY_EPOCH,
    COMMITTED,
    EARLIEST,
    LARGEST_TIMESTAMP,
    LATEST,
    RawLog,
)
from sharegroup.upstream.recent_batches import RecentBatches, has_plain_to
from sharegroup.wire.batch import batch_bounds, parse_headers
from sharegroup.wire.messages.fetch import PartitionData

logger = logging.getLogger("sharegroup.broker")

T = TypeVar("T")
CHUNK_BYTES: Final = 1 << 20
FRESH_S: Final = 1.0
"""Records that are kept for longer may be deleted in the cluster: it is asked first."""
KEPT_S: Final = 5.0
"""Records that were read, and that nobody reads again for so long, are kept no longer. A partition
that nobody reads or waits for is followed no longer."""
PATIENCE_MS: Final = 1_000
"""Who reads waits for so long for a leader that is being elected. `Following` looks for it on."""
RECORD_BYTES_MAX: Final = 1 << 30
READ_LANE: Final = "read"
WRITE_LANE: Final = "write"


class ClusterLog:
    """See the module."""

    def __init__(
        self,
        cluster: Cluster,
        where: TopicPartition,
        topic_id: UUID,
        follow: Callable[[ClusterLog], None],
    ) -> None:
        self.topic_partition = where
        self.topic_id = topic_id
        self.failure: errors.KafkaError | None = None
        self.on_advance: Callable[[ReadableLog], None] | None = None
        self.is_followed = False
        self._cluster = cluster
        self._reading = RawLog(cluster, where, READ_LANE)
        self._writing = RawLog(cluster, where, WRITE_LANE)
        self._follow = follow
        self._offsets = LogOffsets(0, 0, 0, 0)
        self._recent = RecentBatches()
        """What was read at the end of the log."""
        self._behind = RecentBatches()
        """What was read last before what is in `_recent`: by who works off a backlog."""
        self._epoch = ANY_EPOCH
        """The newest epoch of a leader that is known to have led the log up to here."""
        self._known_s = -inf
        """When the cluster has told last where the log begins."""
        self._in_vain = False
        """Somebody has waited for a leader, and there is none yet."""
        self._read_to = 0
        self._read_s = 0.0
        """When somebody has read last."""
        self._wanted_s = 0.0
        """When somebody has begun to read, or was seen to wait, last."""
        self._is_awaited: Callable[[], bool] = lambda: False

    # --- what is known ----------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """See ``ReadableLog``."""
        return self._offsets.start

    @property
    def last_stable_offset(self) -> int:
        """See ``ReadableLog``."""
        return self._offsets.last_stable

    @property
    def high_watermark(self) -> int:
        """See ``ReadableLog``."""
        return self._offsets.high_watermark

    @property
    def log_end_offset(self) -> int:
        """The end as far as it is known here."""
        return self._offsets.end

    @property
    def leader(self) -> int:
        """The broker of the cluster that leads the partition; -1: not known."""
        known = self._metadata
        return -1 if known is None else known.leader

    @property
    def _metadata(self) -> PartitionInfo | None:
        topic = self._cluster.metadata.topics.get(self.topic_partition.topic)
        partition = self.topic_partition.partition
        if topic is None or partition >= len(topic.partitions):
            return None
        if topic.topic_id not in (self.topic_id, NULL_TOPIC_ID):  # it has none where there are none
            return None
        return topic.partitions[partition]

    @property
    def has_room(self) -> bool:
        """Whether to read on at the end while nobody asks: what is kept goes so far, and was read,
        but for a little."""
        recent = self._recent
        at_end = recent.end >= self._offsets.high_watermark
        return at_end and recent.size_from(self._read_to) < CHUNK_BYTES

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for what comes, or has read or waited within KEPT_S."""
        now_s = _now_s()
        if now_s - self._wanted_s > KEPT_S:
            if not self._is_awaited():
                return False
            self._wanted_s = now_s
        return True

    def is_known(self) -> None:
        """The cluster has told all that is new of this partition, if anything is."""
        self._known_s = _now_s()
        self._forget_read()

    def _forget_read(self) -> None:
        """Keep no records that somebody has read already, once nobody has read for a while."""
        if _now_s() - self._read_s <= KEPT_S:
            return
        recent, behind = self._recent, self._behind
        if recent.begin < recent.end <= self._read_to:
            self._recent = RecentBatches(recent.end)
        if behind.begin < behind.end:
            self._behind = RecentBatches()

    async def grew(self, answer: PartitionData) -> None:
        """As :meth:`came`, of records that are not kept.

        Raises:
            KafkaError: the cluster cannot be asked where the first open transaction begins.
        """
        stable = -1
        if answer.high_watermark > self._offsets.high_watermark:
            stable = await self._asked(lambda: self._reading.offset(LATEST, COMMITTED))
        self._learn(answer.log_start_offset, stable, answer.high_watermark)

    async def came(self, offset: int, answer: PartitionData) -> None:
        """The cluster has answered a request to read from ``offset`` on.

        Raises:
            CorruptMessage: the records are none.
            KafkaError: the cluster cannot be asked where the first open transaction begins.
        """
        self._forget_read()
        known, stable = self._offsets, -1
        data = bytes(answer.records or b"")
        if data:
            self._keep(offset, data)
        self.is_known()
        is_open = known.last_stable < known.high_watermark
        if answer.high_watermark > known.high_watermark and not is_open:
            if offset <= known.high_watermark and has_plain_to(answer.high_watermark, data):
                stable = answer.high_watermark  # no transaction has begun
            else:
                is_open = True  # perhaps
        if is_open and (data or answer.high_watermark > known.high_watermark):
            stable = await self._asked(lambda: self._reading.offset(LATEST, COMMITTED))
        self._learn(answer.log_start_offset, stable, answer.high_watermark)

    def _keep(self, offset: int, data: bytes) -> None:
        recent = self._recent
        if offset == recent.end:
            recent.forget_before(min(self._read_to, offset))
            recent.append(data)
            return
        chunk = RecentBatches(offset, data)
        if chunk.end >= self._offsets.high_watermark:
            self._recent, self._behind = chunk, RecentBatches()
        else:
            self._behind = chunk

    def _kept(self, offset: int) -> RecentBatches | None:
        """What is kept from an offset on, if anything is."""
        recent, behind = self._recent, self._behind
        if recent.begin <= offset < recent.end:
            if offset == behind.end:  # who was behind has caught up
                self._behind = RecentBatches()
            return recent
        return behind if behind.begin <= offset < behind.end else None

    def _learn(self, start: int, last_stable: int, high_watermark: int) -> None:
        known = self._offsets
        end = max(known.high_watermark, high_watermark)
        if end > known.high_watermark:
            self._epoch = self._newest_epoch
        stable = min(max(known.last_stable, last_stable), end)
        self._offsets = LogOffsets(max(known.start, start), stable, end, end)
        if self._offsets != known and self.on_advance is not None:
            self.on_advance(self)

    def follow(self, is_awaited: Callable[[], bool]) -> None:
        """See ``ReadableLog``."""
        self._is_awaited = is_awaited
        self._begin_to_follow()

    def _begin_to_follow(self) -> None:
        if self.failure is not None:  # or who waits would be woken by its end, again and again
            return
        self._wanted_s = _now_s()
        self.is_followed = True
        self._follow(self)

    def left(self) -> None:
        """It is followed no more: what is known is as old as that, and nothing is kept."""
        self.is_followed = False
        self._recent, self._behind = RecentBatches(), RecentBatches()
        if self.on_advance is not None:
            self.on_advance(self)

    def gone(self) -> None:
        """The topic is deleted."""
        self.failure = errors.UnknownTopicOrPartition()

    # --- reading ----------------------------------------------------------------------------------

    async def offsets(self) -> LogOffsets:
        """See ``ReadableLog``."""
        self._check()
        asked_s, known = _now_s(), self._offsets.high_watermark
        now = await self._ask_offsets()
        if now.end < known:
            await self._look_back(known)
        self._learn(now.start, now.last_stable, now.end)
        self._known_s = max(self._known_s, asked_s)
        if not (self.is_followed and self._recent.end):
            self._recent = RecentBatches(self._offsets.end)
        return self._offsets

    async def _ask_offsets(self, epoch: int = ANY_EPOCH) -> LogOffsets:
        # The end comes before the stable end: a transaction that ends between the two shows in the
        # second, or comes behind the first. The other way round nobody would ask again.
        offset = self._reading.offset
        start, end, stable = await asyncio.gather(
            self._asked(lambda: offset(EARLIEST, epoch=epoch)),
            self._asked(lambda: offset(LATEST, epoch=epoch)),
            self._asked(lambda: offset(LATEST, COMMITTED, epoch=epoch)),
        )
        return LogOffsets(start, min(stable, end), end, end)

    async def _look_back(self, known: int) -> None:
        """The leader has told of less than is known here. A leader that was just elected may not
        know yet how far the log is replicated, and one that does not know that it leads no more
        may answer as well. So it counts only if a leader of the newest epoch refuses to read at
        this end: it refuses only behind its own last record."""
        try:
            await self._cluster.refresh()
            epoch = self._newest_epoch
            if not await self._refuses(known, epoch):
                return
            now = await self._ask_offsets(epoch)
        except errors.KafkaError:
            return  # it cannot be told now
        if now.end < known == self._offsets.high_watermark:  # nobody has learned more meanwhile
            self._go_back(now)

    async def _refuses(self, offset: int, epoch: int) -> bool:
        try:
            await self._reading.read(offset, 1, epoch=epoch)
        except errors.OffsetOutOfRange:
            return True
        return False

    def _go_back(self, now: LogOffsets) -> None:
        """The cluster has lost the end of the log."""
        logger.error(
            "%s has gone back in the cluster, from offset %d to %d: records that were told as "
            "written are lost, and their offsets will be given to others",
            self.topic_partition,
            self._offsets.end,
            now.end,
        )
        self._offsets = now
        self._recent, self._behind = RecentBatches(now.end), RecentBatches()
        self._read_to = min(self._read_to, now.end)
        if self.on_advance is not None:
            self.on_advance(self)  # who waits behind the end is told so

    @property
    def _newest_epoch(self) -> int:
        """The newest epoch that is known: the metadata may be of a broker that is behind."""
        known = self._metadata
        return self._epoch if known is None else max(self._epoch, known.leader_epoch)

    async def read(
        self, offset: int, max_bytes: int, *, end_offset: int | None = None, stored: bool = False
    ) -> ReadBatches:
        """See ``ReadableLog``."""
        self._check()
        if not self.is_followed and _now_s() - self._known_s > FRESH_S:
            await self.offsets()
        self._begin_to_follow()
        end = self._offsets.high_watermark if end_offset is None else end_offset
        await self._look_if_old()
        if offset < self._offsets.start:
            raise errors.OffsetOutOfRange
        kept = self._kept(offset)
        if kept is None:
            if offset >= end and offset == self._offsets.high_watermark:
                return self._answer(b"")
            reads_on = offset in (self._recent.end, self._behind.end)
            size = max(max_bytes, CHUNK_BYTES if reads_on else 1)
            try:
                answer = await self._asked(lambda: self._reading.read(offset, size))
            except errors.OffsetOutOfRange:
                await self.offsets()  # records are deleted: who reads asks where to go on
                raise
            await self.came(offset, answer)
            if not answer.records:
                _check_known(offset, answer.high_watermark, end)
                return self._answer(b"")
            # Others may have read meanwhile.
            kept = self._kept(offset) or RecentBatches(offset, bytes(answer.records))
        data, read_to = kept.read(offset, end, max_bytes)
        self._read_to = max(self._read_to, read_to)
        self._begin_to_follow()  # there may be room now
        return self._answer(data)

    async def _look_if_old(self) -> None:
        """Somebody reads; what is kept here may be deleted in the cluster meanwhile."""
        self._read_s = now_s = _now_s()
        if self._recent.end and now_s - self._known_s > FRESH_S:
            self._known_s = now_s
            await self.offsets()

    def _answer(self, data: bytes) -> ReadBatches:
        return ReadBatches(data, self._offsets.high_watermark, self._offsets.start)

    def after_damage(self, offset: int) -> int:
        """A cluster's log has no damage that a reader can see."""
        return offset

    def damages(self) -> list[DamagedOffsets]:
        """As :meth:`after_damage`."""
        return []

    async def aborted_transactions(
        self, start_offset: int, end_offset: int
    ) -> list[AbortedTransaction]:
        """See ``ReadableLog``."""
        self._check()
        found: dict[AbortedTransaction, None] = {}
        offset = start_offset
        while offset < end_offset:
            ask = partial(self._reading.read, offset, CHUNK_BYTES, isolation=COMMITTED)
            answer = await self._asked(ask)
            for one in answer.aborted_transactions or ():
                found[AbortedTransaction(one.producer_id, one.first_offset)] = None
            data = bytes(answer.records or b"")
            if not data:
                _check_known(offset, answer.last_stable_offset, end_offset)
                break
            offset = batch_bounds(data)[-1][1] + 1
        return [*found]

    async def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """See ``ReadableLog``."""
        self._check()
        return await self._asked(lambda: self._reading.record_at(timestamp_ms))

    async def offset_of_max_timestamp(self) -> tuple[int, int] | None:
        """See ``ReadableLog``.

        Raises:
            UnsupportedVersion: the cluster does not know, as Apache Kafka before 3.0.
        """
        self._check()
        return await self._asked(lambda: self._reading.record_at(LARGEST_TIMESTAMP))

    # --- appending --------------------------------------------------------------------------------

    @property
    def record_bytes_max(self) -> int:
        """The cluster checks it."""
        return RECORD_BYTES_MAX

    @property
    def recompression(self) -> Recompression | None:
        """The cluster does it."""
        return None

    @property
    def ids(self) -> MessageIds | None:
        """A cluster knows no message ids."""
        return None

    @property
    def producer_states(self) -> ProducerStates:
        """Only the cluster knows them."""
        raise errors.UnsupportedVersion(f"{self.topic_partition} lies in another cluster")

    async def append(self, batches: bytes) -> Appended:
        """See ``AppendableLog``: durable when this returns."""
        self._check()
        records = sum(header.last_offset_delta + 1 for header in parse_headers(batches))
        base = await self._writing.append(bytes(batches), self._cluster.request_timeout_ms)
        return Appended(base, base + records - 1)

    async def wait_durable(self, end_offset: int) -> None:
        """What was appended is durable."""

    async def delete_records(self, before_offset: int) -> int:
        """See ``AppendableLog``."""
        self._check()
        start = await self._asked(lambda: self._writing.delete_before(before_offset))
        self._learn(start, self._offsets.last_stable, self._offsets.high_watermark)
        return start

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def _asked(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the partition's leader answers. Other partitions may have to wait for this answer:
        so who has waited for a leader in vain does not wait again until there is one."""
        self._in_vain &= not self._has_leader
        if self._in_vain:
            raise errors.LeaderNotAvailable(f"{self.topic_partition} has no leader now")

        async def attempt() -> T:
            self._check()
            return await ask()

        try:
            return await retrying(self._cluster, attempt, PATIENCE_MS, self._is_worth_it)
        except IllegalState as error:  # this broker stops
            raise errors.NetworkException(str(error)) from error
        except errors.RetriableError:
            self._check()
            self._in_vain = not self._has_leader
            raise

    def _is_worth_it(self, error: errors.KafkaError) -> bool:
        return error.retriable and self.failure is None

    @property
    def _has_leader(self) -> bool:
        return self.leader in self._cluster.metadata.nodes


def _check_known(offset: int, known_end: int, end: int) -> None:
    """Where the cluster has sent nothing before ``end``, there is nothing, unless the leader itself
    does not know so far: one that was just elected may know less than the one before had told.

    Raises:
        OffsetNotAvailable: the leader will know it a moment later.
    """
    if offset < end and known_end < end:
        raise errors.OffsetNotAvailable(f"the leader knows of {known_end}, not of {end} yet")


def _now_s() -> float:
    return asyncio.get_running_loop().time()
