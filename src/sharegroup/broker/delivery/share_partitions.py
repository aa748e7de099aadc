"""Share partitions that this broker leads: loaded on first use, ticked at their deadlines, fenced
when a write fails.

Each holds the delivery core (``share.partition``), its log, and an exclusive fetch lock (Kafka
class SharePartitionManager). The rule is *decide, persist, answer*: a change of the core is durable
before a client learns of it. If the write fails, the share partition is discarded and loaded again
from its durable state. Its acquisition locks are lost, and those records are redelivered
(at-least-once allows it). It is loaded no sooner than :data:`REST_S` after the failure: while a
disk is full, its records would be given out, answered and refused as fast as members can ask.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from sharegroup.broker.coordination.share_state_log import ShareStateLog, StateWrite
from sharegroup.broker.delivery import group_rules
from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.state_writes import as_loaded, as_write
from sharegroup.broker.hot_path_counters import Meters
from sharegroup.broker.leadership import Leadership
from sharegroup.broker.waiters import FetchWaiters
from sharegroup.groups.config import GroupSettings
from sharegroup.groups.offset_reset import OffsetResetKind
from sharegroup.model import errors
from sharegroup.model.environment import Clock
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition
from sharegroup.model.limits import DEAD_WEIGHT_MAX, GROUP_SETTINGS_MAX
from sharegroup.model.log import ReadableLog
from sharegroup.model.offsets import UNKNOWN_OFFSET
from sharegroup.share.archived import Archived, Reason
from sharegroup.share.order.log_order import LogOrder
from sharegroup.share.partition import SharePartition
from sharegroup.share.session import BrokerShareSession
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.state_changes import StateChange
from sharegroup.share_state.state import NO_EPOCH, UNKNOWN_COUNT

logger = logging.getLogger("sharegroup.broker")

READ_COMMITTED: Final = "read_committed"
REST_S: Final = 0.5
"""How long a share partition whose state could not be written is not loaded again."""
_MOVED: Final = (errors.FencedLeaderEpoch, errors.FencedStateEpoch, errors.NotCoordinator)
"""Another broker leads the share partition, or has its state."""


class SharePartitions:
    """All share partitions of one broker.

    Args:
        leadership: must name this node as the leader of what is loaded.
        meters: record load times and the fate of records.
        settings_of: a group's effective settings; called at every use, since they may change.
        spawn: runs a coroutine in the background and reports its failure.
        dead_letters: whether ``share.version`` allows dead letters.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        leadership: Leadership,
        state: ShareStateLog,
        waiters: FetchWaiters,
        settings_of: Callable[[str], GroupSettings],
        meters: Meters,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        dead_letters: bool,
    ) -> None:
        self._dead_letters = dead_letters
        self.died: Callable[[SharePartitionKey], None] = lambda _: None
        """Called when dead records of a share partition have become durable."""
        self.may_deliver: Callable[[], bool] = lambda: True
        """Whether no other broker can have taken over what this one leads."""
        self._leadership = leadership
        self._clock = clock
        self._state = state
        self._waiters = waiters
        self._settings_of = settings_of
        self._meters = meters
        self.spawn = spawn
        self._led: dict[SharePartitionKey, LedSharePartition] = {}
        self._delivery_settings: dict[str, tuple[GroupSettings, DeliverySettings]] = {}
        self._loading: dict[SharePartitionKey, asyncio.Future[LedSharePartition]] = {}
        self._resting: dict[SharePartitionKey, asyncio.TimerHandle] = {}
        """Share partitions whose state could not be written, and the end of their rest."""
        self._deleting: dict[TopicIdPartition, str] = {}
        """Partition → what is deleting its records now, for the log."""
        self._capped: dict[SharePartitionKey, str] = {}
        """Share partition → the cap that has taken records that retention held for it."""

    def find(self, key: SharePartitionKey) -> LedSharePartition | None:
        """The share partition, or None if it is not loaded."""
        return self._led.get(key)

    def all(self) -> list[LedSharePartition]:
        """The loaded share partitions."""
        return list(self._led.values())

    def delivery_settings(self, group_id: str) -> DeliverySettings:
        """The group's current delivery settings.

        If a change needs it, as that of ``share.ordering``, the group's share partitions are
        discarded, which releases all locks. So ask for the settings before :meth:`find`.
        """
        settings = self._settings_of(group_id)
        known = self._delivery_settings.get(group_id)
        if known is not None and known[0] is not settings and known[0] == settings:
            # They were not at hand any more, and resolved again.
            known = self._delivery_settings[group_id] = (settings, known[1])
        if known is None or known[0] is not settings:
            delivery = group_rules.delivery_settings(settings, dead_letters=self._dead_letters)
            before, known = known, (settings, delivery)
            if before is None:
                self._make_room()
            self._delivery_settings[group_id] = known
            if before is not None and (
                why := group_rules.reason_to_load_again(before[1], delivery)
            ):
                self._drop(lambda key: key.group_id == group_id, why)
            for led in [led for key, led in self._led.items() if key.group_id == group_id]:
                led.core.order.configure(known[1])
        return known[1]

    def _make_room(self) -> None:
        """Forget the settings of groups without loaded share partitions, once there are too many:
        clients name groups as they like. Those of the others tell what a change of them needs."""
        if len(self._delivery_settings) >= GROUP_SETTINGS_MAX + len(self._led):
            loaded = {key.group_id for key in self._led}
            self._delivery_settings = {
                group_id: known
                for group_id, known in self._delivery_settings.items()
                if group_id in loaded
            }

    def reads_committed(self, group_id: str) -> bool:
        """Whether the group sees records of committed transactions only."""
        return self._settings_of(group_id).isolation_level == READ_COMMITTED

    async def get(self, key: SharePartitionKey, log: ReadableLog) -> LedSharePartition:
        """The share partition, loaded from its durable state if necessary.

        Raises:
            KafkaError: it cannot be loaded; the error is fit for a client.
        """
        led = self._led.get(key)
        while led is None or led.fenced or led.log is not log:
            if self.rests(key):
                self._leadership.check(key.topic_id, key.partition)
                raise errors.CoordinatorNotAvailable(f"the state of {key} could not be written")
            loading = self._loading.get(key)
            if loading is None or loading.done():  # what it has loaded is fenced already
                loading = asyncio.ensure_future(self._timed_load(key, log))
                self._loading[key] = loading
                loading.add_done_callback(partial(self._loaded, key))
            led = await asyncio.shield(loading)
        return led

    def _loaded(self, key: SharePartitionKey, loading: asyncio.Future[LedSharePartition]) -> None:
        if self._loading.get(key) is loading:
            del self._loading[key]

    async def _timed_load(self, key: SharePartitionKey, log: ReadableLog) -> LedSharePartition:
        now_s = asyncio.get_running_loop().time
        started = now_s()
        led = await self._load(key, log)
        self._meters.load_seconds.observe(now_s() - started)
        return led

    async def _load(self, key: SharePartitionKey, log: ReadableLog) -> LedSharePartition:
        self._leadership.check(key.topic_id, key.partition)
        leader_epoch = self._leadership.leader(key.topic_id, key.partition).epoch
        try:
            reading_epoch = await self._reading_epoch(key, log, leader_epoch)
            state = await self._state.read(key, reading_epoch)
            start_offset = state.start_offset
            if start_offset == UNKNOWN_OFFSET:
                # Write the chosen start offset now. Kafka writes it only with the first
                # acknowledgement: after a crash before that it chooses again, and skips records
                # delivered in between. UNKNOWN_COUNT marks it as a choice only: the group has
                # begun here when a later write brings a count.
                start_offset = await self._reset_offset(key, log)
                epochs = (state.state_epoch, leader_epoch)
                await self._state.write([StateWrite(key, *epochs, start_offset, UNKNOWN_COUNT, ())])
            order = group_rules.order_of(self.delivery_settings(key.group_id))
            if order is not LogOrder and state.pending:  # the order would not know their keys
                raise errors.OffsetNotAvailable(
                    "transactions hold records from before the group's order"
                )
            core = SharePartition(
                start_offset=start_offset,
                state_epoch=state.state_epoch,
                leader_epoch=leader_epoch,
                batches=state.batches,
                delayed=as_loaded(state.delayed, self._clock),
                pending=state.pending,
                archived=Archived(self._meters.records_of(key.group_id, key.topic_id).archived),
                order=order,
            )
        except _MOVED as error:
            raise errors.NotLeaderOrFollower(str(error)) from error
        except errors.InvalidRequest as error:
            raise errors.CoordinatorNotAvailable(
                f"{key} has no delivery state yet: {error}"
            ) from error
        except ValueError as error:
            logger.error("the durable state of %s is invalid: %s", key, error)
            raise errors.UnknownServerError(str(error)) from error
        led = LedSharePartition(key, log, core, self._clock, self._deadline)
        if self._loading.get(key) is not asyncio.current_task():
            led.fenced = True  # the durable state was changed while it was read
            return led
        self._led[key] = led
        self.schedule(led)  # records may rest
        self._crowd(led)
        await self.follow_log_start(led)
        return led

    async def _reading_epoch(
        self, key: SharePartitionKey, log: ReadableLog, leader_epoch: int
    ) -> int:
        """The leader epoch to read the state with; NO_EPOCH if the state begins past the end of the
        log.

        An administrator may set such a start offset. A stored leader epoch would be taken as proof
        that a leader has seen these offsets (:mod:`sharegroup.broker.delivery.lost_state`).
        """
        summary = await self._state.read_summary(key)
        end = (await log.offsets()).end
        return leader_epoch if summary.start_offset <= end else NO_EPOCH

    async def _reset_offset(self, key: SharePartitionKey, log: ReadableLog) -> int:
        """The start offset by ``share.auto.offset.reset``, for a partition without one."""
        reset = self._settings_of(key.group_id).auto_offset_reset
        if reset.kind is OffsetResetKind.EARLIEST:
            return (await log.offsets()).start
        if reset.kind is OffsetResetKind.LATEST:
            return (await log.offsets()).high_watermark
        found = await log.offset_for_timestamp(self._clock.wall_ms() - reset.duration_ms)
        if found is None:
            raise errors.OffsetNotAvailable(
                "no record is as recent as share.auto.offset.reset requires"
            )
        return found[0]

    async def persist(self, changes: Sequence[tuple[LedSharePartition, StateChange]]) -> None:
        """Make changes durable, then let waiting fetches look again; on failure fence and raise.

        Raises:
            KafkaError: the write failed; the share partitions are loaded again at their next use.
        """
        if not changes:
            return
        for led, _ in changes:
            led.writes += 1
        try:
            if any(led.fenced for led, _ in changes):
                raise errors.FencedStateEpoch("The share partition was loaded again.")
            await self._state.write(
                [as_write(led.key, led.core, change, self._clock) for led, change in changes]
            )
        except errors.KafkaError as error:
            raise self._not_written([led for led, _ in changes], error) from error
        finally:
            for led, _ in changes:
                led.writes -= 1
        for led, change in changes:
            self.wake(led)
            if change.dead:
                self._crowd(led)
                self.died(led.key)

    def _not_written(
        self, concerned: Sequence[LedSharePartition], error: errors.KafkaError
    ) -> errors.KafkaError:
        """Fence the share partitions and let them rest. Returns the error for clients."""
        moved = isinstance(error, _MOVED)
        for led in concerned:
            self.fence(led, str(error))
            if not moved and led.key not in self._resting:
                rested = partial(self._rested, led.key)
                self._resting[led.key] = asyncio.get_running_loop().call_later(REST_S, rested)
        told = errors.NotLeaderOrFollower if moved else errors.CoordinatorNotAvailable
        return told(str(error))

    def rests(self, key: SharePartitionKey) -> bool:
        """Whether the share partition's state could not be written a moment ago. Waiting fetches
        look again when the rest is over."""
        return key in self._resting

    def _rested(self, key: SharePartitionKey) -> None:
        del self._resting[key]
        self._waiters.wake(TopicIdPartition(key.topic_id, key.partition))

    def buried(self, key: SharePartitionKey) -> None:
        """Dead letters of a share partition were written."""
        led = self._led.get(key)
        if led is not None and led.crowded:
            self._crowd(led)
            self.wake(led)

    def _crowd(self, led: LedSharePartition) -> None:
        before, led.crowded = led.crowded, self._state.dead_weight(led.key) > DEAD_WEIGHT_MAX
        if led.crowded and not before:
            logger.warning(
                "%s delivers no records until dead letters can be written: too many wait", led.key
            )

    def fence(self, led: LedSharePartition, reason: str) -> None:
        """Discard a share partition; its next use loads it from durable state."""
        if led.fenced:
            return
        logger.info("share partition %s is fenced: %s", led.key, reason)
        led.fenced = True
        led.timer.close()
        if self._led.get(led.key) is led:
            del self._led[led.key]
        self.wake(led)

    def wake(self, led: LedSharePartition) -> None:
        """A waiting fetch of this share partition looks again if there is something to acquire."""
        where = TopicIdPartition(led.key.topic_id, led.key.partition)
        if led.fenced:
            self._waiters.wake(where)
        elif self.offers(led):
            self._waiters.offer_to(led.key.group_id, where)

    def offers(self, led: LedSharePartition) -> bool:
        """Whether some member of the group may acquire a record of this share partition now."""
        if led.crowded:
            return False
        committed = self.reads_committed(led.key.group_id)
        end = led.log.last_stable_offset if committed else led.log.high_watermark
        return led.core.offers(end, self.delivery_settings(led.key.group_id))

    def may_take_now(self, led: LedSharePartition) -> bool:
        """Whether a member that looks now may acquire a record. Not while a request holds the fetch
        lock: when it has read, it offers what it leaves."""
        if led.fetching:
            led.passed_by = True
            return False
        return self.offers(led)

    def schedule(self, led: LedSharePartition) -> None:
        """Set the timer that ticks the share partition at its next deadline."""
        if not led.fenced:
            led.timer.set(led.core.next_deadline_ms())

    def _deadline(self, led: LedSharePartition) -> None:
        settings = self.delivery_settings(led.key.group_id)
        if led.fenced:
            return
        change = led.core.tick(self._clock.monotonic_ms(), settings)
        self.schedule(led)
        if change is not None:
            led.meter.expired += change.expired
        self.wake(led)  # the pauses of records may be over, which changes nothing durable
        self.persist_soon(led, change)

    async def end_session(self, session: BrokerShareSession) -> None:
        """End a closed share session: release its member's records, durably, and end its waiting
        fetch."""
        self._waiters.wake_connection(session.connection)
        await self.release_member(session.group_id, session.member_id)

    async def release_member(self, group_id: str, member_id: str) -> None:
        """Release a member's records, durably."""
        changes = []
        settings = self.delivery_settings(group_id)
        now_ms = self._clock.monotonic_ms()
        for led in [led for key, led in self._led.items() if key.group_id == group_id]:
            change = led.core.release_member(member_id, now_ms=now_ms, settings=settings)
            self.schedule(led)
            if change is not None:
                self.wake(led)
                changes.append((led, change))
        try:
            await self.persist(changes)
        except errors.KafkaError as error:
            logger.warning("released records of %s/%s: %s", group_id, member_id, error)

    def persist_soon(self, led: LedSharePartition, change: StateChange | None) -> None:
        """Wake waiting fetches, and make a change durable in the background."""
        if change is not None:
            self.wake(led)
            self.spawn(self._persist_quietly(led, change))

    async def _persist_quietly(self, led: LedSharePartition, change: StateChange) -> None:
        """Persist; only log a failure, which has already fenced the share partition."""
        try:
            await self.persist([(led, change)])
        except errors.KafkaError as error:
            logger.warning("a change of %s is not durable: %s", led.key, error)

    async def log_starts_moved(
        self,
        logs: Sequence[ReadableLog],
        reason: str,
        capped: Mapping[SharePartitionKey, str] = MappingProxyType({}),
    ) -> None:
        """Records below the log starts were deleted. Every group moves on, also a group without
        members: a share partition that has lost records is loaded, so that the loss is logged and
        counted. ``capped``: the reason of share partitions for which they had been kept longer.
        """
        moved = {TopicIdPartition(log.topic_id, log.topic_partition.partition): log for log in logs}
        starts = {where: log.log_start_offset for where, log in moved.items()}
        self._deleting |= dict.fromkeys(moved, reason)
        self._capped |= capped
        try:
            for key in await self._state.keys_before(starts) if moved else ():
                log = moved[TopicIdPartition(key.topic_id, key.partition)]
                try:
                    await self.follow_log_start(await self.get(key, log))
                except errors.KafkaError as error:  # a later read or start moves the window
                    logger.warning("%s does not follow the start of its log: %s", key, error)
        finally:
            for where in moved:
                self._deleting.pop(where, None)
            for key in capped:
                self._capped.pop(key, None)

    async def follow_log_start(self, led: LedSharePartition) -> None:
        """Move the window if the log starts after the window does; log which records the group has
        lost."""
        capped = self._capped.get(led.key)
        reason = Reason.DELETED if capped is None else Reason.RETENTION_CAP
        start, lost_before = led.core.start_offset, led.core.archived.counts[reason]
        change = led.core.log_start_moved(led.log.log_start_offset, reason)
        if change is None:
            return
        lost = led.core.archived.counts[reason] - lost_before
        if lost:
            where = TopicIdPartition(led.key.topic_id, led.key.partition)
            logger.warning(
                "share group %s has lost %d records of %s that it had not finished, of the offsets "
                "%d to %d: they were deleted by %s",
                led.key.group_id,
                lost,
                led.log.topic_partition,
                start,
                led.log.log_start_offset - 1,
                capped or self._deleting.get(where, "retention or DeleteRecords"),
            )
        self.wake(led)
        await self.persist([(led, change)])

    def forget(self, group_id: str, topic_id: UUID, partition: int) -> None:
        """Discard the state in memory with its locks, and let waiting fetches see the new state.

        Call this once an alteration or deletion of the durable state (AlterShareGroupOffsets,
        DeleteShareGroupOffsets) is durable.
        """
        wanted = SharePartitionKey(group_id, topic_id, partition)
        self._drop(wanted.__eq__, "its durable state was changed")
        self._waiters.wake(TopicIdPartition(topic_id, partition))  # also fetches with an error

    def close(self) -> None:
        """Stop all timers."""
        for led in self._led.values():
            led.timer.close()
        for rest in self._resting.values():
            rest.cancel()

    def drop_group(self, group_id: str) -> None:
        """Discard the share partitions of a deleted group."""
        self._delivery_settings.pop(group_id, None)
        self._drop(lambda key: key.group_id == group_id, "the group is deleted")

    def drop_topic(self, topic_id: UUID) -> None:
        """Discard the share partitions of a deleted topic."""
        self._drop(lambda key: key.topic_id == topic_id, "the topic is deleted")

    def lead_no_more(self) -> None:
        """Discard the share partitions that another node leads now."""
        self._drop(lambda key: not self._leads(key), "another broker leads it")

    def _leads(self, key: SharePartitionKey) -> bool:
        try:
            self._leadership.check(key.topic_id, key.partition)
        except errors.NotLeaderOrFollower:
            return False
        return True

    def _drop(self, concerns: Callable[[SharePartitionKey], bool], reason: str) -> None:
        """Fence loaded share partitions, and make running loads start again."""
        for key in [key for key in self._loading if concerns(key)]:
            del self._loading[key]
        for led in [led for key, led in self._led.items() if concerns(key)]:
            self.fence(led, reason)

    def _of_partition(self, topic_id: UUID, partition: int) -> list[LedSharePartition]:
        return [led for key, led in self._led.items() if key[1:] == (topic_id, partition)]
