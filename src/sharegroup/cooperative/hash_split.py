"""A partition's hash space split between the members that share it.

When a member joins or leaves, only the part of the hash space that this member gets or had changes
hands: 1/n of the space, where n counts this member, too. So ranges change as little as with
consistent hashing, and all parts are equal, up to one hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sharegroup.cooperative.intervals import Interval, Intervals, common, minus, normal, size, union

HASH_MAX: Final = 2**63 - 1
"""The last hash (``records/key_hashes.py``)."""
WHOLE: Final[Intervals] = ((0, HASH_MAX),)


def split(
    members: Sequence[str], before: Mapping[str, Intervals] | None = None
) -> dict[str, Intervals]:
    """The ranges of each member; together they are the whole space, and no two overlap.

    Args:
        before: the ranges that members had. A member that is not in ``members`` gives up all its
            ranges.
    """
    if not members:
        return {}
    had = {member: (before or {}).get(member, ()) for member in members}
    targets = _targets(members, had)
    kept: dict[str, Intervals] = {}
    given = WHOLE
    for member in members:
        kept[member] = _reduced(common(had[member], given), targets[member])
        given = minus(given, kept[member])
    for member in members:
        missing = targets[member] - size(kept[member])
        if missing:
            got = _first(given, missing)
            given = minus(given, got)
            kept[member] = union(kept[member], got)
    return kept


def _targets(members: Sequence[str], had: Mapping[str, Intervals]) -> dict[str, int]:
    """How many hashes each member gets: equal parts, and one more for the members that had the
    most."""
    part, rest = divmod(HASH_MAX + 1, len(members))
    richest = sorted(members, key=lambda member: -size(had[member]))[:rest]
    more = set(richest)
    return {member: part + (member in more) for member in members}


def _reduced(intervals: Intervals, to: int) -> Intervals:
    """Shrink ``intervals`` to ``to`` hashes. Whole intervals go first, smallest first, so that few
    remain; the last one that must shrink is cut at its end."""
    surplus = size(intervals) - to
    kept: list[Interval] = []
    for first, last in sorted(intervals, key=lambda each: (each[1] - each[0], each)):
        taken = min(max(surplus, 0), last - first + 1)
        surplus -= taken
        if taken <= last - first:
            kept.append((first, last - taken))
    return normal(kept)


def _first(intervals: Intervals, count: int) -> Intervals:
    """The first ``count`` hashes of ``intervals``."""
    found: list[Interval] = []
    for first, last in intervals:
        taken = min(count, last - first + 1)
        if taken:
            found.append((first, first + taken - 1))
        count -= taken
    return tuple(found)
