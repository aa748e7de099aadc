"""Who leads what in a fleet, by the newest map that this node has got; implements
``leadership.Leadership``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sharegroup.broker.leadership import NO_EPOCH, Leader, Node
from sharegroup.fleet.placement import state_partition
from sharegroup.model import errors
from sharegroup.model.ids import parse_topic_id
from sharegroup.share_state.partitioning import group_partition
from sharegroup.upstream.nodes_group import NO_MAP, FleetMap, NodeFacts

SHARE = 2
"""The key type of share partitions in FindCoordinator."""
NOBODY = Leader(-1, NO_EPOCH)


class FleetLeadership:
    """See the module. A node leads a partition of a topic if it owns the state partition of it, and
    coordinates a group if it owns the state partition of the group's id.

    Args:
        partitions: how many state partitions there are.

    Attributes:
        map: the newest map.
    """

    log_epoch: Final = NO_EPOCH
    """Leaders of the cluster write the batches, with epochs of their own. A client that was told an
    epoch of this map for an offset would ask the cluster where it ends, and be told: nowhere."""

    def __init__(self, node_id: int, partitions: int) -> None:
        self.map: FleetMap = NO_MAP
        self._node_id = node_id
        self._partitions = partitions

    @property
    def controller_id(self) -> int:
        """Any node passes on what a controller does: this one."""
        return self._node_id

    def nodes(self, here: tuple[str, int]) -> Sequence[Node]:
        """See ``Leadership``: the nodes that have the listener that the client uses."""
        listener = self._listener(here)
        return [
            Node(facts.node_id, *facts.endpoints[listener], facts.rack)
            for facts in self.map.nodes.values()
            if listener in facts.endpoints
        ]

    def leader(self, topic_id: UUID, partition: int) -> Leader:
        """See ``Leadership``."""
        owned = self.map.owners.get(state_partition(topic_id, partition, self._partitions))
        return NOBODY if owned is None else Leader(owned.node_id, owned.epoch)

    def coordinator(self, key_type: int, key: str, here: tuple[str, int]) -> Node:
        """See ``Leadership``. Raises CoordinatorNotAvailable: nobody owns the group's partition, or
        its node has no such listener."""
        owned = self.map.owners.get(self._place(key_type, key))
        facts = None if owned is None else self.map.nodes.get(owned.node_id)
        listener = self._listener(here)
        if facts is None or listener not in facts.endpoints:
            raise errors.CoordinatorNotAvailable
        return Node(facts.node_id, *facts.endpoints[listener], facts.rack)

    def _place(self, key_type: int, key: str) -> int:
        if key_type != SHARE:
            return group_partition(key, self._partitions)
        head, _, partition = key.rpartition(":")
        topic_id = parse_topic_id(head.rpartition(":")[2])
        return state_partition(topic_id, int(partition), self._partitions)

    def check(self, topic_id: UUID, partition: int, current: int = NO_EPOCH) -> None:
        """See ``Leadership``."""
        leader = self.leader(topic_id, partition)
        if leader.node_id != self._node_id:
            raise errors.NotLeaderOrFollower
        if current not in (NO_EPOCH, leader.epoch):
            raise (
                errors.FencedLeaderEpoch if current < leader.epoch else errors.UnknownLeaderEpoch
            )

    def _listener(self, here: tuple[str, int]) -> str:
        """The listener by which a client knows this node."""
        me: NodeFacts | None = self.map.nodes.get(self._node_id)
        for name, endpoint in ({} if me is None else me.endpoints).items():
            if endpoint == here:
                return name
        return ""
