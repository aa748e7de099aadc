"""The group coordinator of this broker: the membership machine over ``__consumer_offsets``.

One lock per group keeps the steps of a request together: initialise delivery state, decide, make
durable. What was decided is written before anything else can be decided (``group_log``), so the
log's order is the order of decisions. A write that fails leaves the machine ahead of its log: it is
thrown away and replayed, and requests meanwhile are told to come again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID

from sharegroup.broker.group_log import GroupLog, LiveGroups, Written
from sharegroup.broker.internal_topic import InternalTopic
from sharegroup.broker.keyed_locks import KeyedLocks
from sharegroup.broker.share_state_log import ShareStateLog
from sharegroup.groups.heartbeat import HeartbeatResult, ShareHeartbeat, ToInitialize
from sharegroup.groups.records import CoordinatorRecord, GroupMetadata, TopicPartitions
from sharegroup.groups.share import ShareGroups
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.environment import Clock
from sharegroup.model.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
)
from sharegroup.model.ids import SharePartitionKey

logger = logging.getLogger("sharegroup.broker")


class NewStart(NamedTuple):
    """Where an administrator wants a share partition to begin."""

    topic_id: UUID
    topic: str
    partition: int
    start_offset: int


class ShareGroupCoordinator:
    """All share groups of this broker.

    Args:
        records_per_round: see ``GroupLog``.
        spawn: runs a coroutine of ours in the background and reports its failure.
    """

    def __init__(
        self,
        *,
        new_groups: Callable[[], ShareGroups],
        topic: InternalTopic,
        state: ShareStateLog,
        clock: Clock,
        image: Callable[[], TopicsImage],
        records_per_round: Callable[[], int],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._new_groups = new_groups
        self.groups = new_groups()
        self._state = state
        self._clock = clock
        self._image = image
        self._spawn = spawn
        live = LiveGroups(lambda: self.groups.group_ids(), lambda g: self.groups.records(g))
        self._log = GroupLog(topic, live, records_per_round, spawn)
        self._locks = KeyedLocks()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self.rebalances = 0
        """Group epochs written since the start."""
        self._out_of_step = False
        """The machine is not the fold of the log: a write has failed."""
        self._loading = False

    async def load(self) -> None:
        """Replay every group into a new machine; each member gets a whole session again. Topics
        that were deleted while we were not there are forgotten.
        """
        groups = self._new_groups()
        async for record in self._log.replay():
            groups.replay(record)
        self.groups = groups
        self.groups.sessions_restarted(self._clock.monotonic_ms())
        self._out_of_step = False
        self._schedule()
        existing = {info.topic_id for info in self._image().topics.values()}
        try:
            await self._forget_topics(self.groups.topic_ids() - existing)
        except KafkaError as error:
            logger.warning("deleted topics could not be forgotten yet: %s", error)

    async def heartbeat(self, request: ShareHeartbeat) -> HeartbeatResult:
        """One heartbeat, durable before it returns; the first one of a group already carries the
        assignment.

        Raises:
            KafkaError: as ``ShareGroups.heartbeat``; CoordinatorNotAvailable when the log cannot
                be written.
        """
        group_id = request.group_id
        async with self._deciding(group_id):
            await self._ready()
            missing = self.groups.uninitialized(request, self._image())
            await self._log.ensure()
            if missing:
                await self._initialize(group_id, missing)
            result = self.groups.heartbeat(request, self._image(), self._clock.monotonic_ms())
            self._schedule()
            written = self._write_soon(group_id, result.records) or self._log.latest(group_id)
        # Others of the group go on meanwhile, so that many members share a sync.
        await self._settle(written)
        return result

    async def delete(self, group_id: str) -> None:
        """Delete an empty group and its delivery state. What fails may be tried again.

        Raises:
            GroupIdNotFound, NonEmptyGroup: as ``ShareGroups.begin_deletion``.
            KafkaError: the delivery state could not be deleted.
        """
        async with self._locks.holding(group_id):
            await self._ready()
            begun = self.groups.begin_deletion(group_id, self._image())
            await self._write(group_id, begun.records)
            await self._state.delete(_keys(group_id, begun.topics))
            await self._write(group_id, self.groups.delete(group_id))

    async def delete_offsets(
        self, group_id: str, names: Sequence[str]
    ) -> tuple[Sequence[TopicPartitions], Mapping[str, KafkaError]]:
        """Delete an empty group's delivery state in some topics: (those deleted, those refused, by
        name).

        Raises:
            GroupIdNotFound, NonEmptyGroup: as ``ShareGroups.begin_offsets_deletion``.
            KafkaError: the delivery state could not be deleted.
        """
        async with self._locks.holding(group_id):
            await self._ready()
            begun = self.groups.begin_offsets_deletion(group_id, names, self._image())
            await self._write(group_id, begun.records)
            if begun.topics:
                await self._state.delete(_keys(group_id, begun.topics))
                gone = [topic.topic_id for topic in begun.topics]
                await self._write(group_id, self.groups.offsets_deleted(group_id, gone))
            return begun.topics, begun.refused

    async def alter_offsets(self, group_id: str, starts: Sequence[NewStart]) -> None:
        """Let an empty group, which is made when there is none, begin anew at these offsets.

        The state epoch is raised, so that nothing a share-partition leader still has in hand can
        undo it.

        Raises:
            NonEmptyGroup: it has members.
            KafkaError: the delivery state could not be written.
        """
        async with self._locks.holding(group_id):
            await self._ready()
            self.groups.check_empty(group_id)
            if not starts:
                return
            await self._log.ensure()
            items = [
                ToInitialize(TopicPartitions(s.topic_id, s.topic, (s.partition,)), s.start_offset)
                for s in starts
            ]
            keys = [SharePartitionKey(group_id, s.topic_id, s.partition) for s in starts]
            above = await self._stored_epoch(keys) + 1
            self._write_soon(group_id, self.groups.initializing(group_id, items))
            await self._initialize_state(group_id, items, above)
            await self._write(group_id, self.groups.initialized(group_id, items))

    async def topic_deleted(self, topic_id: UUID) -> None:
        """Forget a topic that is gone, and the delivery state of every group in it."""
        if not self._out_of_step:  # else loading forgets it
            await self._forget_topics({topic_id})

    def close(self) -> None:
        """Stop the session timer."""
        if self._timer is not None:
            self._timer.cancel()

    async def _forget_topics(self, topic_ids: Iterable[UUID]) -> None:
        gone = set(topic_ids)
        keys = [
            key
            for topic_id in gone
            for group_id, topic in self.groups.holds(topic_id)
            for key in _keys(group_id, [topic])
        ]
        written = self._write_each(self.groups.topics_deleted(gone))
        await self._state.delete(keys)
        for part in written:
            await self._log.wait_durable(part)

    async def _initialize(self, group_id: str, missing: Sequence[ToInitialize]) -> None:
        """Make delivery state. What cannot be made is not assigned yet, and the next heartbeat
        tries again, as in Kafka; the member is not troubled with it.
        """
        self._write_soon(group_id, self.groups.initializing(group_id, missing))
        try:
            await self._initialize_state(group_id, await self._unknown(group_id, missing), 0)
        except KafkaError as error:
            logger.warning("delivery state of group %s is not there yet: %s", group_id, error)
            records = self.groups.not_initialized(group_id, missing)
        else:
            records = self.groups.initialized(group_id, missing)
        self._write_soon(group_id, records)

    async def _unknown(self, group_id: str, missing: Sequence[ToInitialize]) -> list[ToInitialize]:
        """``missing`` without the partitions that a leader has worked on: the group has lost its
        records of them, to a damaged log, and must not begin anew where it has accepted records.
        """
        unknown: list[ToInitialize] = []
        for item in missing:
            begun = []
            for partition in item.topic.partitions:
                key = SharePartitionKey(group_id, item.topic.topic_id, partition)
                known = await self._state.knows(key)
                if known and (await self._state.read_summary(key)).leader_epoch >= 0:
                    logger.warning("%s goes on with the delivery state that it has of %s-%d",
                                   group_id, item.topic.name, partition)  # fmt: skip
                    begun.append(partition)
            rest = tuple(p for p in item.topic.partitions if p not in begun)
            if rest:
                topic = TopicPartitions(item.topic.topic_id, item.topic.name, rest)
                unknown.append(ToInitialize(topic, item.start_offset))
        return unknown

    async def _initialize_state(
        self, group_id: str, items: Sequence[ToInitialize], epoch_min: int
    ) -> None:
        """Begin delivery state. Its epoch is the group's, unless a higher one is stored: state that
        outlived its group must not lock out the next one.
        """
        starts = [
            (SharePartitionKey(group_id, item.topic.topic_id, partition), item.start_offset)
            for item in items
            for partition in item.topic.partitions
        ]
        if not starts:
            return
        stored = await self._stored_epoch([key for key, _ in starts])
        epoch = max(self.groups.initialization_epoch(group_id), stored, epoch_min)
        await self._state.initialize(starts, epoch)

    async def _stored_epoch(self, keys: Sequence[SharePartitionKey]) -> int:
        return max([(await self._state.read_summary(key)).state_epoch for key in keys])

    # Timer -----------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Have the timer go off at the next deadline or earlier; it looks again when it does."""
        deadline_ms = self.groups.next_deadline_ms()
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_s = max(0, deadline_ms - self._clock.monotonic_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._deadline)

    def _deadline(self) -> None:
        self._timer = None
        if self._out_of_step:
            return
        records = self.groups.tick(self._image(), self._clock.monotonic_ms())
        self._schedule()
        if records:
            try:
                self._spawn(self._wait(self._write_each(records)))
            except KafkaError as error:
                logger.warning("expired members could not be written: %s", error)

    async def _wait(self, written: Sequence[Written]) -> None:
        try:
            for part in written:
                await self._log.wait_durable(part)
        except KafkaStorageError as error:
            self._failed(error)

    @asynccontextmanager
    async def _deciding(self, group_id: str) -> AsyncIterator[None]:
        """Hold the group's lock. A disk that refuses is, to a client, a coordinator that is not
        available: that it tries again, where it would give up at a storage error.
        """
        async with self._locks.holding(group_id):
            try:
                yield
            except KafkaStorageError as error:
                raise CoordinatorNotAvailable(str(error)) from error

    # Writing ---------------------------------------------------------------------------------

    async def _ready(self) -> None:
        """Return when decisions may be taken.

        Raises:
            CoordinatorLoadInProgress: groups are being loaded again.
            CoordinatorNotAvailable: they cannot be.
        """
        if self._loading:
            raise CoordinatorLoadInProgress
        if self._out_of_step:
            await self._reload()
            if self._out_of_step:
                raise CoordinatorNotAvailable

    def _write_each(self, records: Iterable[CoordinatorRecord]) -> list[Written]:
        by_group: dict[str, list[CoordinatorRecord]] = {}
        for record in records:
            by_group.setdefault(record.group_id, []).append(record)
        parts = [self._write_soon(group_id, own) for group_id, own in by_group.items()]
        return [part for part in parts if part is not None]

    def _write_soon(self, group_id: str, records: Sequence[CoordinatorRecord]) -> Written | None:
        """Write without waiting until it is durable: a later write of the group waits for it."""
        if self._out_of_step:
            raise CoordinatorLoadInProgress
        if not records:
            return None
        self.rebalances += sum(isinstance(record, GroupMetadata) for record in records)
        try:
            return self._log.write(group_id, records)
        except KafkaStorageError as error:
            self._failed(error)
            raise CoordinatorNotAvailable(str(error)) from error

    async def _write(self, group_id: str, records: Sequence[CoordinatorRecord]) -> None:
        await self._settle(self._write_soon(group_id, records))

    async def _settle(self, written: Written | None) -> None:
        """Return when a write is durable; when it never will be, groups are loaded again."""
        if written is None:
            return
        try:
            await self._log.wait_durable(written)
        except KafkaStorageError as error:
            self._failed(error)
            await self._reload()
            raise CoordinatorNotAvailable(str(error)) from error

    def _failed(self, error: KafkaError) -> None:
        logger.error("groups cannot be written, they are loaded again: %s", error)
        self._out_of_step = True

    async def _reload(self) -> None:
        """Forget what could not be made durable; another task may be at it already."""
        if self._loading:
            raise CoordinatorLoadInProgress
        self._loading = True
        try:
            await self.load()
        except KafkaError as error:
            raise CoordinatorNotAvailable(str(error)) from error
        finally:
            self._loading = False


def _keys(group_id: str, topics: Iterable[TopicPartitions]) -> list[SharePartitionKey]:
    return [
        SharePartitionKey(group_id, topic.topic_id, partition)
        for topic in topics
        for partition in topic.partitions
    ]
