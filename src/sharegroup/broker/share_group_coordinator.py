"""The group coordinator of this broker: the membership machine over ``__consumer_offsets``.

One lock per group keeps a heartbeat's three steps together: initialise delivery state, decide, make
durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from uuid import UUID

from sharegroup.broker.internal_topic import InternalTopic
from sharegroup.broker.share_state_log import ShareStateLog
from sharegroup.groups.heartbeat import HeartbeatResult, ShareHeartbeat
from sharegroup.groups.records import CoordinatorRecord
from sharegroup.groups.share import ShareGroups
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.environment import Clock
from sharegroup.model.errors import CoordinatorNotAvailable, KafkaError, KafkaStorageError
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share_state.partitioning import group_partition
from sharegroup.wire.internal.groups import decode_record, encode_record

logger = logging.getLogger("sharegroup.broker")


class ShareGroupCoordinator:
    """All share groups of this broker."""

    def __init__(
        self,
        *,
        new_groups: Callable[[], ShareGroups],
        topic: InternalTopic,
        state: ShareStateLog,
        clock: Clock,
        image: Callable[[], TopicsImage],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._new_groups = new_groups
        self.groups = new_groups()
        self._topic = topic
        self._state = state
        self._clock = clock
        self._image = image
        self._spawn = spawn
        self._locks: dict[str, asyncio.Lock] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def load(self) -> None:
        """Replay every group into a new machine; each member gets a whole session again."""
        groups = self._new_groups()
        if self._topic.exists:
            for partition in range(self._topic.partition_count):
                async for _, raw_key, raw_value in self._topic.replay(partition):
                    record = decode_record(raw_key, raw_value)
                    if record is not None:
                        groups.replay(record)
        self.groups = groups
        self.groups.sessions_restarted(self._clock.monotonic_ms())
        self._schedule()

    async def heartbeat(self, request: ShareHeartbeat) -> HeartbeatResult:
        """One heartbeat, durable before it returns; the first one already carries the assignment.

        Raises:
            KafkaError: as ``ShareGroups.heartbeat``; CoordinatorNotAvailable when the log cannot
                be written.
        """

        async with self._lock(request.group_id):
            image = self._image()
            missing = self.groups.uninitialized(request, image)
            records: tuple[CoordinatorRecord, ...] = ()
            if missing:
                epoch = self.groups.initialization_epoch(request.group_id)
                await self._state.initialize(
                    [
                        (
                            SharePartitionKey(request.group_id, item.topic_id, item.partition),
                            item.start_offset,
                        )
                        for item in missing
                    ],
                    epoch,
                )
                records = self.groups.initialized(request.group_id, missing)
            try:
                result = self.groups.heartbeat(request, image, self._clock.monotonic_ms())
            except KafkaError:
                await self._write(request.group_id, records)
                raise
            self._schedule()
            await self._write(request.group_id, (*records, *result.records))
            return result

    async def delete(self, group_id: str) -> None:
        """Delete an empty group and its delivery state.

        Raises:
            GroupIdNotFound, NonEmptyGroup: as ``ShareGroups.delete``.
        """

        async with self._lock(group_id):
            keys = [
                SharePartitionKey(group_id, topic.topic_id, partition)
                for topic in self.groups.initialized_partitions(group_id)
                for partition in topic.partitions
            ]
            records = self.groups.delete(group_id)
            await self._state.delete(keys)
            await self._write(group_id, records)
        self._locks.pop(group_id, None)

    async def topic_deleted(self, topic_id: UUID) -> None:
        """Forget a topic that is gone, and the delivery state of every group in it."""
        keys = [
            SharePartitionKey(listing.group_id, topic_id, partition)
            for listing in self.groups.list_groups()
            for topic in self.groups.initialized_partitions(listing.group_id)
            if topic.topic_id == topic_id
            for partition in topic.partitions
        ]
        await self._state.delete(keys)
        await self._write_all(self.groups.topics_deleted([topic_id]))

    def close(self) -> None:
        """Stop the session timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _lock(self, group_id: str) -> asyncio.Lock:
        return self._locks.setdefault(group_id, asyncio.Lock())

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.groups.next_deadline_ms()
        if deadline_ms is not None:
            delay_s = max(0, deadline_ms - self._clock.monotonic_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._deadline)

    def _deadline(self) -> None:
        self._timer = None
        records = self.groups.tick(self._clock.monotonic_ms())
        self._schedule()
        if records:
            self._spawn(self._write_expired(records))

    async def _write_expired(self, records: Sequence[CoordinatorRecord]) -> None:
        try:
            await self._write_all(records)
        except KafkaError as error:
            logger.warning("expired members are not durable yet: %s", error)

    async def _write_all(self, records: Sequence[CoordinatorRecord]) -> None:
        by_group: dict[str, list[CoordinatorRecord]] = {}
        for record in records:
            by_group.setdefault(record.group_id, []).append(record)
        for group_id, own in by_group.items():
            await self._write(group_id, own)

    async def _write(self, group_id: str, records: Sequence[CoordinatorRecord]) -> None:
        if not records:
            return
        partition = group_partition(group_id, self._topic.partition_count)
        try:
            await self._topic.append_durable(partition, [encode_record(r) for r in records])
        except KafkaStorageError as error:
            logger.error("groups cannot be written, loading them again: %s", error)
            await self._reload()
            raise CoordinatorNotAvailable(str(error)) from error

    async def _reload(self) -> None:
        """Forget what could not be made durable."""
        try:
            if self._topic.exists:
                await self._topic.settle()  # others' writes on their way must not be forgotten
            await self.load()
        except KafkaError as error:
            logger.error("groups cannot be read either: %s", error)
