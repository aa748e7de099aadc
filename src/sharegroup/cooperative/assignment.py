"""Partitions split between members that take key ranges, where these members outnumber the
partitions of a topic (KIP-X, "reverse assignment"): a wrapper around the ordinary assignors.

Members stay where they are, whatever the assignor: a join or a leave changes only the partition
that gets or loses a member, and only that member's share of it. This holds also for as many members
as partitions: each member keeps its partition, where an assignor without memory would exchange
them.

Members that take only whole partitions keep the partitions that the assignor gave them. The other
partitions of the topic go to the members that take ranges. Each of these members gets one
partition, and the members of a partition split its hash space.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias, TypeVar
from uuid import UUID

from sharegroup.cooperative.hash_split import WHOLE, split
from sharegroup.cooperative.intervals import Intervals
from sharegroup.cooperative.sharing import share_members

T = TypeVar("T", UUID, str)
"""How a topic is named."""
Assigned: TypeAlias = Mapping[T, tuple[int, ...]]
"""Topic → partitions, ascending."""
Parts: TypeAlias = Mapping[T, Mapping[int, Intervals]]
"""Topic → partition → key ranges; without whole partitions."""


def share_partitions(
    new: Mapping[str, Assigned[T]],
    takers: Mapping[str, Collection[T]],
    before: tuple[Mapping[str, Assigned[T]], Mapping[str, Parts[T]]],
    *,
    by_neighbours: bool,
) -> tuple[dict[str, Assigned[T]], dict[str, dict[T, dict[int, Intervals]]]]:
    """The target assignment with partitions split where members outnumber them.

    Args:
        new: what the assignor gives each member.
        takers: the members that take key ranges, with the topics that they subscribe to.
        before: the target assignment so far, and its parts.
        by_neighbours: members that had no partition sit together, as with the assignor ``range``.
    """
    parts: dict[str, dict[T, dict[int, Intervals]]] = {}
    topics: list[T] = sorted({topic_id for wanted in takers.values() for topic_id in wanted})
    shared: dict[str, dict[T, tuple[int, ...]]] = {}
    for topic_id in topics:
        members = sorted(name for name, wanted in takers.items() if topic_id in wanted)
        free = sorted({p for name in members for p in new[name].get(topic_id, ())})
        if not free or len(members) < len(free):
            continue
        for member in members:
            shared.setdefault(member, dict(new[member])).pop(topic_id, None)
        had = _had(topic_id, members, before)
        owners = {p: [m for m in members if p in had.get(m, {})] for p in free}
        found = share_members(free, members, owners, by_neighbours=by_neighbours)
        for partition, sharing in found.items():
            had_of_it = {m: had[m][partition] for m in sharing if partition in had.get(m, {})}
            for name, part in split(sharing, had_of_it).items():
                numbers: tuple[int, ...] = shared[name].get(topic_id, ())
                shared[name][topic_id] = (*numbers, partition)
                if part != WHOLE:
                    parts.setdefault(name, {}).setdefault(topic_id, {})[partition] = part
    targets: dict[str, Assigned[T]] = dict(new)
    for name, its in shared.items():
        targets[name] = {topic: its[topic] for topic in sorted(its)}
    return targets, parts


def one_owner_each(
    targets: Mapping[str, Assigned[T]], parts: Mapping[str, Parts[T]]
) -> Mapping[str, Assigned[T]]:
    """``targets``, in which a shared partition belongs only to the first of the members that share
    it. So an assignor that keeps what it can sees one owner of each partition, and that members
    with whole partitions have as much as others."""
    if not parts:
        return targets
    taken: set[tuple[T, int]] = set()
    found: dict[str, Assigned[T]] = dict(targets)
    for member in sorted(parts):
        own = dict(targets[member])
        for topic, shared in parts[member].items():
            own[topic] = tuple(p for p in own[topic] if p not in shared or (topic, p) not in taken)
            taken.update((topic, p) for p in shared)
        found[member] = own
    return found


def _had(
    topic_id: T,
    members: Collection[str],
    before: tuple[Mapping[str, Assigned[T]], Mapping[str, Parts[T]]],
) -> dict[str, dict[int, Intervals]]:
    """What each member had of a topic's partitions."""
    targets, parts = before
    return {
        member: {
            partition: parts.get(member, {}).get(topic_id, {}).get(partition, WHOLE)
            for partition in targets.get(member, {}).get(topic_id, ())
        }
        for member in members
    }
