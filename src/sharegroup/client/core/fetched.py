"""What a share fetch brought, and what became of acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from sharegroup.client.core.acknowledgements import AcknowledgedRange
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange


class Lease:
    """The locks of one share session with one node: they live as long as the session does. ``lost``
    turns True once, and stays so.
    """

    __slots__ = ("lost", "node_id")

    def __init__(self, node_id: int = -1) -> None:
        self.node_id = node_id
        self.lost = False


class LockedRange(NamedTuple):
    """Offsets ``first`` … ``last`` (both included) that are ours now, delivered for the
    ``delivery_count``-th time.
    """

    first: int
    last: int
    delivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """The records that one fetch brought from one partition.

    ``records``: whole record batches; they may hold records that were not acquired, and only the
    offsets in ``acquired`` count.
    ``error``: why there are no records; mostly None.
    ``lease``: tells whether the locks are still there; ``lock_deadline``: when they expire, in
    seconds of the event loop's time.
    ``request``: the number of the fetch among the requests of this process.
    ``ordered``: the group has order per key.
    """

    topic: str
    topic_id: UUID
    partition: int
    records: bytes
    acquired: list[LockedRange]
    error: KafkaError | None
    lease: Lease
    lock_deadline: float
    request: int = 0
    ordered: bool = False


class Acknowledged(NamedTuple):
    """The outcome of acknowledgements of one partition: all ``ranges`` took effect, or, with an
    ``error``, none did.

    ``gone_back``: accepts that had no effect, because a release of the same request took their
    records back (order per key); these records are delivered again.
    ``request``: the number of the request that carried the acknowledgements, as in
    :class:`FetchedPartition`; 0: no request with them was answered.
    """

    partition: TopicIdPartition
    ranges: Sequence[AcknowledgedRange]
    error: KafkaError | None
    request: int = 0
    gone_back: Sequence[OffsetRange] = ()
