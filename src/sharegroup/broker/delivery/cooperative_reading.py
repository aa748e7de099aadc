"""Reading a partition in turns: the members of a consumer group share it, and each gets records
that no other member has (KIP-X, "Cooperative Fetch").

Which member has which records is known in memory only. After a restart this state is made anew from
the committed offsets, and members begin anew: records that were not committed may come twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.broker.coordination.consumer_groups_view import ConsumerGroupsView
from sharegroup.broker.coordination.offset_coordinator import FetchedOffset, OffsetCoordinator
from sharegroup.broker.delivery.before_damage import walked
from sharegroup.cooperative.intervals import Interval, Intervals, common, minus, normal
from sharegroup.model.environment import Clock
from sharegroup.model.errors import CorruptMessage, OffsetOutOfRange
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.limits import COOPERATIVE_RECORDS_MAX
from sharegroup.model.log import ReadableLog
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.turns import TURN_RECORDS, Done, PartitionTurns
from sharegroup.wire.batch import Walk
from sharegroup.wire.markers import aborted_ranges, marker_ranges

READ_BYTES_MIN: Final = 65_536
"""Smallest read: below this size a read costs its call, not its bytes."""
READ_BYTES_UNKNOWN: Final = 1 << 20
"""Size of the first read, before the size of the records is known."""
HOLES_MAX: Final = 10_000
"""An answer lists at most so many ranges of offsets without records; later ones list the rest."""
SWEEP_EVERY: Final = 64
"""Partitions of groups without members are looked for each time so many partitions were added."""
NO_LIMIT: Final = 1 << 30
"""A record is delivered as often as it takes: consumer groups know no delivery limit."""


class Turn(NamedTuple):
    """A member's request for one partition."""

    group_id: str
    member_id: str
    member_epoch: int
    number: int
    fetch_offset: int
    """Where a group begins that has committed nothing."""
    bytes_max: int
    must: bool
    """The first batch goes out even when it is larger."""


@dataclass(slots=True)
class TurnRead:
    """The answer to a turn."""

    data: bytes | memoryview = b""
    given: Intervals = ()
    """Offsets that the member has now; all other records in ``data`` are not its own."""
    holes: Intervals = ()
    """Offsets that no record has, and that nobody has committed."""


