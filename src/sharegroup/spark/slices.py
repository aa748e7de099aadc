"""Which records a Spark task reads: the acquired ranges of one partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


class Acquired(NamedTuple):
    """Records ``first`` … ``last``, acquired with this delivery count."""

    first: int
    last: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The ranges of one partition that one task reads, ascending."""

    topic: str
    topic_id: UUID
    partition: int
    ranges: tuple[Acquired, ...]
    keys: tuple[int, int] | None = None
    """The first and last hash of the records that are read; None: all records."""
