"""The assignor ``simple``: balance first, keep what can be kept second (Kafka class
SimpleAssignor; not rack aware).

With M members and P partitions each partition is held by S = ceil(M / P) members and each member
holds S·P / M partitions, rounded down or up. Members may hold the same partition: record locks
keep their records apart.

Two departures from Kafka, neither seen by a client except as fewer moves: who is rounded up is
decided by who holds more already (Kafka: by position), and where Kafka tolerates a shortfall a
partition is traded, so that every partition always has its S holders. The order of everything is
by id, so equal input gives equal output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from sharegroup.groups.records import Assignment
from sharegroup.model.ids import TopicIdPartition

NAME = "simple"

_Partitions: TypeAlias = set[TopicIdPartition]


def assign(
    subscriptions: Mapping[str, Collection[UUID]],
    assignable: Mapping[UUID, Sequence[int]],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """The target assignment of every member in ``subscriptions``.

    ``assignable`` holds the initialised partitions; subscribed topics without any are passed over.
    ``current`` is the target assignment so far. When all members subscribe to the same topics
    these are shared out as one; else each topic is shared out among its subscribers, and a member
    of two topics may hold more than a member of one.
    """
    topics = sorted(
        {topic for wanted in subscriptions.values() for topic in wanted if topic in assignable}
    )
    held = {member: _flat(current.get(member, {})) for member in subscriptions}
    new: dict[str, _Partitions] = {member: set() for member in subscriptions}
    for members, shared_topics in _classes(subscriptions, topics):
        partitions = [TopicIdPartition(t, p) for t in shared_topics for p in sorted(assignable[t])]
        for member, share in share_out(members, partitions, held).items():
            new[member] |= share
    return {member: _by_topic(share) for member, share in new.items()}


def share_out(
    members: Sequence[str], partitions: Sequence[TopicIdPartition], held: Mapping[str, _Partitions]
) -> dict[str, _Partitions]:
    """Give every partition to S members, evenly, moving as little of ``held`` as that allows."""
    if not members or not partitions:
        return {member: set() for member in members}
    sharing = -(-len(members) // len(partitions))
    table = _Table(members, partitions, held)
    wanted = _wanted(members, sharing * len(partitions), table.share)
    for member in members:
        table.shrink(member, wanted[member])
    for partition in partitions:
        table.thin(partition, sharing)
    table.fill(partitions, sharing, wanted)
    return table.share


def _classes(
    subscriptions: Mapping[str, Collection[UUID]], topics: Sequence[UUID]
) -> Iterable[tuple[list[str], list[UUID]]]:
    """(members, topics) pairs to share out on their own."""
    members = sorted(subscriptions)
    if len({frozenset(wanted) for wanted in subscriptions.values()}) <= 1:
        return [(members, list(topics))]
    return [([m for m in members if topic in subscriptions[m]], [topic]) for topic in topics]


def _wanted(members: Sequence[str], total: int, share: Mapping[str, _Partitions]) -> dict[str, int]:
    """How many partitions each member should hold; those that hold most are rounded up."""
    fewest, rounded_up = divmod(total, len(members))
    by_held = sorted(members, key=lambda member: (-len(share[member]), member))
    return {member: fewest + (rank < rounded_up) for rank, member in enumerate(by_held)}


class _Table:
    """Members against partitions; ``share`` and ``holders`` are the two views of one relation."""

    def __init__(
        self,
        members: Sequence[str],
        partitions: Sequence[TopicIdPartition],
        held: Mapping[str, _Partitions],
    ) -> None:
        known = set(partitions)
        self.share = {member: held.get(member, set()) & known for member in members}
        self.holders: dict[TopicIdPartition, set[str]] = {
            partition: set() for partition in partitions
        }
        for member, share in self.share.items():
            for partition in share:
                self.holders[partition].add(member)

    def give(self, partition: TopicIdPartition, member: str) -> None:
        self.share[member].add(partition)
        self.holders[partition].add(member)

    def take(self, partition: TopicIdPartition, member: str) -> None:
        self.share[member].discard(partition)
        self.holders[partition].discard(member)

    def shrink(self, member: str, wanted: int) -> None:
        """Take partitions from a member that holds too many, those with most holders first."""
        excess = len(self.share[member]) - wanted
        if excess > 0:
            by_holders = sorted(self.share[member], key=lambda p: (-len(self.holders[p]), p))
            for partition in by_holders[:excess]:
                self.take(partition, member)

    def thin(self, partition: TopicIdPartition, sharing: int) -> None:
        """Take holders from a partition that has too many, those with most partitions first."""
        excess = len(self.holders[partition]) - sharing
        if excess > 0:
            by_share = sorted(self.holders[partition], key=lambda m: (-len(self.share[m]), m))
            for member in by_share[:excess]:
                self.take(partition, member)

    def fill(
        self, partitions: Sequence[TopicIdPartition], sharing: int, wanted: Mapping[str, int]
    ) -> None:
        """Give partitions with too few holders to members with too few partitions, in turn; then
        trade.
        """
        unfilled = deque(m for m in sorted(wanted) if len(self.share[m]) < wanted[m])
        short: list[TopicIdPartition] = []
        for partition in partitions:
            for _ in range(sharing - len(self.holders[partition])):
                if not self._give_to_next(partition, unfilled):
                    short.append(partition)
                elif len(self.share[unfilled[-1]]) >= wanted[unfilled[-1]]:
                    unfilled.pop()
        for partition in short:
            self._trade(partition, unfilled[0])
            if len(self.share[unfilled[0]]) >= wanted[unfilled[0]]:
                unfilled.popleft()

    def _give_to_next(self, partition: TopicIdPartition, unfilled: deque[str]) -> bool:
        for _ in range(len(unfilled)):
            member = unfilled[0]
            unfilled.rotate(-1)
            if partition not in self.share[member]:
                self.give(partition, member)
                return True
        return False

    def _trade(self, partition: TopicIdPartition, member: str) -> None:
        """``member`` wants more but holds all short partitions: it takes another from one that can
        have ``partition``.

        There is one: a partition r that ``member`` lacks is not short, so it has S holders;
        ``partition`` has fewer than S, ``member`` among them; so one of r's holders does not hold
        ``partition``.
        """
        for other, others_holders in self.holders.items():
            if member not in others_holders:
                giver = min(
                    (m for m in others_holders if m not in self.holders[partition]), default=None
                )
                if giver is not None:
                    self.take(other, giver)
                    self.give(other, member)
                    self.give(partition, giver)
                    return
        raise AssertionError(f"no trade for {partition} and {member}")


def _flat(assignment: Assignment) -> _Partitions:
    return {
        TopicIdPartition(topic, p) for topic, partitions in assignment.items() for p in partitions
    }


def _by_topic(partitions: Iterable[TopicIdPartition]) -> Assignment:
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(held) for topic_id, held in topics.items()}