@dataclass(slots=True)
class _Open:
    """A partition that a group reads in turns."""

    settings: DeliverySettings
    """The delivery settings of the member that read last."""
    turns: PartitionTurns | None = None
    has_committed: bool = False
    """Whether the group had committed something when ``turns`` was made, or since."""
    bytes_per_offset: float = READ_BYTES_UNKNOWN / TURN_RECORDS
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by one member at a time: the records that it gets decide what the next member reads."""


class CooperativeReading:
    """See the module. One object for all groups of the broker."""

    def __init__(
        self, offsets: OffsetCoordinator, groups: ConsumerGroupsView, clock: Clock
    ) -> None:
        self._offsets = offsets
        self._groups = groups
        self._clock = clock
        self._open: dict[tuple[str, TopicIdPartition], _Open] = {}
        self._sweep_at = SWEEP_EVERY

    def __len__(self) -> int:
        """How many partitions are read in turns; a partition counts once for each group."""
        return len(self._open)

    async def read(
        self, turn: Turn, log: ReadableLog, end_offset: int, *, committed: bool
    ) -> TurnRead:
        """The records that a member gets in its turn; empty if there are no records for it now.

        Args:
            end_offset: records at this offset, and after it, may not be read.
            committed: the member reads no records of aborted transactions.

        Raises:
            InvalidFetchSessionEpoch: the member begins anew, with turn 1.
            UnknownMemberId, StaleMemberEpoch, InvalidRequest: as
                ``ConsumerGroups.cooperative_member``.
            OffsetOutOfRange: the group has committed nothing, and the member begins after the end.
            CorruptMessage, KafkaStorageError: as ``ReadableLog.read``.
        """
        key = TopicIdPartition(log.topic_id, log.topic_partition.partition)
        member, owners = self._groups.cooperative_member(
            turn.group_id, turn.member_id, turn.member_epoch, (key.topic_id, key.partition)
        )
        settings = DeliverySettings(
            lock_ms=member.rebalance_timeout_ms,
            delivery_count_limit=NO_LIMIT,
            record_locks_max=COOPERATIVE_RECORDS_MAX,
        )
        one = self._opened((turn.group_id, key), settings)
        async with one.lock:
            turns, deleted = await self._followed(one, turn, log, end_offset)
            now_ms = self._clock.monotonic_ms()
            turns.keep(owners, now_ms, settings)
            again = turns.begin(turn.member_id, turn.number, now_ms, settings)
            answer = await self._again(turn, turns, log, again, settings) if again else None
            if answer is None:
                answer = await self._new(turn, one, turns, log, end_offset, committed=committed)
            holes = normal((*deleted, *turns.holes)) if deleted else turns.holes
            answer.holes = holes[:HOLES_MAX]
            return answer

    def committed(
        self, group_id: str, member_id: str, key: TopicIdPartition, ranges: Iterable[Interval]
    ) -> None:
        """A member has committed ``ranges``, durably."""
        one = self._open.get((group_id, key))
        if one is None or one.turns is None:
            return
        now_ms = self._clock.monotonic_ms()
        one.has_committed = True
        if not one.turns.commit(member_id, normal(ranges), now_ms, one.settings):
            one.turns = None

    def drop_topic(self, topic_id: UUID) -> None:
        """Forget the partitions of a deleted topic."""
        self._open = {key: one for key, one in self._open.items() if key[1].topic_id != topic_id}

    def _opened(self, key: tuple[str, TopicIdPartition], settings: DeliverySettings) -> _Open:
        one = self._open.get(key)
        if one is None:
            if len(self._open) >= self._sweep_at:
                self._sweep()
            one = self._open[key] = _Open(settings)
        one.settings = settings
        return one

    def _sweep(self) -> None:
        """Forget the partitions of groups that have no members."""
        read = {group_id for group_id, _ in self._open}
        alive = {group_id for group_id in read if self._groups.has_members(group_id)}
        self._open = {key: one for key, one in self._open.items() if key[0] in alive}
        self._sweep_at = len(self._open) + SWEEP_EVERY

    async def _followed(
        self, one: _Open, turn: Turn, log: ReadableLog, end_offset: int
    ) -> tuple[PartitionTurns, Intervals]:
        """The state of the partition's turns, brought up to the offsets that the group has
        committed; and the offsets that it has not, and that were deleted from the log."""
        where, log_start = log.topic_partition, log.log_start_offset
        # Before the wait: what is committed meanwhile may come too late for the answer.
        done = one.turns.done if one.turns is not None and one.has_committed else None
        (found,) = await self._offsets.fetch(
            turn.group_id, turn.member_id, turn.member_epoch, [where], stable=False
        )
        if done is not None and _has_lost(found, done, log_start):
            one.turns = None
        turns = one.turns
        deleted: Intervals = ()
        if found.committed is not None:
            if found.committed.offset < log_start:
                deleted = minus(((found.committed.offset, log_start - 1),), found.ranges)
            stable = max(found.committed.offset, log_start)
            if turns is None or not turns.follow(stable):
                above = [each for each in found.ranges if each[1] >= stable]
                ranges = tuple((max(first, stable), last) for first, last in above)
                turns = one.turns = PartitionTurns(stable, ranges)
            one.has_committed = True
        elif turns is None:
            if turn.fetch_offset > end_offset:
                raise OffsetOutOfRange  # such as an offset of a topic that had the same name
            turns = one.turns = PartitionTurns(max(turn.fetch_offset, log_start))
            one.has_committed = False
        return turns, deleted

    async def _again(
        self,
        turn: Turn,
        turns: PartitionTurns,
        log: ReadableLog,
        given: Intervals,
        settings: DeliverySettings,
    ) -> TurnRead | None:
        """The records of a turn whose answer was lost, as far as there is room; empty if there is
        none: the member will ask again. None: the log is damaged there now. The records went back,
        and whoever is given them passes over the damage."""
        try:
            answer = await _read_again(turn, log, given)
        except CorruptMessage:
            answer = None
        left = () if answer is None else answer.given
        if answer is None or (left and left != given):
            turns.give_less(turn.member_id, left, self._clock.monotonic_ms(), settings)
        return answer

    async def _new(
        self,
        turn: Turn,
        one: _Open,
        turns: PartitionTurns,
        log: ReadableLog,
        end_offset: int,
        *,
        committed: bool,
    ) -> TurnRead:
        while turns.has_room(one.settings):
            offset = turns.next_offset
            if offset >= end_offset:
                break
            data = await _data(turn, one, turns, log, end_offset)
            if data is None:
                continue
            if not data or (len(data) > turn.bytes_max and not turn.must):
                break
            data, batches = walked(data)
            # Every member must know of them, not only the one that would be given them: it may
            # have nothing to commit for long.
            void = await _void_in(log, offset, data, batches, committed=committed)
            holding = minus(batches.bounds, void) if void else batches.bounds
            behind = holding[0][0] if holding else batches.end_offset
            if void and void[0][0] <= offset:
                turns.pass_over(offset, min(behind, end_offset) - 1)
                if not holding or turns.next_offset != behind:
                    continue
                offset = behind
            given = turns.give(
                turn.member_id,
                turn.number,
                holding,
                fetch_offset=offset,
                now_ms=self._clock.monotonic_ms(),
                settings=one.settings,
            )
            one.bytes_per_offset = len(data) / (batches.end_offset - batches.bounds[0][0])
            if given:
                return TurnRead(batches.holding(data, given), given)
            if turns.next_offset <= offset:
                break
        return TurnRead()


def _has_lost(found: FetchedOffset, done: Done, log_start: int) -> bool:
    """Whether a group has no more what it had committed: it was deleted or reset, its offsets were
    deleted or have expired, or a plain offset was committed."""
    if found.committed is None:
        return True
    now = Done(max(found.committed.offset, log_start), found.ranges)
    return bool(done.beyond(now))


async def _data(
    turn: Turn, one: _Open, turns: PartitionTurns, log: ReadableLog, end_offset: int
) -> bytes | None:
    """The log from the next offset of the turns on; None: the next offset has moved, look again.

    Raises:
        CorruptMessage, KafkaStorageError, OffsetOutOfRange: as ``ReadableLog.read``.
    """
    offset = turns.next_offset
    lost = min(log.after_damage(offset), end_offset) - 1
    if lost >= offset:
        turns.pass_over(offset, lost)
        return None
    enough = max(READ_BYTES_MIN, int(one.bytes_per_offset * TURN_RECORDS))
    try:
        read = await log.read(offset, max(1, min(turn.bytes_max, enough)), end_offset=end_offset)
    except CorruptMessage:
        if log.after_damage(offset) == offset:
            raise
        return None  # this read has found new damage
    except OffsetOutOfRange:
        start = (await log.offsets()).start
        if offset >= start:
            raise
        turns.follow(start)
        return None
    return read.data


async def _void_in(
    log: ReadableLog, offset: int, data: bytes, batches: Walk, *, committed: bool
) -> Intervals:
    """The offsets of markers, and for a group that reads ``committed`` of aborted transactions."""
    markers = marker_ranges(data, batches)
    aborted = await log.aborted_transactions(offset, batches.end_offset) if committed else ()
    return normal((*markers, *(aborted_ranges(data, aborted) if aborted else ())))


async def _read_again(turn: Turn, log: ReadableLog, given: Intervals) -> TurnRead:
    """As :meth:`CooperativeReading._again`.

    Raises:
        CorruptMessage: the log is damaged where the turn begins.
    """
    first, end = given[0][0], given[-1][1] + 1
    read = await log.read(first, max(turn.bytes_max, 1), end_offset=end)
    if not read.data or (len(read.data) > turn.bytes_max and not turn.must):
        return TurnRead()
    data, batches = walked(read.data)
    given = common(given, ((first, batches.end_offset - 1),))
    return TurnRead(batches.holding(data, given), given)
