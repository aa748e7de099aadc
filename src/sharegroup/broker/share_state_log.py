"""Durable share state: the share coordinator's machine over ``__share_group_state``.

Decide (the machine), append, wait until durable; only then does the caller answer. A write that
fails leaves the machine ahead of the log: the machine is replayed from the log, and the caller
fences the share partition.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from sharegroup.broker.internal_topic import InternalTopic
from sharegroup.model.environment import Clock
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.share_state import StateBatch
from sharegroup.share_state.coordinator import ReadResult, ShareCoordinator
from sharegroup.share_state.partitioning import partition_for
from sharegroup.share_state.records import KeyedRecord
from sharegroup.wire.internal.share_state import decode_record, encode_record

logger = logging.getLogger("sharegroup.broker")


class Change(NamedTuple):
    """What a share-partition leader wants durable; -1 leaves the stored start offset or count."""

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class ShareStateLog:
    """The share coordinator of this broker: every share partition's durable state."""

    def __init__(self, topic: InternalTopic, updates_per_snapshot: int, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock
        self._updates_per_snapshot = updates_per_snapshot
        self.coordinator = ShareCoordinator(updates_per_snapshot)

    async def load(self) -> int:
        """Replay the whole topic into a new machine; how many records there were."""
        coordinator = ShareCoordinator(self._updates_per_snapshot)
        count = 0
        if self._topic.exists:
            for partition in range(self._topic.partition_count):
                async for offset, raw_key, raw_value in self._topic.replay(partition):
                    record = decode_record(raw_key, raw_value)
                    if record is not None:
                        coordinator.replay(record.key, record.value, offset)
                        count += 1
        self.coordinator = coordinator
        return count

    async def initialize(
        self, keys: Sequence[tuple[SharePartitionKey, int]], state_epoch: int
    ) -> None:
        """Begin delivery state for (key, start offset) pairs, durably; -1 is decided at load."""
        now_ms = self._clock.wall_ms()
        await self._write(
            [
                record
                for key, start_offset in keys
                for record in self.coordinator.initialize(key, state_epoch, start_offset, now_ms)
            ]
        )

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadResult:
        """The state for a leader that loads it, after its predecessors are fenced durably.

        Raises:
            InvalidRequest: the key was never initialised.
            FencedLeaderEpoch: a later leader has read the state.
        """
        result, records = self.coordinator.read(key, leader_epoch)
        await self._write(records)
        return result

    async def write(self, changes: Sequence[Change]) -> None:
        """Make changes of share partitions durable: one append per state partition for all of them.

        Raises:
            FencedStateEpoch, FencedLeaderEpoch, InvalidRequest: the share coordinator refuses one.
            KafkaStorageError: the disk failed; none of them may be taken as durable.
        """
        now_ms = self._clock.wall_ms()
        await self._write([self.coordinator.write(*change, now_ms) for change in changes])

    async def delete(self, keys: Sequence[SharePartitionKey]) -> None:
        """Forget the state of share partitions, durably; unknown ones are fine."""
        await self._write([record for key in keys for record in self.coordinator.delete(key)])

    async def _write(self, records: Sequence[KeyedRecord]) -> None:
        """Append and wait; what cannot be written is taken out of the machine again."""
        try:
            await self._append(records)
        except KafkaError as error:
            logger.error("share state cannot be written, loading it again: %s", error)
            await self._reload()
            raise

    async def _reload(self) -> None:
        try:
            if self._topic.exists:
                await self._topic.settle()  # others' writes on their way must not be forgotten
            await self.load()
        except KafkaError as error:
            logger.error("share state cannot be read either: %s", error)

    async def _append(self, records: Sequence[KeyedRecord]) -> None:
        by_partition: dict[int, list[KeyedRecord]] = {}
        for record in records:
            partition = partition_for(record.key, self._topic.partition_count)
            by_partition.setdefault(partition, []).append(record)
        appended = []
        for partition, own in by_partition.items():
            log, end_offset = await self._topic.append(
                partition, [encode_record(record) for record in own]
            )
            for index, (key, value) in enumerate(own):
                self.coordinator.appended(key, value, end_offset - len(own) + index)
            appended.append((log, end_offset))
        for log, end_offset in appended:
            await log.wait_durable(end_offset)
