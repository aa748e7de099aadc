"""Parts of a partition by the hash of the key (KIP-X)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sharegroup.cooperative.hash_split import HASH_MAX
from sharegroup.cooperative.intervals import normal
from sharegroup.model.errors import UnsupportedVersion
from sharegroup.model.ids import TopicPartition
from sharegroup.model.limits import KEY_RANGES_MAX

FEATURE: Final = "cooperative.consumption"
COMMITS_RANGES: Final = 2
"""The level of the feature from which on groups commit ranges of offsets."""
GIVES_TURNS: Final = 3
"""The level from which on members that share a partition may fetch in turns."""


class KeyRange(NamedTuple):
    """Hashes of keys from ``first`` to ``last``, both included; the space is 0 to 2^63 - 1."""

    first: int
    last: int

    @classmethod
    def part(cls, number: int, of: int) -> KeyRange:
        """The ``number``-th, from 1 on, of so many equal parts of the space.

        Raises:
            ValueError: there is no such part.
        """
        if not 1 <= number <= of:
            raise ValueError(f"there is no part {number} of {of}")
        space = HASH_MAX + 1
        return cls(space * (number - 1) // of, space * number // of - 1)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


KeyRanges = tuple[KeyRange, ...]
Assignment = Iterable[tuple[str, int]] | Mapping[TopicPartition, Sequence[KeyRange]]
"""Whole partitions; or partition → the key ranges that are read of it (none given: all)."""


def ranges_of(given: Iterable[tuple[int, int]]) -> KeyRanges:
    """The ranges in ascending order, disjoint; empty: the whole partition.

    Raises:
        ValueError: one of them is no range, or there are more than KEY_RANGES_MAX.
    """
    ranges = [KeyRange(*each) for each in given]
    for one in ranges:
        if not 0 <= one.first <= one.last <= HASH_MAX:
            raise ValueError(f"{one} is no key range: first ≤ last, and both 0 to {HASH_MAX}")
    if len(ranges) > KEY_RANGES_MAX:
        raise ValueError(f"{len(ranges)} key ranges; there may be {KEY_RANGES_MAX}")
    return tuple(KeyRange(*each) for each in normal(ranges))


def ranges_given(partitions: Assignment) -> Mapping[tuple[str, int], KeyRanges]:
    """The argument of ``Consumer.assign``, as partition → ranges.

    Raises:
        ValueError: as :func:`ranges_of`.
    """
    if isinstance(partitions, Mapping):
        return {where: ranges_of(given) for where, given in partitions.items()}
    return dict.fromkeys(partitions, ())


def without_ranges(where: TopicPartition) -> UnsupportedVersion:
    """The broker does not know key ranges, and sent records of the whole partition."""
    return UnsupportedVersion(
        f"{where} cannot be read by key ranges: its broker has no feature {FEATURE}"
    )
