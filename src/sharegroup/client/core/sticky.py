"""The sticky assignment: as balanced as the subscriptions allow, and close to what was before.

Balanced means: nobody has two partitions more than a member who could take one of them. Partitions
stay where they are, first; then partitions without an owner go to the member with the fewest; then
partitions move, one at a time, along chains from members with more to members with fewer, until no
chain is left. Kafka's AbstractStickyAssignor has the same goal and other tie-breaks: all members
get what their leader decides, so that members of both kinds share a group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from sharegroup.model.ids import TopicPartition


class Sharing(NamedTuple):
    """Which members may have which partitions, and which member had each."""

    topics: Mapping[str, frozenset[str]]
    """Member → the topics that it subscribes to and that exist."""
    partitions: Mapping[str, int]
    """Topic → number of partitions."""
    owners: Mapping[TopicPartition, str]
    """Partition → the member that had it, and still may have it."""


def assign_sticky(sharing: Sharing) -> dict[str, list[TopicPartition]]:
    """See the module. Every partition that somebody subscribes to has one member."""
    table = _Table(sharing)
    table.keep_owners()
    table.give_rest()
    while table.move_one():
        pass
    return {member: sorted(wheres) for member, wheres in table.given.items()}


class _Table:
    def __init__(self, sharing: Sharing) -> None:
        self.given: dict[str, set[TopicPartition]] = {one: set() for one in sorted(sharing.topics)}
        self._sharing = sharing
        self._takers = {
            topic: [member for member in self.given if topic in sharing.topics[member]]
            for topic in sharing.partitions
        }

    def keep_owners(self) -> None:
        for where, member in self._sharing.owners.items():
            self.given[member].add(where)

    def give_rest(self) -> None:
        """Give away the partitions without an owner; first those that few members may take."""
        rest = [
            TopicPartition(topic, number)
            for topic, count in self._sharing.partitions.items()
            if self._takers[topic]
            for number in range(count)
            if TopicPartition(topic, number) not in self._sharing.owners
        ]
        for where in sorted(rest, key=lambda one: (len(self._takers[one.topic]), one)):
            taker = min(self._takers[where.topic], key=lambda member: len(self.given[member]))
            self.given[taker].add(where)

    def move_one(self) -> bool:
        """Move partitions along one chain from a member to one who has at least two fewer. False:
        there is none.
        """
        for member in sorted(self.given, key=lambda one: -len(self.given[one])):
            chain = self._chain_from(member)
            if chain:
                for giver, where, taker in chain:
                    self.given[giver].remove(where)
                    self.given[taker].add(where)
                return True
        return False

    def _chain_from(self, start: str) -> list[tuple[str, TopicPartition, str]]:
        """The shortest chain of moves that takes one partition off ``start`` and ends at a member
        with at least two fewer.
        """
        low = len(self.given[start]) - 2
        came: dict[str, tuple[str, TopicPartition] | None] = {start: None}
        queue = deque([start])
        while queue:
            giver = queue.popleft()
            for topic, where in self._one_of_each_topic(giver).items():
                for taker in sorted(self._takers[topic], key=lambda one: len(self.given[one])):
                    if taker in came:
                        continue
                    came[taker] = (giver, where)
                    if len(self.given[taker]) <= low:
                        return _back(came, taker)
                    queue.append(taker)
        return []

    def _one_of_each_topic(self, member: str) -> dict[str, TopicPartition]:
        """A partition of each topic to give away: the last one without a former owner here, else
        the last one.
        """
        owners = self._sharing.owners
        found: dict[str, TopicPartition] = {}
        for where in sorted(self.given[member], key=lambda one: (owners.get(one) != member, one)):
            found[where.topic] = where
        return found


def _back(
    came: Mapping[str, tuple[str, TopicPartition] | None], end: str
) -> list[tuple[str, TopicPartition, str]]:
    chain = []
    step = came[end]
    taker = end
    while step is not None:
        chain.append((step[0], step[1], taker))
        taker = step[0]
        step = came[taker]
    return chain
