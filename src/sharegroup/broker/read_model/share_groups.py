"""Share groups as they look now: members, share partitions, record states.

Reading changes nothing: no share partition is loaded, fenced or written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from sharegroup.broker.coordination.share_groups_view import ShareGroupsView
from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.next_record import NextRecords
from sharegroup.broker.delivery.share_partitions import SharePartitions
from sharegroup.broker.delivery.state_writes import as_loaded
from sharegroup.broker.hot_path_counters import SharePartitionMeter
from sharegroup.broker.read_model.topics import TopicPartitionsView, named
from sharegroup.broker.topics import Topics
from sharegroup.groups.share.groups import Silence
from sharegroup.model.dead_records import DeadRecords
from sharegroup.model.environment import Clock
from sharegroup.model.errors import GroupIdNotFound, KafkaError, UnknownServerError
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.log import ReadableLog
from sharegroup.model.offsets import UNKNOWN_OFFSET
from sharegroup.share.archived import ArchivedRange
from sharegroup.share.order.order_violations import Disorder
from sharegroup.share.partition import SharePartition, Statistics
from sharegroup.share.record_state import AVAILABLE, RecordState
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import Span
from sharegroup.share_state.state import NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member of a share group; ``assignment`` is what it has been told to consume."""

    member_id: str
    epoch: int
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    assignment: tuple[TopicPartitionsView, ...]
    silence: Silence | None
    """None: it has missed no heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupView:
    """A share group; ``partitions`` are those with delivery state."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[MemberView, ...]
    partitions: tuple[TopicPartitionsView, ...]


class ShareGroupLine(NamedTuple):
    """A share group in a list; ``members`` is their number."""

    group_id: str
    state: str
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowView:
    """The window of a share partition. Counts are offsets.

    A share partition that is not loaded has no end offset and no counts: ``end_offset`` is its
    start offset, and of the counts only ``finished`` is known.

    Attributes:
        start_offset: the lowest offset that is not finished; -1 before the group has begun.
        finished: acknowledged and archived offsets after the start offset.
        in_flight: offsets that members hold now.
        available: offsets that were delivered before, and wait for another delivery.
        delayed: available offsets that are not due yet.
        redelivered: offsets that were delivered once more since the partition was loaded.
    """

    start_offset: int
    end_offset: int
    finished: int
    in_flight: int = 0
    available: int = 0
    delayed: int = 0
    acknowledged: int = 0
    archived: int = 0
    redelivered: int = 0

    @property
    def begun(self) -> bool:
        """Whether the group has a start offset."""
        return self.start_offset != UNKNOWN_OFFSET

    def lag(self, records_end: int) -> int:
        """Offsets that are not finished, up to ``records_end`` (KIP-1226)."""
        return max(0, records_end - self.start_offset - self.finished)


