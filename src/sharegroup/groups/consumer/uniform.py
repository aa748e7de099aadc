"""The assignor ``uniform``: balance first, keep what can be kept second (Kafka class
UniformAssignor; not rack aware). Each partition has one owner.

When all members subscribe to the same topics, each gets the same number of partitions, rounded
down or up. Otherwise no partition could move, directly or by way of other members, from a member
to another that has at least two partitions fewer: the spread is as even as subscriptions allow.
Kafka stops at direct moves. Equal input gives equal output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from sharegroup.groups.assignor import Numbering, share_out
from sharegroup.groups.records import Assignment


def assign_uniformly(
    subscriptions: Mapping[str, Collection[UUID]],
    assignable: Mapping[UUID, Sequence[int]],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """The target assignment of every member in ``subscriptions``. ``assignable`` holds the
    partitions of the topics that exist, ``current`` the target assignment so far.
    """
    kinds = {frozenset(wanted) for wanted in subscriptions.values()}
    topics = sorted({topic for wanted in kinds for topic in wanted if topic in assignable})
    numbers = Numbering(topics, assignable)
    held = {member: numbers.of(current.get(member, {})) for member in subscriptions}
    if len(kinds) <= 1:
        partitions = [number for topic in topics for number in numbers.all_of(topic)]
        shares = share_out(sorted(subscriptions), partitions, held, sharing=1)
        return {member: numbers.assignment(share) for member, share in shares.items()}
    spread = _Spread(subscriptions, topics)
    for topic in sorted(topics, key=lambda topic: (len(spread.subscribers[topic]), topic)):
        spread.begin(topic, numbers.all_of(topic), held)
    spread.balance()
    return {member: numbers.assignment(spread.share(member)) for member in subscriptions}


class _Spread:
    """Who has how much of which topic, for members with different subscriptions."""

    def __init__(
        self, subscriptions: Mapping[str, Collection[UUID]], topics: Sequence[UUID]
    ) -> None:
        members = sorted(subscriptions)
        self.subscribers = {
            topic: [member for member in members if topic in subscriptions[member]]
            for topic in topics
        }
        self._held: dict[str, dict[UUID, list[int]]] = {member: {} for member in members}
        self._load = dict.fromkeys(members, 0)

    def share(self, member: str) -> set[int]:
        """The partitions of a member, as numbers."""
        return {number for numbers in self._held[member].values() for number in numbers}

    def begin(
        self, topic: UUID, partitions: Collection[int], held: Mapping[str, Collection[int]]
    ) -> None:
        """Leave a topic's partitions with their owners; give partitions without an owner to the
        subscribers that have the fewest."""
        owners = {number: m for m in reversed(self.subscribers[topic]) for number in held[m]}
        free = []
        for number in partitions:
            if number in owners:
                self._give(topic, number, owners[number])
            else:
                free.append(number)
        for number in free:
            least = min(self.subscribers[topic], key=lambda member: (self._load[member], member))
            self._give(topic, number, least)

    def balance(self) -> None:
        """Move partitions while that makes the spread more even."""
        moved = True
        while moved:
            moved = False
            for giver in sorted(self._load, key=lambda member: (-self._load[member], member)):
                while self._relieve(giver):
                    moved = True

    def _relieve(self, giver: str) -> bool:
        """Move one partition from ``giver`` to a member that has at least two fewer; returns
        whether there was such a member. Members between the two pass a partition on, so that only
        the numbers of these two change.
        """
        enough = self._load[giver] - 2
        came_from: dict[str, tuple[str, UUID]] = {}
        seen, searched = {giver}, set[UUID]()
        queue = deque([giver])
        while queue:
            member = queue.popleft()
            for topic in sorted(self._held[member]):
                if topic in searched or not self._held[member][topic]:
                    continue
                searched.add(topic)
                for other in self.subscribers[topic]:
                    if other not in seen:
                        seen.add(other)
                        came_from[other] = (member, topic)
                        queue.append(other)
                        if self._load[other] <= enough:
                            self._pass_on(giver, other, came_from)
                            return True
        return False

    def _pass_on(self, giver: str, taker: str, came_from: Mapping[str, tuple[str, UUID]]) -> None:
        while taker != giver:
            member, topic = came_from[taker]
            number = self._held[member][topic].pop()
            self._load[member] -= 1
            self._give(topic, number, taker)
            taker = member

    def _give(self, topic: UUID, number: int, member: str) -> None:
        self._held[member].setdefault(topic, []).append(number)
        self._load[member] += 1
