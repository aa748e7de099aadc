"""What a share group looks like at one moment: for assertions, and for the message of one that
fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sharegroup.model.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeView:
    """Offsets ``first`` … ``last``, both included, that share everything.

    Attributes:
        state: ``AVAILABLE``, ``ACQUIRED``, ``ACKNOWLEDGED`` or ``ARCHIVED``.
        delivery_count: deliveries so far; 0 where the record is finished.
        member_id: who holds them, while they are ACQUIRED.
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
        lag: what is still to be done: not delivered, delivered and not answered, or put back.
        in_flight: delivered and not answered, which is ``acquired`` by Kafka's word.
        available: delivered before, and waiting to be delivered again.
        acknowledged, archived: finished, but behind a record that is not (archived: rejected, gone,
            or delivered too often).
        ranges: from the start offset on, all of that record by record, adjoining equals joined.
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
        """The range that holds ``offset``; None below the start and where nothing was delivered."""
        return next((one for one in self.ranges if one.first <= offset <= one.last), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One share group.

    Attributes:
        state: ``Empty``, ``Stable``, or ``Dead`` when there is no such group.
        members: member id → the partitions assigned to it.
        partitions: what the group has of each partition.
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
        """What is still to be done, over all partitions."""
        return sum(one.lag for one in self.partitions.values())

    @property
    def in_flight(self) -> int:
        """What members hold, over all partitions."""
        return sum(one.in_flight for one in self.partitions.values())
