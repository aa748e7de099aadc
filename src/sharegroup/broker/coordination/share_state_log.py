"""Durable share state: the share coordinators of this broker, one per partition of
``__share_group_state``.

The group coordinator and the share-partition leaders of this process call it directly (Kafka
interface Persister); other brokers reach the same shards through APIs 83-87.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from sharegroup.broker.coordination.log import CoordinatorTopic
from sharegroup.broker.coordination.runtime import Spawn
from sharegroup.broker.coordination.share_state_shard import (
    Decide,
    StateSettings,
    StateShard,
    say_lost_letters,
)
from sharegroup.model.dead_records import DeadKey, DeadRecords
from sharegroup.model.environment import Clock
from sharegroup.model.errors import KafkaError, NotCoordinator
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition
from sharegroup.model.pending_acks import EndRules, PendingAck, TransactionMark
from sharegroup.model.share_state import DelayedRow, StateRow
from sharegroup.share_state.answers import CopiedState, ReadResult, StateSummary, Unfinished
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.partitioning import partition_for
from sharegroup.share_state.records import KeyedRecord

logger = logging.getLogger("sharegroup.broker")

_Item = TypeVar("_Item", bound=tuple[Any, ...])
_Result = TypeVar("_Result")


class StateWrite(NamedTuple):
    """A leader's change of one share partition; -1 keeps the stored start offset or count."""

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateRow, ...]
    lowers: bool = False
    """The batches replace the stored state of their offsets, even where a delivery count goes down.
    """
    delayed: tuple[DelayedRow, ...] = ()
    """Of ``batches``, those that must not be delivered again before a time, in milliseconds since
    1970."""
    dead: tuple[DeadRecords, ...] = ()
    """Records that failed for good with this change, and must become dead letters."""
    buried: tuple[DeadKey, ...] = ()
    """Dead records whose dead letters are written."""
    pending: tuple[PendingAck, ...] = ()
    """Acknowledgements that wait for a transaction from now on."""
    ended: tuple[TransactionMark, ...] = ()
    """Transactions whose acknowledgements wait no longer."""


class Placement(Protocol):
    """Which partition of the state topic has the state of a share partition, and whether this node
    has that partition."""

    def place(self, key: SharePartitionKey) -> int:
        """The partition."""
        ...

    def check(self, partition: int) -> None:
        """Raise NotCoordinator if another node has it."""
        ...


class AllHere:
    """This node has all partitions; keys are placed as by Kafka.

    Args:
        partitions: called at each use.
    """

    def __init__(self, partitions: Callable[[], int]) -> None:
        self._partitions = partitions

    def place(self, key: SharePartitionKey) -> int:
        """See ``Placement``."""
        return partition_for(key, self._partitions())

    def check(self, partition: int) -> None:
        """See ``Placement``."""


