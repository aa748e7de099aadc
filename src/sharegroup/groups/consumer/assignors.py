"""The server's assignors by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from sharegroup.cooperative.assignment import one_owner_each, share_partitions
from sharegroup.groups.consumer.group import ConsumerGroup
from sharegroup.groups.consumer.ranges import assign_ranges
from sharegroup.groups.consumer.records import Parts
from sharegroup.groups.consumer.uniform import assign_uniformly
from sharegroup.groups.records import Assignment
from sharegroup.groups.topics import TopicsImage


def _uniform(group: ConsumerGroup, topics: TopicsImage) -> dict[str, Assignment]:
    held = one_owner_each(group.targets, group.target_parts)
    return assign_uniformly(*_subscriptions(group, topics), held)


def _range(group: ConsumerGroup, topics: TopicsImage) -> dict[str, Assignment]:
    instances = {member_id: instance_id for instance_id, member_id in group.instances.items()}
    return assign_ranges(*_subscriptions(group, topics), instances)


def _subscriptions(
    group: ConsumerGroup, topics: TopicsImage
) -> tuple[dict[str, frozenset[UUID]], dict[UUID, range]]:
    """(topic ids by member, partitions by topic id), of topics that exist."""
    named = {member.member_id: group.topics_of(member) for member in group.members.values()}
    ids = {names: frozenset(topics.ids(names)) for names in set(named.values())}
    infos = [info for name in group.subscribed_topics() if (info := topics.get(name)) is not None]
    return (
        {member_id: ids[names] for member_id, names in named.items()},
        {info.topic_id: range(info.partition_count) for info in infos},
    )


def assign(
    assignor: str, group: ConsumerGroup, topics: TopicsImage
) -> tuple[Mapping[str, Assignment], Mapping[str, Parts]]:
    """The target assignment of all members of a group, and its parts."""
    new = ASSIGNORS[assignor](group, topics)
    takers = {
        member.member_id: topics.ids(group.topics_of(member))
        for member in group.members.values()
        if member.takes_ranges
    }
    if not takers:
        return new, {}
    before = (group.targets, group.target_parts)
    return share_partitions(new, takers, before, by_neighbours=assignor == "range")


ASSIGNORS: Final[dict[str, Callable[[ConsumerGroup, TopicsImage], dict[str, Assignment]]]] = {
    "uniform": _uniform,
    "range": _range,
}
"""Each function computes the target assignment of all members of a group."""
