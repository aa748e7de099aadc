"""The assignor ``range``: topic by topic, each subscriber gets one stretch of the partitions (Kafka
class RangeAssignor; not rack aware).

Subscribers have the same order in each topic, static members first. So topics with the same number
of partitions and the same subscribers are co-partitioned: partition n of each goes to one member.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from sharegroup.groups.records import Assignment


def assign_ranges(
    subscriptions: Mapping[str, Collection[UUID]],
    assignable: Mapping[UUID, Sequence[int]],
    instances: Mapping[str, str],
) -> dict[str, Assignment]:
    """The target assignment of every member in ``subscriptions``. ``instances`` has the instance
    id of each static member.
    """
    order = sorted(
        subscriptions,
        key=lambda member: (0, instances[member]) if member in instances else (1, member),
    )
    new: dict[str, dict[UUID, tuple[int, ...]]] = {member: {} for member in subscriptions}
    for topic in sorted(assignable):
        own = [member for member in order if topic in subscriptions[member]]
        if not own:
            continue
        partitions = sorted(assignable[topic])
        fewest, rounded_up = divmod(len(partitions), len(own))
        begin = 0
        for rank, member in enumerate(own):
            end = begin + fewest + (rank < rounded_up)
            if end > begin:
                new[member][topic] = tuple(partitions[begin:end])
            begin = end
    return dict(new)
