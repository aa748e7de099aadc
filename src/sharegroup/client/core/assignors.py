"""The assignors of classic consumer groups, as pure functions: the leader of a group gives each
member its partitions (Kafka classes RangeAssignor, RoundRobinAssignor, StickyAssignor and
CooperativeStickyAssignor). Racks are not looked at.

The sticky ones are in :mod:`sharegroup.client.core.sticky`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from sharegroup.client.core.sticky import Sharing, assign_sticky
from sharegroup.cooperative.intervals import Intervals
from sharegroup.model.ids import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Member id → partitions, sorted."""


class Subscriber(NamedTuple):
    """What a member says of itself when it joins."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that it had in ``generation``."""
    generation: int = -1
    instance_id: str | None = None
    parts: Mapping[TopicPartition, Intervals] | None = None
    """The key ranges that it had of partitions that it shared; None: it takes whole partitions
    only (KIP-X)."""
    had: frozenset[TopicPartition] = frozenset()
    """With ``parts``: the partitions that it had before it gave them up."""


Subscribers = Mapping[str, Subscriber]
"""Member id → what the member said when it joined."""


class RebalanceProtocol(Enum):
    """EAGER: a member gives up all partitions before it joins. COOPERATIVE (KIP-429): it keeps
    them, and gives up only the partitions that the leader took from it.
    """

    EAGER = 0
    COOPERATIVE = 1


class Assignor(NamedTuple):
    """One way to share out partitions; ``name`` is what the members of a group agree on."""

    name: str
    protocol: RebalanceProtocol
    assign: Callable[[Subscribers, Mapping[str, int]], Assignment]


def _in_order(members: Subscribers) -> list[str]:
    """Static members come first, by instance id: their order outlives their member ids."""

    def order(member: str) -> tuple[bool, str]:
        instance = members[member].instance_id
        return (instance is None, member if instance is None else instance)

    return sorted(members, key=order)


def assign_range(members: Subscribers, partitions: Mapping[str, int]) -> Assignment:
    """Each topic's partitions in consecutive runs, by the order of the members.

    Args:
        partitions: topic → number of partitions, without topics that do not exist.
    """
    given: Assignment = {member: [] for member in members}
    ordered = _in_order(members)
    for topic in sorted(partitions):
        sharing = [member for member in ordered if topic in members[member].topics]
        if not sharing:
            continue
        each, more = divmod(partitions[topic], len(sharing))
        first = 0
        for at, member in enumerate(sharing):
            end = first + each + (at < more)
            given[member] += [TopicPartition(topic, n) for n in range(first, end)]
            first = end
    return given


def assign_round_robin(members: Subscribers, partitions: Mapping[str, int]) -> Assignment:
    """All partitions in turn, each to the next member that subscribes to its topic."""
    given: Assignment = {member: [] for member in members}
    ordered = _in_order(members)
    at = 0
    for topic in sorted(partitions):
        if not any(topic in members[member].topics for member in ordered):
            continue
        for number in range(partitions[topic]):
            while topic not in members[ordered[at % len(ordered)]].topics:
                at += 1
            given[ordered[at % len(ordered)]].append(TopicPartition(topic, number))
            at += 1
    return given


def _sharing(members: Subscribers, partitions: Mapping[str, int]) -> Sharing:
    """What the sticky assignment works on. If two members claim one partition, its owner is the
    member with the newer generation; if the generations are equal, it has no owner.
    """
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member, one in members.items():
        for where in one.owned:
            exists = where.partition < partitions.get(where.topic, 0)
            if not exists or where.topic not in one.topics:
                continue
            generation, _ = claims.get(where, (-2, None))
            if one.generation > generation:
                claims[where] = (one.generation, member)
            elif one.generation == generation:
                claims[where] = (generation, None)
    topics = {
        member: frozenset(t for t in one.topics if t in partitions)
        for member, one in members.items()
    }
    owners = {where: member for where, (_, member) in claims.items() if member is not None}
    return Sharing(topics, dict(partitions), owners)


def assign_stickily(members: Subscribers, partitions: Mapping[str, int]) -> Assignment:
    """As balanced as the subscriptions allow; of all such assignments, one that moves few
    partitions.
    """
    return assign_sticky(_sharing(members, partitions))


def assign_cooperatively(members: Subscribers, partitions: Mapping[str, int]) -> Assignment:
    """As :func:`assign_stickily`, but a partition that another member owns is given to nobody in
    this round: its owner gives it up first, and joins again (KIP-429).
    """
    sharing = _sharing(members, partitions)
    given = assign_sticky(sharing)
    claimed = {where: member for member, one in members.items() for where in one.owned}
    contested = {
        where for member, one in members.items() for where in one.owned if claimed[where] != member
    }
    return {
        member: [
            where
            for where in wheres
            if where not in contested and claimed.get(where, member) == member
        ]
        for member, wheres in given.items()
    }


EAGER: Final = RebalanceProtocol.EAGER
ASSIGNORS: Final = {
    one.name: one
    for one in (
        Assignor("range", EAGER, assign_range),
        Assignor("roundrobin", EAGER, assign_round_robin),
        Assignor("sticky", EAGER, assign_stickily),
        Assignor("cooperative-sticky", RebalanceProtocol.COOPERATIVE, assign_cooperatively),
    )
}


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The protocol of a member that offers all these assignors: COOPERATIVE if every one of them
    allows that.
    """
    if all(one.protocol is RebalanceProtocol.COOPERATIVE for one in assignors):
        return RebalanceProtocol.COOPERATIVE
    return RebalanceProtocol.EAGER
