"""Durable share state: the share coordinators of this broker, one per partition of
``__share_group_state``.

The group coordinator and the share-partition leaders of this process call it directly (Kafka
interface Persister); peers reach the same shards by wire (APIs 83-87).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sharegroup.broker.internal_topic import InternalTopic
from sharegroup.broker.share_state_shard import StateSettings, StateShard
from sharegroup.model.environment import Clock
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.share_state import StateBatch
from sharegroup.share_state.coordinator import ReadResult, ShareCoordinator, StateSummary
from sharegroup.share_state.partitioning import partition_for
from sharegroup.share_state.records import KeyedRecord

logger = logging.getLogger("sharegroup.broker")

_Item = TypeVar("_Item", bound=tuple[Any, ...])
_Decide: TypeAlias = Callable[[ShareCoordinator, _Item], Sequence[KeyedRecord]]


class Change(NamedTuple):
    """What a share-partition leader wants durable; -1 leaves the stored start offset or count."""

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class ShareStateLog:
    """Every share partition's durable state."""

    def __init__(self, topic: InternalTopic, settings: StateSettings, clock: Clock) -> None:
        self._topic = topic
        self._settings = settings
        self._clock = clock
        self._shards: dict[int, StateShard] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._spawn: Callable[[Coroutine[Any, Any, None]], None] | None = None
        self._shortening: set[StateShard] = set()

    @property
    def shards(self) -> list[StateShard]:
        """Those in use, for metrics and checks."""
        return list(self._shards.values())

    async def load(self) -> None:
        """Replay every partition of the state topic, so that the first request need not wait."""
        if self._topic.exists:
            for partition in range(self._topic.partition_count):
                await self._shard(partition).machine()

    # -- the persister ------------------------------------------------------------------------

    async def initialize(
        self, keys: Sequence[tuple[SharePartitionKey, int]], state_epoch: int
    ) -> None:
        """Begin delivery state for (key, start offset) pairs, durably; -1 is decided at load.

        Raises:
            KafkaError: of the first that is refused or cannot be written.
        """
        _raise_first(await self.initialize_each([(key, state_epoch, at) for key, at in keys]))

    async def initialize_each(
        self, wanted: Sequence[tuple[SharePartitionKey, int, int]]
    ) -> list[KafkaError | None]:
        """:meth:`initialize` of (key, state epoch, start offset), with an answer for each."""
        now_ms = self._clock.wall_ms()
        return await self._each(wanted, lambda machine, one: machine.initialize(*one, now_ms))

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadResult:
        """The state for a leader that loads it, after its predecessors are fenced durably.

        Raises:
            InvalidRequest: the key was never initialised.
            FencedLeaderEpoch: a later leader has read the state.
            KafkaStorageError: the disk failed.
        """
        now_ms = self._clock.wall_ms()
        shard = self._shard_of(key)
        return await shard.commit(lambda machine: machine.read(key, leader_epoch, now_ms))

    async def write(self, changes: Sequence[Change]) -> None:
        """Make changes of share partitions durable: one append per state partition for all of them.

        Raises:
            FencedStateEpoch, FencedLeaderEpoch, InvalidRequest: the share coordinator refuses one;
                the others are durable.
            KafkaStorageError: the disk failed; none of them may be taken as durable.
        """
        _raise_first(await self.write_each(changes))

    async def write_each(self, changes: Sequence[Change]) -> list[KafkaError | None]:
        """:meth:`write` with an answer for each change: None, or why it is not durable."""
        now_ms = self._clock.wall_ms()
        return await self._each(changes, lambda machine, one: [machine.write(*one, now_ms)])

    async def delete(self, keys: Sequence[SharePartitionKey]) -> None:
        """Forget the state of share partitions, durably; unknown ones are fine."""
        _raise_first(await self.delete_each([(key,) for key in keys]))

    async def delete_each(
        self, keys: Sequence[tuple[SharePartitionKey]]
    ) -> list[KafkaError | None]:
        """:meth:`delete` with an answer for each key."""
        return await self._each(keys, lambda machine, one: machine.delete(*one))

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        """Epochs, start offset and count; of an unknown key (0, 0, -1, -1).

        Raises:
            KafkaStorageError: the disk failed.
        """
        return (await self._shard_of(key).machine()).summary(key)

    async def knows(self, key: SharePartitionKey) -> bool:
        """Whether the key is initialised."""
        return key in await self._shard_of(key).machine()

    # -- keeping the logs short ---------------------------------------------------------------

    def start(self, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """Snapshot cold keys and prune at their intervals from now on; ``spawn`` runs the work."""
        self._spawn = spawn
        self._schedule("snapshot", self._settings.cold_interval_ms, StateShard.snapshot_cold)
        self._schedule("prune", self._settings.prune_interval_ms, StateShard.prune)

    def close(self) -> None:
        """Stop the timers."""
        self._spawn = None
        for timer in self._timers.values():
            timer.cancel()

    def _schedule(
        self, name: str, interval_ms: int, work: Callable[[StateShard], Awaitable[object]]
    ) -> None:
        def due() -> None:
            if self._spawn is not None:
                self._schedule(name, interval_ms, work)
                self._spawn(self._round(name, work))

        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(interval_ms / 1000, due)

    async def _round(self, name: str, work: Callable[[StateShard], Awaitable[object]]) -> None:
        """One round over all shards; what fails is tried again in the next one."""
        for shard in self.shards:
            try:
                await work(shard)
            except KafkaError as error:
                logger.warning("share state partition %d, %s: %s", shard.partition, name, error)

    async def _shorten(self, shard: StateShard) -> None:
        try:
            await shard.shorten()
        except KafkaError as error:
            logger.warning("share state partition %d, shorten: %s", shard.partition, error)
        finally:
            self._shortening.discard(shard)

    # -----------------------------------------------------------------------------------------

    def _shard_of(self, key: SharePartitionKey) -> StateShard:
        return self._shard(partition_for(key, self._topic.partition_count))

    def _shard(self, partition: int) -> StateShard:
        shard = self._shards.get(partition)
        if shard is None:
            shard = StateShard(self._topic, partition, self._settings, self._clock)
            self._shards[partition] = shard
        return shard

    async def _each(
        self, items: Sequence[_Item], decide: _Decide[_Item]
    ) -> list[KafkaError | None]:
        """Decide each item, whose first element is its key, in its shard; one append a shard."""
        outcomes: list[KafkaError | None] = [None] * len(items)
        by_shard: dict[StateShard, list[int]] = {}
        for index, item in enumerate(items):
            by_shard.setdefault(self._shard_of(item[0]), []).append(index)

        async def commit(shard: StateShard, indexes: list[int]) -> None:
            def decide_all(machine: ShareCoordinator) -> tuple[None, list[KeyedRecord]]:
                records: list[KeyedRecord] = []
                for index in indexes:
                    try:
                        records += decide(machine, items[index])
                    except KafkaError as error:
                        outcomes[index] = error
                return None, records

            try:
                await shard.commit(decide_all)
            except KafkaError as error:
                for index in indexes:
                    outcomes[index] = outcomes[index] or error
            if self._spawn is not None and shard not in self._shortening and shard.overgrown():
                self._shortening.add(shard)
                self._spawn(self._shorten(shard))

        if len(by_shard) == 1:
            await commit(*by_shard.popitem())
        else:
            await asyncio.gather(*(commit(*entry) for entry in by_shard.items()))
        return outcomes


def _raise_first(outcomes: Sequence[KafkaError | None]) -> None:
    for error in outcomes:
        if error is not None:
            raise error
