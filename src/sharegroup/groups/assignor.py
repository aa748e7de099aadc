"""The assignor ``simple``: balance first, keep what can be kept second (Kafka class
SimpleAssignor; not rack aware).

With M members and P partitions each partition is held by S = ceil(M / P) members and each member
holds S·P / M partitions, rounded down or up. Members may hold the same partition: record locks
keep their records apart.

Two differences from Kafka, which a client notices only as fewer moves. Members that already hold
most partitions are rounded up (Kafka: by position). And where Kafka leaves a partition with fewer
than S holders, members trade partitions here, so that every partition always has S holders.
Everything is ordered by id, so equal input gives equal output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from sharegroup.groups.records import Assignment

NAME = "simple"

_Numbers: TypeAlias = set[int]


def assign(
    subscriptions: Mapping[str, Collection[UUID]],
    assignable: Mapping[UUID, Sequence[int]],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """The target assignment of every member in ``subscriptions``.

    ``assignable`` holds the initialised partitions; subscribed topics that have none are ignored.
    ``current`` is the target assignment so far. When all members subscribe to the same topics, the
    partitions of all topics are distributed together. Otherwise each topic is distributed among its
    subscribers, and a member of two topics may hold more than a member of one.
    """
    kinds = {frozenset(wanted) for wanted in subscriptions.values()}
    topics = sorted({topic for wanted in kinds for topic in wanted if topic in assignable})
    numbers = Numbering(topics, assignable)
    held = {member: numbers.of(current.get(member, {})) for member in subscriptions}
    new: dict[str, _Numbers] = {member: set() for member in subscriptions}
    members = sorted(subscriptions)
    classes: Iterable[tuple[list[str], list[UUID]]] = (
        [(members, topics)]
        if len(kinds) <= 1
        else [([m for m in members if topic in subscriptions[m]], [topic]) for topic in topics]
    )
    for own, shared_topics in classes:
        partitions = [number for topic in shared_topics for number in numbers.all_of(topic)]
        for member, share in share_out(own, partitions, held).items():
            new[member] |= share
    return {
        member: numbers.assignment(share)
        if share != held[member]
        else _as_it_was(current.get(member, {}), numbers, share)
        for member, share in new.items()
    }


def _as_it_was(before: Assignment, numbers: Numbering, share: _Numbers) -> Assignment:
    """``before`` itself, unless some of its partitions no longer exist."""
    if sum(map(len, before.values())) == len(share):
        return before
    return numbers.assignment(share)


class Numbering:
    """Partitions as consecutive integers, ordered by topic and partition, for speed."""

    def __init__(self, topics: Sequence[UUID], assignable: Mapping[UUID, Sequence[int]]) -> None:
        self._named = [(topic, p) for topic in topics for p in sorted(assignable[topic])]
        self._numbers: dict[UUID, dict[int, int]] = {topic: {} for topic in topics}
        for number, (topic, partition) in enumerate(self._named):
            self._numbers[topic][partition] = number

    def all_of(self, topic: UUID) -> Collection[int]:
        """The numbers of a topic's partitions."""
        return self._numbers[topic].values()

    def of(self, assignment: Assignment) -> _Numbers:
        """The numbers of the partitions in ``assignment``; unknown ones are left out."""
        found: _Numbers = set()
        for topic, partitions in assignment.items():
            numbers = self._numbers.get(topic)
            if numbers is not None:
                found.update(numbers[p] for p in partitions if p in numbers)
        return found

    def assignment(self, share: _Numbers) -> Assignment:
        """The partitions with these numbers."""
        topics: dict[UUID, list[int]] = {}
        for number in sorted(share):
            topic, partition = self._named[number]
            topics.setdefault(topic, []).append(partition)
        return {topic: tuple(held) for topic, held in topics.items()}


def share_out(
    members: Sequence[str],
    partitions: Sequence[int],
    held: Mapping[str, _Numbers],
    *,
    sharing: int | None = None,
) -> dict[str, _Numbers]:
    """Give every partition to S members, evenly, moving as little of ``held`` as that allows.
    ``sharing`` is S; None means as many as it takes to give each member a partition.
    """
    if not members or not partitions:
        return {member: set() for member in members}
    if sharing is None:
        sharing = -(-len(members) // len(partitions))
    table = _Table(members, partitions, held)
    wanted = _wanted(members, sharing * len(partitions), table.share)
    for member in members:
        table.shrink(member, wanted[member])
    for partition in partitions:
        table.thin(partition, sharing)
    table.fill(partitions, sharing, wanted)
    return table.share


def _wanted(members: Sequence[str], total: int, share: Mapping[str, _Numbers]) -> dict[str, int]:
    """How many partitions each member should hold; members that hold most are rounded up."""
    fewest, rounded_up = divmod(total, len(members))
    by_held = sorted(members, key=lambda member: (-len(share[member]), member))
    return {member: fewest + (rank < rounded_up) for rank, member in enumerate(by_held)}


class _Table:
    """Which member holds which partition: ``share`` by member, ``holders`` by partition."""

    def __init__(
        self,
        members: Sequence[str],
        partitions: Sequence[int],
        held: Mapping[str, _Numbers],
    ) -> None:
        known = set(partitions)
        self.share = {member: held.get(member, set()) & known for member in members}
        self.holders: dict[int, set[str]] = {partition: set() for partition in partitions}
        for member, share in self.share.items():
            for partition in share:
                self.holders[partition].add(member)

    def give(self, partition: int, member: str) -> None:
        self.share[member].add(partition)
        self.holders[partition].add(member)

    def take(self, partition: int, member: str) -> None:
        self.share[member].discard(partition)
        self.holders[partition].discard(member)

    def shrink(self, member: str, wanted: int) -> None:
        """Take partitions from a member that holds too many, the most widely held ones first."""
        excess = len(self.share[member]) - wanted
        if excess > 0:
            by_holders = sorted(self.share[member], key=lambda p: (-len(self.holders[p]), p))
            for partition in by_holders[:excess]:
                self.take(partition, member)

    def thin(self, partition: int, sharing: int) -> None:
        """Take holders from a partition that has too many, members with most partitions first."""
        excess = len(self.holders[partition]) - sharing
        if excess > 0:
            by_share = sorted(self.holders[partition], key=lambda m: (-len(self.share[m]), m))
            for member in by_share[:excess]:
                self.take(partition, member)

    def fill(self, partitions: Sequence[int], sharing: int, wanted: Mapping[str, int]) -> None:
        """Give partitions with too few holders to members with too few partitions, in turn; then
        trade.
        """
        unfilled = deque(m for m in sorted(wanted) if len(self.share[m]) < wanted[m])
        short: list[int] = []
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

    def _give_to_next(self, partition: int, unfilled: deque[str]) -> bool:
        for _ in range(len(unfilled)):
            member = unfilled[0]
            unfilled.rotate(-1)
            if partition not in self.share[member]:
                self.give(partition, member)
                return True
        return False

    def _trade(self, partition: int, member: str) -> None:
        """``member`` wants more but holds all short partitions already. So it takes another
        partition from a member that can take ``partition`` instead.

        Such a member exists. A partition r that ``member`` lacks is not short, so it has S holders.
        ``partition`` has fewer than S holders, and ``member`` is one of them. So one of r's holders
        does not hold ``partition``.
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
