"""One partition of ``__share_group_state`` and the machine over it.

Decide (the machine), append, wait until durable; only then does the caller answer. Deciding and
appending happen in one step of the loop, so the log has the machine's order, whoever asks: a
share-partition leader here, or a peer by wire. When an append fails the machine is ahead of the
log: it is thrown away and replayed, and until that has succeeded every request is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from sharegroup.broker.internal_topic import InternalTopic
from sharegroup.model.environment import Clock
from sharegroup.model.errors import KafkaError
from sharegroup.model.histogram import Histogram
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord
from sharegroup.wire.internal.share_state import SNAPSHOT_PREFIX, decode_record, encode_record

logger = logging.getLogger("sharegroup.broker")

_Result = TypeVar("_Result")
Decide: TypeAlias = Callable[[ShareCoordinator], tuple[_Result, Sequence[KeyedRecord]]]
"""Checks and applies a request; its result and the records that stand for it. What it raises has
changed nothing."""

SNAPSHOTS_PER_BATCH: Final = 100
"""Cold snapshots written at once; requests pass between two batches."""
RECORDS_PER_KEY: Final = 8
"""A log of so many records for each live key is not worth shortening."""


class StateSettings(NamedTuple):
    """``share.coordinator.``: ``snapshot.update.records.per.snapshot``,
    ``state.topic.prune.interval.ms``, ``cold.partition.snapshot.interval.ms``.

    A log of more than ``records_max`` records, if that is long for its number of keys, is shortened
    without waiting for the intervals, so that a start takes as long as there is live state: it
    passes over that many in less than a second.
    """

    updates_per_snapshot: int = 500
    prune_interval_ms: int = 300_000
    cold_interval_ms: int = 300_000
    records_max: int = 100_000


class StateShard:
    """The share coordinator of one state partition."""

    def __init__(
        self, topic: InternalTopic, partition: int, settings: StateSettings, clock: Clock
    ) -> None:
        self.partition = partition
        self.write_seconds = Histogram()
        """Commits, until they are durable."""
        self.load_seconds = Histogram()
        self.last_pruned_offset: int | None = None
        """Where the last pruning moved the log start; None before there was one."""
        self._topic = topic
        self._settings = settings
        self._clock = clock
        self._machine: ShareCoordinator | None = None
        self._loading: asyncio.Future[None] | None = None

    @property
    def loaded(self) -> bool:
        """Whether the machine is there."""
        return self._machine is not None

    async def machine(self) -> ShareCoordinator:
        """The machine, loaded when it is not. Good until the caller next gives way.

        Raises:
            KafkaError: the log cannot be read, or holds what will never be durable.
        """
        while self._machine is None:
            if self._loading is None:
                self._loading = asyncio.ensure_future(self._load())
                self._loading.add_done_callback(self._loaded)
            await asyncio.shield(self._loading)
        return self._machine

    async def commit(self, decide: Decide[_Result]) -> _Result:
        """What ``decide`` returns, once the records it returns with it are durable.

        Without a record that is once all before is durable, so that nobody is told what may yet be
        taken back.

        Raises:
            KafkaError: as ``decide``; or the log failed.
        """
        now_s = asyncio.get_running_loop().time
        started = now_s()
        await self._topic.ensure()
        machine = await self.machine()
        result, records = decide(machine)
        try:
            if records:
                end = self._topic.write(self.partition, [encode_record(r) for r in records])
            else:
                end = self._topic.log(self.partition).log_end_offset
            await self._topic.wait_durable(self.partition, end)
        except KafkaError as error:
            await self._failed(machine, error)
            raise
        for offset, (key, value) in enumerate(records, start=end - len(records)):
            machine.appended(key, value, offset)
        self.write_seconds.observe(now_s() - started)
        return result

    async def forget_missing_topics(self, exists: Callable[[UUID], bool]) -> int:
        """Delete the state of topics that do not exist; of how many keys."""
        keys = (await self.machine()).keys_of_other_topics(exists)
        if not keys:
            return 0

        def decide(machine: ShareCoordinator) -> tuple[int, list[KeyedRecord]]:
            records = [record for key in keys for record in machine.delete(key)]
            return len(records), records

        return await self.commit(decide)

    # -- keeping the log short ----------------------------------------------------------------

    async def snapshot_cold(self) -> int:
        """Write snapshots of the keys that had none for the interval; how many."""
        now_ms = self._clock.wall_ms()
        keys = (await self.machine()).cold_keys(now_ms, self._settings.cold_interval_ms)
        return await self._snapshot(keys)

    async def prune(self) -> int | None:
        """Delete records that later snapshots replace; the new log start, None for no change."""
        machine = await self.machine()
        if not self._topic.exists:
            return None
        log = self._topic.log(self.partition)
        needed = machine.lowest_needed(log.high_watermark)
        if needed is None or needed <= log.log_start_offset:
            return None
        self.last_pruned_offset = await log.delete_records(needed)
        return self.last_pruned_offset

    def overgrown(self) -> bool:
        """Whether a start would have to pass over far more records than there is live state."""
        if self._machine is None or not self._topic.exists:
            return False
        log = self._topic.log(self.partition)
        records = log.log_end_offset - log.log_start_offset
        return records > self._settings.records_max + RECORDS_PER_KEY * len(self._machine)

    async def shorten(self) -> None:
        """Leave at most half of an overgrown log, whatever the intervals say."""
        machine = await self.machine()
        log = self._topic.log(self.partition)
        middle = (log.log_start_offset + log.log_end_offset) // 2
        await self._snapshot(machine.keys_held_below(middle))
        await self.prune()

    async def _snapshot(self, keys: Sequence[SharePartitionKey]) -> int:
        now_ms, rest, written = self._clock.wall_ms(), iter(keys), 0
        while chunk := list(islice(rest, SNAPSHOTS_PER_BATCH)):

            def decide(machine: ShareCoordinator) -> tuple[int, list[KeyedRecord]]:
                records = machine.cold_snapshots(chunk, now_ms)
                return len(records), records

            written += await self.commit(decide)
        return written

    # -- loading ------------------------------------------------------------------------------

    def _loaded(self, loading: asyncio.Future[None]) -> None:
        self._loading = None
        if not loading.cancelled():
            loading.exception()  # every waiter has it; nobody waiting is no fault

    async def _load(self) -> None:
        """Replay the log into a new machine."""
        now_s = asyncio.get_running_loop().time
        started = now_s()
        machine = ShareCoordinator(self._settings.updates_per_snapshot)
        if self._topic.exists:
            await self._topic.ensure()  # all of it
            await self._topic.settle(self.partition)  # what is on its way must not be forgotten
            for offset, raw_key, raw_value in await self._live():
                with self._topic.passing_over(self.partition, offset):
                    record = decode_record(raw_key, raw_value)
                    if record is not None:
                        machine.replay(record.key, record.value, offset)
        self._machine = machine
        self.load_seconds.observe(now_s() - started)

    async def _live(self) -> list[tuple[int, bytes, bytes]]:
        """(offset, key, value) of each share partition's last snapshot and the updates since.

        A snapshot or tombstone makes all before it worthless; nothing is decoded for that.
        """
        live: dict[bytes, list[tuple[int, bytes, bytes]]] = {}
        async for offset, raw_key, raw_value in self._topic.replay(self.partition):
            share_partition = raw_key[2:]
            if raw_value is None:
                live.pop(share_partition, None)
            elif raw_key.startswith(SNAPSHOT_PREFIX):
                live[share_partition] = [(offset, raw_key, raw_value)]
            elif share_partition in live:
                live[share_partition].append((offset, raw_key, raw_value))
        return [record for records in live.values() for record in records]

    async def _failed(self, machine: ShareCoordinator, error: KafkaError) -> None:
        """Take out of the machine what could not be written."""
        if self._machine is machine:
            logger.error("share state cannot be written, loading it again: %s", error)
            self._machine = None
        try:
            await self.machine()
        except KafkaError as unreadable:
            logger.error("share state cannot be read either: %s", unreadable)
