"""One side of a move: a broker, or several, that records and groups are moved from or to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from sharegroup.client.admin.admin import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition
from sharegroup.move.offset_map import OffsetMap

T = TypeVar("T")
LANES: Final = 8
Places = Mapping[TopicPartition, OffsetMap]
"""For each partition that is copied, where its records are in the copy."""


@dataclass(frozen=True, slots=True)
class Side:
    """See the module. ``servers`` is what messages call it."""

    servers: str
    cluster: Cluster
    admin: Admin


async def settled(side: Side, attempt: Callable[[], Awaitable[T]]) -> T:
    """The result of ``attempt``, which is tried again while a broker does not know a new topic:
    those of a cluster get to know it one after the other."""
    return await retrying(side.cluster, attempt, side.cluster.request_timeout_ms)


def lane_of(where: TopicPartition) -> str:
    """The connection for a partition's records: few for all, since each is a socket."""
    return f"move {where.partition % LANES}"


class Sides(NamedTuple):
    """Where from and where to."""

    source: Side
    target: Side


class MoveRefused(SharegroupError):
    """Nothing may be moved, or not all was; the message says why, and what helps."""
