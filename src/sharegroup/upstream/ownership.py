"""Which state partitions this node may claim, and when.

The map of the nodes' group says who should own what. A node that gets a partition waits until its
owner before has released it: that one writes what was decided, and acquires no more. It does not
wait for an owner that is no node any more, and not for longer than a lease lasts: by then the owner
before has the same map, or has no lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.nodes_group import LEASE_S, NO_MAP, FleetMap
from sharegroup.upstream.raw_log import RawLog
from sharegroup.upstream.tail import Tail

logger = logging.getLogger("sharegroup.broker")

LOOK_MS: Final = 50
"""A look at the end of a log waits so long for something new. The looks at other logs of the same
broker wait behind it."""
LANE: Final = "ownership"


class Ownership:
    """See the module.

    Args:
        incarnation: of this process, as batches of its logs say.
    """

    def __init__(self, cluster: Cluster, node_id: int, incarnation: bytes) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._incarnation = incarnation
        self._map: FleetMap = NO_MAP
        self.holds: Callable[[], bool] = lambda: False
        """Whether the map may be believed: this node is one of the group."""
        self._since_s: dict[int, float] = {}
        """Partition of this node → when it was told so."""

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that this node should own."""
        return frozenset(self._since_s)

    def told(self, found: FleetMap) -> None:
        """There is a new map."""
        now_s = asyncio.get_running_loop().time()
        self._map = found
        self._since_s = {
            partition: self._since_s.get(partition, now_s)
            for partition, owned in found.owners.items()
            if owned.node_id == self._node_id
        }

    def check(self, partition: int) -> None:
        """Raise NotCoordinator unless this node should own a partition."""
        if partition not in self._since_s:
            raise errors.NotCoordinator(f"another node has the state partition {partition}")

    async def turn(self, where: TopicPartition) -> None:
        """Return when this node may claim a partition.

        Raises:
            NotCoordinator: another node is to own it, or the map may be an old one.
        """
        loop = asyncio.get_running_loop()
        tail = Tail(RawLog(self._cluster, where, LANE))
        wait_ms, new = 0, True
        while True:
            self.check(where.partition)
            if not self.holds():
                raise errors.NotCoordinator("this node was silent for too long")
            try:
                new = await tail.look(wait_ms)
            except errors.KafkaError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(LOOK_MS / 1000)
            if not new and self._is_free(tail):
                return
            self.check(where.partition)
            if loop.time() - self._since_s[where.partition] > LEASE_S:
                logger.info("%s was not released: the lease of its owner has ended", where)
                return
            wait_ms = 0 if new else LOOK_MS

    def _is_free(self, tail: Tail) -> bool:
        owner = tail.owner
        if owner is None or tail.released or owner.incarnation == self._incarnation:
            return True
        return owner.incarnation.hex() not in {one.incarnation for one in self._map.nodes.values()}