class RangeView(NamedTuple):
    """Offsets ``first`` … ``last`` with the same state, delivery count and lock.

    ``member_id`` holds the offsets, for another ``lock_ms``; None and -1 without a lock. Delayed
    offsets are held by nobody, for another ``lock_ms``. Offsets that are ``blocked`` wait for an
    operator.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str | None
    lock_ms: int
    blocked: bool = False


class RecordsView(NamedTuple):
    """The records of a window, the ranges that were archived lately, with the reason, and the
    records whose dead letters are still to be written."""

    ranges: list[RangeView]
    end_offset: int
    archived: list[ArchivedRange]
    dead: list[DeadRecords]


class LedView(NamedTuple):
    """A share partition that is loaded, with its meter."""

    key: SharePartitionKey
    topic: str
    window: Statistics
    meter: SharePartitionMeter
    disorder: Disorder | None
    """With order per key: the records that were handled against the order, counted."""
    blocked_keys: int
    """With order per key: the number of keys with a record that waits for an operator."""
    late: int
    """Records that a member answered after an operator had decided about them."""


class ShareGroupViews:
    """The views of all share groups and share partitions of one broker."""

    def __init__(
        self,
        clock: Clock,
        topics: Topics,
        groups: ShareGroupsView,
        state: ShareStateLog,
        share_partitions: SharePartitions,
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._state = state
        self._share_partitions = share_partitions

    def groups(self) -> list[ShareGroupLine]:
        """All share groups by id."""
        sizes = dict(self._groups.sizes())
        return [
            ShareGroupLine(name, state, sizes[name]) for name, state in self._groups.list_groups()
        ]

    def member_counts(self, group_id: str) -> tuple[int, int]:
        """The number of members of a share group, and how many of them have missed a heartbeat;
        (0, 0) for a group that does not exist."""
        try:
            members = self._groups.member_count(group_id)
            return members, len(self._groups.silent(group_id, self._clock.monotonic_ms()))
        except GroupIdNotFound:
            return 0, 0

    def group(self, group_id: str) -> ShareGroupView:
        """One share group. Raises GroupIdNotFound."""
        found = self._groups.describe(group_id)
        silent = self._groups.silent(group_id, self._clock.monotonic_ms())
        return ShareGroupView(
            group_id=group_id,
            state=found.state,
            epoch=found.epoch,
            assignment_epoch=found.assignment_epoch,
            assignor=found.assignor,
            members=tuple(
                MemberView(
                    member_id=member.member_id,
                    epoch=member.epoch,
                    rack_id=member.rack_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topics=member.subscribed_topics,
                    assignment=named(self._topics, member.assignment),
                    silence=silent.get(member.member_id),
                )
                for member in found.members
            ),
            partitions=named(self._topics, {t.topic_id: t.partitions for t in found.initialized}),
        )

    def partitions(self, group_id: str) -> tuple[TopicPartitionsView, ...]:
        """A group's partitions with delivery state; empty for an unknown group."""
        state = self._groups.state_partitions(group_id)
        return named(self._topics, {topic.topic_id: topic.partitions for topic in state})

    def in_flight(self, key: SharePartitionKey) -> int:
        """The number of records that members of the group hold."""
        led = self._share_partitions.find(key)
        return 0 if led is None else led.core.statistics().acquired

    async def dead_count(self, key: SharePartitionKey) -> int:
        """The number of records whose dead letters are still to be written.

        Raises:
            KafkaError: the durable state cannot be read.
        """
        return sum(one.last - one.first + 1 for one in await self._state.dead(key))

    async def window(self, key: SharePartitionKey) -> WindowView:
        """A share partition, from memory if it is loaded, else from its durable state.

        Raises:
            KafkaError: the durable state cannot be read.
        """
        led = self._share_partitions.find(key)
        if led is not None:
            return _window(led)
        stored = await self._state.read_summary(key)
        return WindowView(
            start_offset=stored.start_offset,
            end_offset=stored.start_offset,
            finished=max(0, stored.delivery_complete_count),
        )

    def settled(self, key: SharePartitionKey) -> WindowView | None:
        """A share partition that is loaded, and of which no change is being written. It may have
        passed over offsets without records since the last write."""
        led = self._share_partitions.find(key)
        return None if led is None or led.writes else _window(led)

    async def records_end(
        self, key: SharePartitionKey, log: ReadableLog, looks: NextRecords
    ) -> int:
        """Up to where lag counts: the high watermark, or the end of the window if no record lies
        between them (:mod:`sharegroup.broker.delivery.next_record`).

        Raises:
            KafkaError: the durable state cannot be read.
        """
        window = await self.window(key)
        end = window.end_offset
        if window.begun and window.finished and self._share_partitions.find(key) is None:
            end = (await self._stored(key)).end_offset
        try:
            nothing = window.begun and await looks.after(log, end) is None
        except KafkaError:
            nothing = False  # the log is damaged there; a fetch finds out what is left
        high_watermark = (await log.offsets()).high_watermark
        return min(end, high_watermark) if nothing else high_watermark

    async def records(self, key: SharePartitionKey, first: int, most: int) -> RecordsView:
        """The states of the records from ``first`` on, at most ``most`` ranges. Durable state has
        no locks.

        Raises:
            KafkaError: the durable state cannot be read.
        """
        led = self._share_partitions.find(key)
        core = await self._stored(key) if led is None else led.core
        now_ms = self._clock.monotonic_ms()
        settings = self._share_partitions.delivery_settings(key.group_id)
        spans = islice(core.spans(first), most)
        ranges = [_range(span, now_ms, settings) for span in spans]
        dead = await self._state.dead(key)
        return RecordsView(ranges, core.end_offset, core.archived.ranges(), dead[:most])

    def led(self) -> Iterator[LedView]:
        """The share partitions that are loaded; partitions of deleted topics are left out."""
        for led in self._share_partitions.all():
            topic = self._topics.name_of(led.key.topic_id)
            if topic is not None:
                core = led.core
                yield LedView(
                    led.key,
                    topic,
                    core.statistics(),
                    led.meter,
                    core.order.disorder,
                    core.order.blocked_keys,
                    core.late,
                )

    async def _stored(self, key: SharePartitionKey) -> SharePartition:
        state = await self._state.read(key, NO_EPOCH)
        try:
            return SharePartition(
                start_offset=state.start_offset,
                state_epoch=state.state_epoch,
                leader_epoch=NO_EPOCH,
                batches=state.batches,
                delayed=as_loaded(state.delayed, self._clock),
                pending=state.pending,
            )
        except ValueError as error:
            raise UnknownServerError(f"the durable state of {key} cannot be: {error}") from error


def _window(led: LedSharePartition) -> WindowView:
    now = led.core.statistics()
    return WindowView(
        start_offset=now.start_offset,
        end_offset=now.end_offset,
        finished=led.core.delivery_complete_count,
        in_flight=now.acquired,
        available=now.available,
        delayed=now.delayed,
        acknowledged=now.acknowledged,
        archived=now.archived,
        redelivered=led.meter.redelivered_records,
    )


def _range(span: Span, now_ms: int, settings: DeliverySettings) -> RangeView:
    first, last, state, delivery_count, lock = span
    count = max(0, delivery_count)  # -1: the log never had a record at these offsets
    if lock is None:
        failed = state is AVAILABLE and count >= settings.delivery_count_limit
        blocked = failed and settings.blocks and bool(settings.key_max)
        return RangeView(first, last, state, count, None, -1, blocked)
    left_ms = -1 if lock.in_transaction else max(0, lock.deadline_ms - now_ms)
    return RangeView(first, last, state, count, lock.member_id or None, left_ms)
