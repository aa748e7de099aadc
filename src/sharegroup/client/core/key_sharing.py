"""How the leader of a classic group shares out partitions by key: a wrapper around the ordinary
assignors (KIP-X). Members that say that they take key ranges share the partitions of a topic when
there are more such members than partitions; the other members keep what the assignor gave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sharegroup.client.core.assignors import Assignment, Assignor, Subscribers
from sharegroup.cooperative.assignment import share_partitions
from sharegroup.cooperative.intervals import Intervals
from sharegroup.model.ids import TopicPartition

Parts = Mapping[TopicPartition, Intervals]
"""Partitions that a member has in part → the key ranges that it has."""


def share(
    assignor: Assignor, members: Subscribers, partitions: Mapping[str, int]
) -> tuple[Assignment, dict[str, dict[TopicPartition, Intervals]]]:
    """The partitions of all members, and the key ranges of members that share a partition.

    Args:
        partitions: topic → number of partitions.
    """
    given = assignor.assign(members, partitions)
    takers = {
        name: [topic for topic in one.topics if topic in partitions]
        for name, one in members.items()
        if one.parts is not None
    }
    if not takers:
        return given, {}
    had = {name: _by_topic(one.had) for name, one in members.items()}
    had_parts = {name: _parts_by_topic(one.parts or {}) for name, one in members.items()}
    new = {name: _by_topic(wheres) for name, wheres in given.items()}
    shared, parts = share_partitions(
        new, takers, (had, had_parts), by_neighbours=assignor.name == "range"
    )
    return (
        {
            name: [TopicPartition(topic, at) for topic, numbers in own.items() for at in numbers]
            for name, own in shared.items()
        },
        {
            name: {
                TopicPartition(topic, at): part
                for topic, own in topics.items()
                for at, part in own.items()
            }
            for name, topics in parts.items()
        },
    )


def _by_topic(wheres: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for topic, number in sorted(wheres):
        found[topic] = (*found.get(topic, ()), number)
    return found


def _parts_by_topic(parts: Parts) -> dict[str, dict[int, Intervals]]:
    found: dict[str, dict[int, Intervals]] = {}
    for where, own in parts.items():
        found.setdefault(where.topic, {})[where.partition] = own
    return found
