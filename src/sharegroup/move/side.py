"""One side of a move: a broker, or several, that records and groups are moved from or to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sharegroup.client.admin.admin import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition
from sharegroup.move.offset_map import OffsetMap

LANES: Final = 8
Places = Mapping[TopicPartition, OffsetMap]
"""For each partition that is copied, where its records are in the copy."""


@dataclass(frozen=True, slots=True)
class Side:
    """See the module. ``servers`` is what messages call it."""

    servers: str
    cluster: Cluster
    admin: Admin


def lane_of(where: TopicPartition) -> str:
    """The connection for a partition's records: few for all, since each is a socket."""
    return f"move {where.partition % LANES}"


class Sides(NamedTuple):
    """Where from and where to."""

    source: Side
    target: Side


class MoveRefused(SharegroupError):
    """Nothing may be moved, or not all was; the message says why, and what helps."""
