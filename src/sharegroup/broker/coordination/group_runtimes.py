"""The runtimes of ``__consumer_offsets``, one for each partition and the partition of
``__individual_commit_offsets`` beside it. All coordinators of groups share the runtimes: a group of
any type lives in the partition of its id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from sharegroup.broker.coordination.foreign_records import ForeignRecords
from sharegroup.broker.coordination.log import CoordinatorTopic
from sharegroup.broker.coordination.machine import Machine
from sharegroup.broker.coordination.offsets_log import OffsetsLog
from sharegroup.broker.coordination.runtime import Growth, Heard, Runtime, Spawn
from sharegroup.keyed_locks import KeyedLocks
from sharegroup.model.environment import Clock
from sharegroup.model.errors import NotCoordinator
from sharegroup.share_state.partitioning import group_partition

REWRITE_PER_LIVE: Final = 2
"""A log is rewritten only after it grew by this many records for each live record."""


class GroupRuntimes:
    """One runtime for each partition.

    Args:
        ranges: ``__individual_commit_offsets``, with as many partitions as ``topic``.
        machines: factories of empty machines, one for each type of group.
        records_per_rewrite: ``group.share.records.per.rewrite``, called at each use.
        after_load: work to run in the background after each load of a partition.
    """

    def __init__(
        self,
        topic: CoordinatorTopic,
        ranges: CoordinatorTopic,
        machines: Sequence[Callable[[], Machine[Any]]],
        clock: Clock,
        records_per_rewrite: Callable[[], int],
        after_load: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        growth = Growth(records_per_rewrite, REWRITE_PER_LIVE)
        self._locks = KeyedLocks()
        self._ranges = ranges
        self._runtimes = [
            Runtime(
                OffsetsLog(topic.partition(partition), ranges.partition(partition)),
                [*machines, ForeignRecords],
                clock,
                growth,
                after_load,
            )
            for partition in range(topic.partition_count)
        ]

    def all(self) -> Sequence[Runtime]:
        """The runtimes by partition."""
        return self._runtimes

    def of(self, group_id: str) -> Runtime:
        """The runtime that holds a group id."""
        count = len(self._runtimes)
        return self._runtimes[0 if count == 1 else group_partition(group_id, count)]

    async def ensure_ranges(self) -> None:
        """Make ``__individual_commit_offsets`` unless it exists: records of ranges are written
        there.

        Raises:
            KafkaStorageError: the disk failed.
        """
        await self._ranges.ensure()

    @asynccontextmanager
    async def holding(self, group_id: str) -> AsyncIterator[Runtime]:
        """Hold the lock of a group id inside the block; yields its loaded runtime. Other requests
        that change the group wait.

        Raises:
            CoordinatorLoadInProgress, CoordinatorNotAvailable: as ``Runtime.load_or_refuse``.
        """
        async with self._locks.holding(group_id):
            runtime = self.of(group_id)
            await runtime.load_or_refuse()
            yield runtime

    async def load(self) -> None:
        """Replay every partition that this node has.

        Raises:
            KafkaError: a log cannot be read.
        """
        for runtime in self._runtimes:
            with suppress(NotCoordinator):
                await runtime.load()

    def start(self, spawn: Spawn, heard: Heard) -> None:
        """Tick at deadlines and rewrite long logs from now on; ``spawn`` runs the work."""
        for runtime in self._runtimes:
            runtime.start(spawn, heard)

    def close(self) -> None:
        """Start no more background work."""
        for runtime in self._runtimes:
            runtime.close()
