"""The share coordinator of one partition of ``__share_group_state``, over the runtime.

All decisions are taken in log order, for share-partition leaders here and for other brokers alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from sharegroup.broker.coordination.log import CoordinatorTopic
from sharegroup.broker.coordination.runtime import Growth, Runtime, Spawn
from sharegroup.broker.coordination.share_state_machine import ShareStateMachine
from sharegroup.model.environment import Clock
from sharegroup.model.errors import CoordinatorLoadInProgress
from sharegroup.model.histogram import Histogram
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share_state.answers import Unfinished
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord

logger = logging.getLogger("sharegroup.broker")

_Result = TypeVar("_Result")
Decide: TypeAlias = Callable[[ShareCoordinator], tuple[_Result, Sequence[KeyedRecord]]]
"""Checks and applies a request; returns its result and its records. If it raises, it has changed
nothing."""

SNAPSHOTS_PER_BATCH: Final = 100
"""Cold snapshots in one write; other requests run between two writes."""
RECORDS_PER_KEY: Final = 8
"""A log with at most this many records per live key is not worth shortening."""


def say_lost_letters(machine: ShareCoordinator, keys: Iterable[SharePartitionKey]) -> None:
    """Log which of these share partitions, about to be deleted, have dead records without a dead
    letter."""
    for key in keys:
        lost = sum(one.size for one in machine.dead(key))
        if lost:
            logger.warning(
                "the delivery state of %s is deleted: %d records had failed for good, and their "
                "dead letters were not written yet and never will be",
                key,
                lost,
            )


class StateSettings(NamedTuple):
    """``share.coordinator.``: ``snapshot.update.records.per.snapshot``,
    ``state.topic.prune.interval.ms``, ``cold.partition.snapshot.interval.ms``.

    A log that grows by ``records_max`` records, and is long for its number of keys, is rewritten
    without waiting for the intervals. So the time of a start depends on the live state only: replay
    reads ``records_max`` records in less than a second.
    """

    updates_per_snapshot: int = 500
    prune_interval_ms: int = 300_000
    cold_interval_ms: int = 300_000
    records_max: int = 100_000


class StateShard:
    """The share coordinator of one state partition."""

    def __init__(
        self, topic: CoordinatorTopic, partition: int, settings: StateSettings, clock: Clock
    ) -> None:
        self.partition = partition
        self._settings = settings
        self._clock = clock
        log = self._log = topic.partition(partition)
        self._runtime = Runtime(
            log,
            [lambda: ShareStateMachine(settings.updates_per_snapshot, clock, log.leave_out)],
            clock,
            Growth(lambda: settings.records_max, RECORDS_PER_KEY),
        )

    @property
    def loaded(self) -> bool:
        """Whether the machine is loaded."""
        return self._runtime.loaded

    @property
    def write_seconds(self) -> Histogram:
        """How long commits took to become durable."""
        return self._runtime.write_seconds

    @property
    def load_seconds(self) -> Histogram:
        """How long replays of the log took."""
        return self._runtime.load_seconds

    @property
    def last_pruned_offset(self) -> int | None:
        """The log start after the last deletion of records; None before the first deletion."""
        return self._runtime.deleted_before

    def loaded_keys(self) -> list[SharePartitionKey]:
        """The share partitions with state; none before the machine is loaded."""
        if not self._runtime.loaded:
            return []
        return list(self._runtime.machine(ShareStateMachine).states)

    def dead_counts(self) -> dict[str, int]:
        """How many dead records without a dead letter each group has; nothing before the machine is
        loaded."""
        if not self._runtime.loaded:
            return {}
        return self._runtime.machine(ShareStateMachine).states.dead_counts()

    def dead_weight(self, key: SharePartitionKey) -> int:
        """About how many bytes the dead records of a key take in a snapshot; 0 before the machine
        is loaded."""
        if not self._runtime.loaded:
            return 0
        return self._runtime.machine(ShareStateMachine).states.dead_weight(key)

    def unfinished(
        self, groups: Mapping[UUID, Collection[str]]
    ) -> dict[SharePartitionKey, Unfinished]:
        """As :meth:`ShareCoordinator.unfinished`, now, durable or not.

        Raises:
            CoordinatorLoadInProgress: the machine is not loaded.
        """
        if not self._runtime.loaded:
            raise CoordinatorLoadInProgress
        return self._runtime.machine(ShareStateMachine).states.unfinished(groups)

    async def machine(self) -> ShareCoordinator:
        """The machine, loaded if necessary. Do not keep it across an ``await``.

        Raises:
            KafkaError: the log cannot be read, or holds records that will never be durable.
        """
        await self._runtime.load()
        return self._runtime.machine(ShareStateMachine).states

    async def behind(self) -> list[SharePartitionKey]:
        """Share partitions whose state may be older than the last durable one: the replay had to
        leave out damaged records after their last snapshot.

        Raises:
            KafkaError: the log cannot be read.
        """
        machine = await self.machine()
        damaged = max((last for _, last in self._log.left_out), default=-1)
        return machine.keys_without_snapshot_since(damaged) if damaged >= 0 else []

    async def commit(self, decide: Decide[_Result]) -> _Result:
        """Decide, and return the result once its records are durable. A result without records is
        returned once all earlier records are durable.

        Raises:
            KafkaError: as ``decide``; or the log failed.
        """
        return await self._runtime.commit(ShareStateMachine, lambda m: decide(m.states))

    async def forget_missing_topics(self, exists: Callable[[UUID], bool]) -> int:
        """Delete the state of topics that do not exist; returns the number of keys."""
        keys = (await self.machine()).keys_of_other_topics(exists)
        if not keys:
            return 0

        def decide(machine: ShareCoordinator) -> tuple[int, list[KeyedRecord]]:
            say_lost_letters(machine, keys)
            records = [record for key in keys for record in machine.delete(key)]
            return len(records), records

        return await self.commit(decide)

    # -- keeping the log short ----------------------------------------------------------------

    def start(self, spawn: Spawn) -> None:
        """From now on rewrite the log when it is too long; ``spawn`` runs the work."""
        self._runtime.start(spawn)

    def close(self) -> None:
        """Start no more background work."""
        self._runtime.close()

    async def give_up(self) -> None:
        """Let another node have the log; this shard is not used any more."""
        self._runtime.close()
        await self._runtime.give_up()

    async def snapshot_cold(self) -> int:
        """Write snapshots of keys without one during the interval; returns their number."""
        now_ms = self._clock.wall_ms()
        keys = (await self.machine()).cold_keys(now_ms, self._settings.cold_interval_ms)
        rest, written = iter(keys), 0
        while chunk := list(islice(rest, SNAPSHOTS_PER_BATCH)):

            def decide(machine: ShareCoordinator) -> tuple[int, list[KeyedRecord]]:
                records = machine.cold_snapshots(chunk, now_ms)
                return len(records), records

            written += await self.commit(decide)
        return written

    async def prune(self) -> int | None:
        """Delete records that later snapshots replace. Returns the new log start, or None if it is
        unchanged."""
        return await self._runtime.prune()

    async def shorten(self) -> None:
        """Rewrite all state now and delete the older records."""
        await self._runtime.rewrite()
