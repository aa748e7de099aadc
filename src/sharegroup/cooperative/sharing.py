"""Which members share which partition of a topic, when there are as many members as partitions or
more: the draft's reverse assignment (KIP-X, "Abstract Assignor").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def share_members(
    partitions: Sequence[int],
    members: Sequence[str],
    before: Mapping[int, Sequence[str]],
    *,
    by_neighbours: bool,
) -> dict[int, list[str]]:
    """The members of each partition. Members stay where they were, and no partition has two members
    more than another. So a member that joins moves nobody, and a member that leaves moves one other
    at most.

    Args:
        before: the members that each partition had. A member that had several partitions keeps the
            one with the fewest members.
        by_neighbours: members that had no partition sit together (of 5 members on 2 partitions the
            first three and the last two, as the assignor ``range`` does). Else each goes to the
            next partition (of 5 members on 3 partitions the first and the fourth share one, as
            ``roundrobin`` does).
    """
    found, homeless = _kept(partitions, members, before)
    counts = {partition: len(them) for partition, them in found.items()}
    places: list[int] = []
    for _ in homeless:
        place = min(partitions, key=counts.__getitem__)
        counts[place] += 1
        places.append(place)
    if by_neighbours:
        places.sort(key=partitions.index)
    for member, place in zip(homeless, places, strict=True):
        found[place].append(member)
    return found


def _kept(
    partitions: Sequence[int], members: Sequence[str], before: Mapping[int, Sequence[str]]
) -> tuple[dict[int, list[str]], list[str]]:
    """The members that stay in each partition, and the members that have no place yet."""
    found: dict[int, list[str]] = {partition: [] for partition in partitions}
    homes: dict[str, list[int]] = {}
    for partition in partitions:
        for member in before.get(partition, ()):
            homes.setdefault(member, []).append(partition)
    limit = -(-len(members) // len(partitions))
    full = len(members) - (limit - 1) * len(partitions)
    """This many partitions may have ``limit`` members, the others have one member less."""
    homeless: list[str] = []
    for member in members:
        places = [each for each in homes.get(member, ()) if len(found[each]) < limit]
        home = min(places, key=lambda each: len(found[each]), default=None)
        at_limit = sum(len(them) == limit for them in found.values())
        if home is None or (len(found[home]) == limit - 1 and at_limit == full):
            homeless.append(member)
        else:
            found[home].append(member)
    return found, homeless
