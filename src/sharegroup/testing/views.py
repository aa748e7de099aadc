"""Views of a share group at one moment: for assertions, and for their failure messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sharegroup.model.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeView:
    """Offsets ``first`` … ``last``, both included, with the same state, count and holder.

    Attributes:
        state: ``AVAILABLE``, ``ACQUIRED``, ``ACKNOWLEDGED`` or ``ARCHIVED``.
        delivery_count: deliveries so far; 0 if the record is finished.
        member_id: the member that holds them, while they are ACQUIRED.
    """

    first: int
    last: int
    state: str
    delivery_count: int
    member_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition of a share group. Counts are offsets.

    Attributes:
        start_offset: the first offset that is not finished; None before the group has begun.
        end_offset: the end of the log.
        lag: records not done yet: not delivered, delivered and unacknowledged, or released.
        in_flight: delivered and not acknowledged; Kafka calls these ``acquired``.
        available: delivered before, and waiting for another delivery.
        acknowledged, archived: finished, but after a record that is not finished (archived:
            rejected, gone, or delivered too often).
        ranges: the state of each record from the start offset on; equal neighbours are joined.
    """

    start_offset: int | None
    end_offset: int
    lag: int
    in_flight: int
    available: int
    acknowledged: int
    archived: int
    ranges: tuple[RangeView, ...]

    def at(self, offset: int) -> RangeView | None:
        """The range with ``offset``; None before the start offset and for undelivered records."""
        return next((one for one in self.ranges if one.first <= offset <= one.last), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One share group.

    Attributes:
        state: ``Empty``, ``Stable``, or ``Dead`` when there is no such group.
        members: member id → the partitions assigned to it.
        partitions: the group's state in each partition.
    """

    group_id: str
    state: str
    members: Mapping[str, frozenset[TopicPartition]]
    partitions: Mapping[TopicPartition, PartitionView]

    def __getitem__(self, partition: tuple[str, int]) -> PartitionView:
        """``group["jobs", 0]``."""
        return self.partitions[TopicPartition(*partition)]

    @property
    def lag(self) -> int:
        """Records not done yet, over all partitions."""
        return sum(one.lag for one in self.partitions.values())

    @property
    def in_flight(self) -> int:
        """Records held by members, over all partitions."""
        return sum(one.in_flight for one in self.partitions.values())
