"""Damaged ranges of a segment: bytes that are not valid batches, and the offsets lost with them.

The bytes stay in the file. A side file ``….log.damaged`` (JSON) lists the ranges, so that a start
without a scan knows them too. Retention removes the side file together with the segment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sharegroup.model.errors import CorruptMessage


class Damage(NamedTuple):
    """Bytes ``position`` … ``end_position`` (exclusive) that are not valid batches, and the offsets
    lost with them. An empty byte range means that the offsets are missing from the log.
    """

    position: int
    end_position: int
    first_offset: int
    last_offset: int

    @property
    def offsets(self) -> int:
        """How many offsets cannot be read."""
        return self.last_offset - self.first_offset + 1

    def __str__(self) -> str:
        offsets = f"offsets {self.first_offset} to {self.last_offset}"
        if self.position == self.end_position:
            return f"has lost the data at byte {self.position}: {offsets} are missing"
        where = f"is damaged from byte {self.position} to {self.end_position}"
        if self.offsets <= 0:
            return f"{where}; the bytes are kept"
        return f"{where}: {offsets} cannot be read; the bytes are kept"


class BrokenBatch(CorruptMessage):
    """The batch at byte ``position`` of a segment is invalid, or does not have the next offset."""

    def __init__(self, position: int, reason: object) -> None:
        super().__init__(f"no valid batch at byte {position}: {reason}")
        self.position = position


def to_json(damages: Sequence[Damage]) -> bytes:
    """The content of a side file."""
    return json.dumps(damages).encode()


def from_json(data: bytes) -> list[Damage]:
    """Read a side file.

    Raises:
        ValueError: the side file itself is damaged.
    """
    try:
        damages = [Damage(*map(int, entry)) for entry in json.loads(data)]
    except (OverflowError, RecursionError, TypeError) as error:
        raise ValueError(f"not a list of damaged ranges: {error}") from error
    if any(d.position < 0 or d.end_position < d.position or d.first_offset < 0 for d in damages):
        raise ValueError("a damaged range with a negative or descending position or offset")
    return sorted(damages)


def merged(known: Iterable[Damage], found: Iterable[Damage]) -> list[Damage]:
    """Both lists as one, ascending, with adjoining ranges joined. A found range replaces the known
    ranges that it overlaps.
    """
    new = list(found)
    kept = [
        old
        for old in known
        if not any(old.position < d.end_position and d.position < old.end_position for d in new)
        and old not in new
    ]
    joined: list[Damage] = []
    for damage in sorted([*kept, *new]):
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.end_position == damage.position
            and before.last_offset + 1 == damage.first_offset
        ):
            joined[-1] = Damage(
                before.position, damage.end_position, before.first_offset, damage.last_offset
            )
        else:
            joined.append(damage)
    return joined
