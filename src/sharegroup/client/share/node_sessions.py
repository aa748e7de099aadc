"""All share sessions of one member: one per broker that leads some of its partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator

from sharegroup.client.core.offset_notes import OffsetNotes
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.share.metrics import ShareConsumerMetrics
from sharegroup.client.share.node_session import NodeSession
from sharegroup.model.errors import RetriableError
from sharegroup.model.ids import TopicIdPartition

log = logging.getLogger("sharegroup.client")


class NodeSessions:
    """Sessions by node, each made when it is first asked for, and the leaders of partitions.

    Args:
        displaced: called when another process uses this member's id; the caller then calls
            :meth:`go_on_as`.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        member_id: str,
        metrics: ShareConsumerMetrics,
        displaced: Callable[[], None],
        reasons: OffsetNotes[str],
        pauses: OffsetNotes[int],
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._member_id = member_id
        self._metrics = metrics
        self._displaced = displaced
        self._reasons = reasons
        self._pauses = pauses
        self._sessions: dict[int, NodeSession] = {}
        self._unled: set[TopicIdPartition] = set()
        """What was without a known leader at the last fetch."""
        self._ask_at = 0.0

    def __iter__(self) -> Iterator[NodeSession]:
        return iter(list(self._sessions.values()))

    def __getitem__(self, node_id: int) -> NodeSession:
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = NodeSession(
                self._cluster,
                node_id,
                self._group_id,
                self._member_id,
                self._metrics,
                self._displaced,
                self._reasons,
                self._pauses,
            )
        return session

    def go_on_as(self, member_id: str) -> None:
        """Leave the sessions to the process that uses the old id now, and begin new ones."""
        for session in self:
            session.retire()
        self._sessions.clear()
        self._member_id = member_id

    @property
    def lock_timeout_ms(self) -> int | None:
        """The shortest lock duration that a broker told; None before the first answer."""
        return min((s.lock_timeout_ms for s in self if s.lock_timeout_ms), default=None)

    def leader(self, partition: TopicIdPartition) -> int | None:
        """The node that leads a partition, as far as known."""
        return self._cluster.metadata.leader(partition)

    def is_open(self, node_id: int | None) -> bool:
        """Whether the session with this node is open; None: there is no such node."""
        return node_id is not None and node_id in self._sessions and self._sessions[node_id].open

    def is_served(self, partition: TopicIdPartition) -> bool:
        """Whether the partition's leader is known and has answered this member's last request; or
        its topic is gone, so nobody will bring the records."""
        gone = self._cluster.metadata.name_of(partition.topic_id) is None
        return gone or self.is_open(self.leader(partition))

    async def by_node(
        self, partitions: Iterable[TopicIdPartition]
    ) -> dict[int, list[TopicIdPartition]]:
        """Partitions by leader. If a leader is unknown, the cluster is asked once."""
        partitions = list(partitions)
        if any(self.leader(partition) is None for partition in partitions):
            await self.refresh()
        return self._by_leader(partitions)

    async def to_fetch(
        self, partitions: Collection[TopicIdPartition], wait_s: float
    ) -> dict[int, list[TopicIdPartition]]:
        """As :meth:`by_node`. While the same leaders stay unknown, and others are known, the
        cluster is asked once in a ``retry_backoff_ms``: fetches follow each other quickly."""
        unled = {partition for partition in partitions if self.leader(partition) is None}
        now = asyncio.get_running_loop().time
        if unled != self._unled:
            self._unled = unled
            self._ask_at = now()
        if unled and (len(unled) == len(partitions) or now() >= self._ask_at):
            await within(wait_s, self.refresh)
            self._ask_at = now() + self._cluster.retry.first_ms / 1000
        return self._by_leader(partitions)

    def _by_leader(
        self, partitions: Iterable[TopicIdPartition]
    ) -> dict[int, list[TopicIdPartition]]:
        nodes: dict[int, list[TopicIdPartition]] = {}
        for partition in partitions:
            node_id = self.leader(partition)
            if node_id is not None:
                nodes.setdefault(node_id, []).append(partition)
        return nodes

    async def refresh(self) -> None:
        """Refresh the leaders. If the cluster cannot be reached, nothing changes."""
        try:
            await self._cluster.refresh()
        except RetriableError as error:
            log.debug("no metadata: %s", error)


async def within(wait_s: float | None, wait: Callable[[], Awaitable[None]]) -> None:
    """Call ``wait``, and await it for at most ``wait_s`` seconds; None: as long as it takes."""
    try:
        async with asyncio.timeout(wait_s):
            await wait()
    except TimeoutError:
        return
