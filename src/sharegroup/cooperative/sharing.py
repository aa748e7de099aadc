"""Which members share which partition of a topic, when the members outnumber its partitions: the
draft's reverse assignment (KIP-X, "Abstract Assignor").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def round_robin(partitions: Sequence[int], members: Sequence[str]) -> dict[int, list[str]]:
    """Each member to the next partition: of 5 on 3, the first and the fourth share."""
    return {
        partition: list(members[index :: len(partitions)])
        for index, partition in enumerate(partitions)
    }


def in_ranges(partitions: Sequence[int], members: Sequence[str]) -> dict[int, list[str]]:
    """Neighbours share: of 5 on 2, the first three and the last two."""
    part, rest = divmod(len(members), len(partitions))
    found: dict[int, list[str]] = {}
    at = 0
    for index, partition in enumerate(partitions):
        end = at + part + (index < rest)
        found[partition] = list(members[at:end])
        at = end
    return found


def sticky(
    partitions: Sequence[int], members: Sequence[str], before: Mapping[int, Sequence[str]]
) -> dict[int, list[str]]:
    """Members stay where they were; no partition has two members more than another.

    Args:
        before: who had each partition. A member that had several keeps the one with the fewest.
    """
    found: dict[int, list[str]] = {partition: [] for partition in partitions}
    homes: dict[str, list[int]] = {}
    for partition in partitions:
        for member in before.get(partition, ()):
            homes.setdefault(member, []).append(partition)
    limit = -(-len(members) // len(partitions))
    full = len(members) - (limit - 1) * len(partitions)
    """So many partitions may have ``limit`` members, the others have one less."""
    homeless: list[str] = []
    for member in members:
        places = [each for each in homes.get(member, ()) if len(found[each]) < limit]
        home = min(places, key=lambda each: len(found[each]), default=None)
        at_limit = sum(len(them) == limit for them in found.values())
        if home is None or (len(found[home]) == limit - 1 and at_limit == full):
            homeless.append(member)
        else:
            found[home].append(member)
    for member in homeless:
        found[min(partitions, key=lambda each: len(found[each]))].append(member)
    return found