class ShareStateLog:
    """Every share partition's durable state.

    Args:
        exists: whether a topic with that id exists.
        placement: None: all state is here.
    """

    def __init__(
        self,
        topic: CoordinatorTopic,
        settings: StateSettings,
        clock: Clock,
        exists: Callable[[UUID], bool],
        placement: Placement | None = None,
    ) -> None:
        self._topic = topic
        self._placement = placement or AllHere(lambda: topic.partition_count)
        self._exists = exists
        self._settings = settings
        self._clock = clock
        self._shards: dict[int, StateShard] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._spawn: Spawn | None = None

    @property
    def shards(self) -> list[StateShard]:
        """The shards in use, for metrics and checks."""
        return list(self._shards.values())

    async def load(self) -> None:
        """Replay every partition of the state topic now, so that the first request need not wait
        for it."""
        if self._topic.exists:
            for partition in range(self._topic.partition_count):
                with suppress(NotCoordinator):
                    await self._shard(partition).machine()

    async def take(self, partition: int) -> None:
        """This node has got a partition of the state topic: load it.

        Raises:
            KafkaError: it cannot be read.
        """
        await self._shard(partition).machine()

    async def give_up(self, partition: int) -> None:
        """Another node is to have a partition: write what was decided, and forget its state."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            await shard.give_up()

    async def offsets_seen(self) -> dict[TopicIdPartition, int]:
        """For each partition, the end of the offsets that leaders have seen.

        Raises:
            KafkaStorageError: the disk failed.
        """
        seen: dict[TopicIdPartition, int] = {}
        for shard in self.shards:
            for where, end in (await shard.machine()).offsets_seen().items():
                seen[where] = max(seen.get(where, 0), end)
        return seen

    async def keys_before(self, starts: Mapping[TopicIdPartition, int]) -> list[SharePartitionKey]:
        """Of the share partitions with a log in ``starts``, those whose own start offset lies
        before the start of the log. Of a shard that cannot be read there are none: its share
        partitions look at the log when they are loaded.
        """
        found: list[SharePartitionKey] = []
        for shard in self.shards:
            try:
                found += (await shard.machine()).keys_before(starts)
            except KafkaError as error:
                logger.warning("deleted records are not taken out of share groups yet: %s", error)
        return found

    async def unfinished(
        self, groups: Mapping[UUID, Collection[str]]
    ) -> dict[SharePartitionKey, Unfinished]:
        """What is unfinished in the share partitions of ``groups``, by topic id: by the durable
        state, or by the state at the return. Share partitions without a state are left out.

        Raises:
            CoordinatorLoadInProgress: a shard is being loaded.
            KafkaStorageError: the disk failed.
        """
        durable: dict[SharePartitionKey, Unfinished] = {}
        for shard in self.shards:
            durable |= await shard.commit(lambda machine: (machine.unfinished(groups), ()))
        # An operator may have moved a group back meanwhile, or deleted it.
        now: dict[SharePartitionKey, Unfinished] = {}
        for shard in self.shards:
            now |= shard.unfinished(groups)
        return {key: one.since(durable.get(key)) for key, one in now.items()}

    # -- the persister ------------------------------------------------------------------------

    async def initialize(
        self, keys: Sequence[tuple[SharePartitionKey, int]], state_epoch: int
    ) -> None:
        """Initialise delivery state for (key, start offset) pairs, durably. For start offset -1 the
        leader chooses one when it loads the state.

        Raises:
            FencedStateEpoch, InvalidRequest: one key is refused; the others are durable.
            KafkaStorageError: the disk failed; no key may be assumed durable.
        """
        now_ms = self._clock.wall_ms()
        await self._each(
            keys, lambda machine, one: machine.initialize(one[0], state_epoch, one[1], now_ms)
        )

    async def _copy(self, key: SharePartitionKey) -> CopiedState:
        return await self.commit(key, lambda machine: (machine.copy(key), ()))

    async def fork(
        self, source_id: str, keys: Sequence[SharePartitionKey], state_epoch: int
    ) -> None:
        """Initialise the state of share partitions with copies of that of another group, durably.

        Raises:
            FencedStateEpoch: one key is refused; the others are durable.
            KafkaStorageError: the disk failed; no key may be assumed durable.
        """
        copies = [(key, await self._copy(key._replace(group_id=source_id))) for key in keys]
        now_ms = self._clock.wall_ms()
        await self._each(
            copies, lambda machine, one: machine.fork(one[0], state_epoch, one[1], now_ms)
        )

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadResult:
        """The state, for a leader that loads it; earlier leaders are first fenced, durably.

        Raises:
            InvalidRequest: the key was never initialised.
            FencedLeaderEpoch: a later leader has read the state.
            KafkaStorageError: the disk failed.
        """
        now_ms = self._clock.wall_ms()
        return await self.commit(key, lambda machine: machine.read(key, leader_epoch, now_ms))

    async def write(self, changes: Sequence[StateWrite]) -> None:
        """Make changes of share partitions durable, with one append per state partition.

        Raises:
            FencedStateEpoch, FencedLeaderEpoch, InvalidRequest: the share coordinator refuses one
                change; the others are durable.
            KafkaStorageError: the disk failed; no change may be assumed durable.
        """
        now_ms = self._clock.wall_ms()

        def decide(machine: ShareCoordinator, one: StateWrite) -> list[KeyedRecord]:
            record = machine.write(
                *one[:6],
                now_ms,
                lowers=one.lowers,
                delayed=one.delayed,
                dead=one.dead,
                buried=one.buried,
                pending=one.pending,
                ended=one.ended,
            )
            return [record]

        await self._each(changes, decide)

    def loaded_keys(self) -> list[SharePartitionKey]:
        """The share partitions with state here, as far as it is loaded, sorted."""
        return sorted([key for shard in self.shards for key in shard.loaded_keys()])

    async def keys_with_dead(self) -> list[SharePartitionKey]:
        """The share partitions with dead records that have no dead letter yet.

        Raises:
            KafkaStorageError: the disk failed.
        """
        return [key for shard in self.shards for key in (await shard.machine()).keys_with_dead()]

    def dead_counts(self) -> dict[str, int]:
        """How many dead records each group has that have no dead letter yet, as far as the state is
        loaded."""
        counts: Counter[str] = Counter()
        for shard in self.shards:
            counts.update(shard.dead_counts())
        return dict(counts)

    def dead_weight(self, key: SharePartitionKey) -> int:
        """About how many bytes the dead records of a share partition take in its durable state, if
        that is loaded."""
        return self._shard_of(key).dead_weight(key)

    async def dead(self, key: SharePartitionKey) -> list[DeadRecords]:
        """The dead records of a share partition that have no dead letter yet, ascending.

        Raises:
            KafkaStorageError: the disk failed.
        """
        return (await self._shard_of(key).machine()).dead(key)

    async def bury(
        self, key: SharePartitionKey, left: Mapping[DeadKey, Sequence[DeadRecords]]
    ) -> None:
        """Forget dead records whose dead letters are written, durably; see
        :meth:`ShareCoordinator.bury`.

        Raises:
            KafkaStorageError: the disk failed.
        """
        now_ms = self._clock.wall_ms()
        await self.commit(key, lambda machine: (None, machine.bury(key, left, now_ms)))

    def partition_of(self, key: SharePartitionKey) -> int:
        """The partition of ``__share_group_state`` that has the state of a share partition."""
        return self._placement.place(key)

    async def pending_of(
        self, partition: int, transaction: TransactionMark
    ) -> dict[SharePartitionKey, list[PendingAck]]:
        """As :meth:`ShareCoordinator.pending_of`, in one partition of the state topic.

        Raises:
            KafkaStorageError: the disk failed.
        """
        return (await self._shard(partition).machine()).pending_of(transaction)

    async def end_transaction(
        self,
        key: SharePartitionKey,
        transaction: TransactionMark,
        rules: EndRules,
        *,
        committed: bool,
    ) -> None:
        """:meth:`ShareCoordinator.end_transaction`, durably.

        Raises:
            KafkaStorageError: the disk failed.
        """
        now_ms = self._clock.wall_ms()

        def decide(machine: ShareCoordinator) -> tuple[None, list[KeyedRecord]]:
            return None, machine.end_transaction(
                key, transaction, now_ms, rules, committed=committed
            )

        await self.commit(key, decide)

    async def delete(self, keys: Sequence[SharePartitionKey]) -> None:
        """Delete the state of share partitions, durably; unknown keys are ignored.

        Raises:
            KafkaStorageError: the disk failed.
        """

        def decide(machine: ShareCoordinator, one: tuple[SharePartitionKey]) -> list[KeyedRecord]:
            say_lost_letters(machine, one)
            return machine.delete(*one)

        await self._each([(key,) for key in keys], decide)

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        """Epochs, start offset and count; (0, 0, -1, -1) for an unknown key.

        Raises:
            KafkaStorageError: the disk failed.
        """
        return (await self._shard_of(key).machine()).summary(key)

    async def read_summaries(
        self, keys: Sequence[SharePartitionKey]
    ) -> dict[SharePartitionKey, StateSummary]:
        """:meth:`read_summary` of those keys that are initialised.

        Raises:
            KafkaStorageError: the disk failed.
        """
        return {key: await self.read_summary(key) for key in keys if await self.knows(key)}

    async def knows(self, key: SharePartitionKey) -> bool:
        """Whether the key is initialised.

        Raises:
            KafkaStorageError: the disk failed.
        """
        return key in await self._shard_of(key).machine()

    async def commit(self, key: SharePartitionKey, decide: Decide[_Result]) -> _Result:
        """:meth:`StateShard.commit` in the shard of ``key``."""
        return await self._shard_of(key).commit(decide)

    # -- keeping the logs short ---------------------------------------------------------------

    def start(self, spawn: Spawn) -> None:
        """Start the background work: snapshot cold keys and prune at their intervals, and rewrite
        logs that are too long. ``spawn`` runs the work.

        First deletes the state of topics whose deletion was interrupted by a crash.
        """
        self._spawn = spawn
        for shard in self.shards:
            shard.start(spawn)
        spawn(self.forget_missing_topics())
        self._schedule("snapshot", self._settings.cold_interval_ms, StateShard.snapshot_cold)
        self._schedule("prune", self._settings.prune_interval_ms, StateShard.prune)

    def close(self) -> None:
        """Stop the timers."""
        self._spawn = None
        for shard in self.shards:
            shard.close()
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

    async def forget_missing_topics(self) -> None:
        """Delete every group's state of topics that no longer exist."""
        await self._round("topics", lambda shard: shard.forget_missing_topics(self._exists))

    async def _round(self, name: str, work: Callable[[StateShard], Awaitable[object]]) -> None:
        """Do ``work`` on all shards; a shard that fails is tried again in the next round."""
        for shard in self.shards:
            try:
                await work(shard)
            except KafkaError as error:
                logger.warning("share state partition %d, %s: %s", shard.partition, name, error)

    # -----------------------------------------------------------------------------------------

    def _shard_of(self, key: SharePartitionKey) -> StateShard:
        return self._shard(self.partition_of(key))

    def _shard(self, partition: int) -> StateShard:
        self._placement.check(partition)
        shard = self._shards.get(partition)
        if shard is None:
            shard = StateShard(self._topic, partition, self._settings, self._clock)
            self._shards[partition] = shard
            if self._spawn is not None:
                shard.start(self._spawn)
        return shard

    async def _each(
        self,
        items: Sequence[_Item],
        decide: Callable[[ShareCoordinator, _Item], Sequence[KeyedRecord]],
    ) -> None:
        """Decide each item in the shard of its key, with one append per shard. The key is the first
        element of an item.

        If one item is refused, the others are still written; the error is raised afterwards.
        """
        by_shard: dict[StateShard, list[_Item]] = {}
        for item in items:
            by_shard.setdefault(self._shard_of(item[0]), []).append(item)
        refused: list[KafkaError] = []

        async def commit(shard: StateShard, own: list[_Item]) -> None:
            def decide_all(machine: ShareCoordinator) -> tuple[None, list[KeyedRecord]]:
                records: list[KeyedRecord] = []
                for item in own:
                    try:
                        records += decide(machine, item)
                    except KafkaError as error:
                        refused.append(error)
                return None, records

            try:
                await shard.commit(decide_all)
            except KafkaError as error:
                refused.append(error)

        if len(by_shard) == 1:
            await commit(*by_shard.popitem())
        else:
            await asyncio.gather(*(commit(*entry) for entry in by_shard.items()))
        if refused:
            raise refused[0]
