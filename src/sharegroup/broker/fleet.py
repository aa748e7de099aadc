"""This broker as one of several in front of a cluster: what the map of the nodes' group means for
the coordinators and share partitions here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from sharegroup.broker.coordination.cluster_topic import PASSING, ClusterTopic
from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.persister import FleetState
from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.coordination.shared_topic import SharedTopic
from sharegroup.broker.fleet_leadership import FleetLeadership
from sharegroup.broker.parts import BrokerParts
from sharegroup.client.network.cluster import Cluster
from sharegroup.fleet.assignment import Owned
from sharegroup.fleet.placement import state_partition
from sharegroup.keyed_locks import KeyedLocks
from sharegroup.model import errors
from sharegroup.model.environment import Clock
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.upstream.epochs import Epochs
from sharegroup.upstream.node_requests import Answer, NodeRequests
from sharegroup.upstream.nodes_group import NO_MAP, FleetMap, NodeFacts, NodesGroup
from sharegroup.upstream.ownership import Ownership
from sharegroup.upstream.peer_watch import PeerWatch, WatchedPort, is_there
from sharegroup.wire.apis import Api
from sharegroup.wire.schema import Message

logger = logging.getLogger("sharegroup.broker")

GROUP_ID: Final = "__sharegroup_fleet_nodes"
"""Of the nodes, at the cluster."""
REQUESTS: Final = "requests"
"""The topic with requests from node to node."""
LEAVE_S: Final = 3.0
"""How long a node that stops waits until all it has is another one's."""


class Fleet:
    """See the module.

    Args:
        partitions: how many state partitions there are: of share groups, and of groups.
        epochs: those that parts have had.

    Attributes:
        leadership: who leads what.
    """

    def __init__(
        self,
        cluster: Cluster,
        node_id: int,
        incarnation: bytes,
        partitions: int,
        clock: Clock,
        epochs: Epochs,
    ) -> None:
        self.leadership = FleetLeadership(node_id, partitions)
        self._cluster = cluster
        self._node_id = node_id
        self._incarnation = incarnation
        self._partitions = partitions
        self._ownership = Ownership(cluster, node_id, incarnation)
        self.placement = _Placement(partitions, self._ownership)
        self._ownership.holds = lambda: self.may_deliver
        self._clock = clock
        self._epochs = epochs
        self._requests: NodeRequests | None = None
        self._watch = PeerWatch(node_id, self._gone)
        self._watched = WatchedPort()
        self._said_gone = ""
        """The incarnation of the last node whose end was logged: its end may be noticed again."""
        self._locks = KeyedLocks()
        self._changes: set[asyncio.Task[None]] = set()
        self._giving_up: dict[int, asyncio.Task[None]] = {}
        self._newest = NO_MAP
        self._group: NodesGroup | None = None
        self._next_map: asyncio.Future[None] | None = None
        """Done when there is a new map."""
        self._parts: BrokerParts
        self._groups: GroupRuntimes
        self._answer: Answer

    @property
    def may_deliver(self) -> bool:
        """Whether no other node can have what the map gives to this one."""
        return self._group is not None and self._group.holds

    @property
    def node_count(self) -> int:
        """See ``OtherNodes``."""
        return len(self.leadership.map.nodes)

    @property
    def owned(self) -> Collection[int]:
        """See ``OtherNodes``."""
        return self._ownership.owned

    @property
    def is_first(self) -> bool:
        """Whether this is the node for what one of them is to do."""
        return self._node_id == min(self.leadership.map.nodes, default=self._node_id)

    def leads(self, topic_id: UUID, partition: int) -> bool:
        """Whether this node leads a partition of a topic."""
        return self.leadership.leader(topic_id, partition).node_id == self._node_id

    def topic(self, name: str, partitions: int) -> ClusterTopic:
        """A topic of coordinators, in the cluster.

        Raises:
            ConfigError: there are as many partitions of each of them.
        """
        if partitions != self._partitions:
            raise errors.ConfigError(
                "offsets.topic.num.partitions and share.coordinator.state.topic.num.partitions are "
                "to be the same number for brokers in front of a cluster"
            )
        me = (self._node_id, self._incarnation)
        return ClusterTopic(
            name, partitions, self._cluster, me, self._clock.wall_ms, self._ownership.turn
        )

    def shared_topic(self, name: str) -> SharedTopic:
        """A topic of coordinators that all nodes read and write."""
        return SharedTopic(name, self._cluster, self._clock.wall_ms)

    def persister(self, here: ShareStateLog) -> FleetState:
        """The share state of all nodes."""
        return FleetState(here, self._node_id, self)

    def owner_of(self, key: SharePartitionKey) -> int:
        """See ``OtherNodes``."""
        return self.leadership.leader(key.topic_id, key.partition).node_id

    async def ask(self, node_id: int, api: Api, version: int, request: Message) -> Any:
        """See ``OtherNodes``."""
        if self._requests is None:
            raise errors.CoordinatorNotAvailable("this broker is no node yet")
        return await self._requests.ask(node_id, api, version, request)

    # --- coming and going -------------------------------------------------------------------------

    def begin(self, parts: BrokerParts, groups: GroupRuntimes, answer: Answer) -> None:
        """These are the coordinators and share partitions of this broker, and what answers requests
        of other nodes."""
        self._parts, self._groups, self._answer = parts, groups, answer

    async def join(
        self, endpoints: Mapping[str, tuple[str, int]], host: str, rack: str | None
    ) -> None:
        """Become a node, and take what the map gives to this one.

        Args:
            endpoints: host and port that clients are told, by the name of the listener.
            host: the address of the first listener.

        Raises:
            ConfigError: the cluster refuses, or the watched port cannot be used.
        """
        wanted = self._parts.configs.broker.integer("upstream.watched.port")
        port = await self._watched.open(host, wanted)
        me = NodeFacts(self._node_id, self._incarnation.hex(), endpoints, port, rack)
        topic = ClusterTopic.shared(REQUESTS, self._cluster, self._clock.wall_ms, PASSING)
        self._requests = NodeRequests(
            self._cluster,
            TopicPartition(topic.name, 0),
            (self._node_id, me.incarnation),
            self._clock.wall_ms,
            self._answer,
        )
        self._group = NodesGroup(
            self._cluster,
            GROUP_ID,
            me,
            self._partitions,
            self._told,
            lambda: self._parts.configs.broker.flag("node.drain"),
            is_there,
            self._epochs,
        )
        try:
            await topic.ensure()
            await self._requests.start()
            await self._group.start()
        except errors.KafkaError as error:
            raise errors.ConfigError(f"the cluster cannot be used: {error}") from error
        await asyncio.gather(*self._changes)

    async def hand_over(self) -> None:
        """Let others have everything, and leave. If there are none, or they cannot take it now,
        this node has it until :meth:`leave`."""
        if self._group is None or not self._takers():
            return
        self._group.drain()
        try:
            async with asyncio.timeout(LEAVE_S):
                while self._takers() and self._ownership.owned:
                    await self._map_changed()
                await asyncio.gather(*self._changes)
        except TimeoutError:
            logger.warning("this broker stops before others have all that it has")
        if not self._ownership.owned:
            await self.leave()

    async def leave(self) -> None:
        """Give up everything, and be no node any more. Where the cluster does not answer, the next
        owners wait for longer."""
        if self._group is None:
            return
        group, self._group = self._group, None
        await self._watch.close()
        await group.stop()
        owned = sorted(self._ownership.owned)
        self._newest = NO_MAP
        self._ownership.told(NO_MAP)  # nothing is claimed again
        try:
            async with asyncio.timeout(LEAVE_S):
                await asyncio.gather(*map(self._give_up, owned))
                await group.leave()
        except TimeoutError:
            logger.warning("this broker stops, and could not tell the cluster")
        await self._watched.close()
        if self._requests is not None:
            await self._requests.close()

    def _takers(self) -> list[NodeFacts]:
        """The nodes that can take what this one has."""
        nodes = self.leadership.map.nodes.values()
        return [one for one in nodes if one.node_id != self._node_id and not one.draining]

    async def _map_changed(self) -> None:
        self._next_map = asyncio.get_running_loop().create_future()
        await self._next_map

    async def _gone(self, node: NodeFacts) -> None:
        """The process of a node has died: its session need not end by itself."""
        assert self._group is not None, "joined"
        known = self.leadership.map.nodes.get(node.node_id)
        if known is None or known.incarnation != node.incarnation:
            return
        if self._said_gone != known.incarnation:
            self._said_gone = known.incarnation
            level = logging.INFO if known.draining else logging.WARNING
            logger.log(level, "node %d is gone: others take what it had", node.node_id)
        try:
            await self._group.remove(known.member_id)
        except errors.KafkaError as error:
            logger.debug("the cluster is told again that node %d is gone: %s", node.node_id, error)

    # --- the map ----------------------------------------------------------------------------------

    def _told(self, found: FleetMap) -> None:
        """There is a new map. Where it gives this node what others may have had meanwhile, what
        is known of that here is an old state: it is given up first, and taken then."""
        self._newest = found
        old = {
            partition
            for partition, owned in found.owners.items()
            if owned.node_id == self._node_id
            and (partition in self._giving_up or self._is_old(partition, owned))
        }
        kept = {one: owned for one, owned in found.owners.items() if one not in old}
        self._follow(found._replace(owners=kept))
        if old:
            self._change(self._tell_later(found))

    def _is_old(self, partition: int, owned: Owned) -> bool:
        """Whether this node has the partition, and another one may have had it since, by a map that
        this node has missed: each of these raises the epoch."""
        known = self.leadership.map.owners.get(partition)
        return known is not None and known.node_id == owned.node_id and known != owned

    async def _tell_later(self, found: FleetMap) -> None:
        await asyncio.gather(*self._giving_up.values(), return_exceptions=True)
        if self._newest is found:
            self._told(found)

    def _follow(self, found: FleetMap) -> None:
        """Give up what is not this node's any more, and take what is."""
        before = self._ownership.owned
        self._ownership.told(found)
        self.leadership.map = found
        self._watch.told(found)
        if self._requests is not None:
            self._requests.there_are(found.nodes)
        now = self._ownership.owned
        if now != before:
            logger.info(
                "this broker, node %d, has %d of %d parts of the state; there are %d brokers",
                self._node_id,
                len(now),
                self._partitions,
                len(found.nodes),
            )
        if before - now:
            # Nothing is acquired from now on, and who waits is told where to go.
            self._parts.share_partitions.lead_no_more()
        self._parts.waiters.wake_all()
        if self._next_map is not None and not self._next_map.done():
            self._next_map.set_result(None)
        for partition in sorted(before - now):
            self._giving_up[partition] = self._change(self._give_up(partition))
        if now - before:
            self._change(self._take_all(sorted(now - before)))

    def _change(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return task

    async def _give_up(self, partition: int) -> None:
        try:
            async with self._locks.holding(str(partition)):
                await asyncio.gather(
                    self._parts.state.give_up(partition), self._groups.all()[partition].give_up()
                )
        finally:
            self._giving_up.pop(partition, None)

    async def _take_all(self, partitions: Sequence[int]) -> None:
        """Load, and go on with what the nodes before have left."""
        await asyncio.gather(*map(self._take, partitions))
        try:
            await self._parts.groups.forget_missing()
            await self._parts.dead_letters.resume()
        except errors.KafkaError as error:
            logger.warning("what another node has left is not done yet: %s", error)

    async def _take(self, partition: int) -> None:
        async with self._locks.holding(str(partition)):
            try:
                await asyncio.gather(
                    self._parts.state.take(partition), self._groups.all()[partition].load()
                )
            except errors.NotCoordinator:
                logger.debug("the part %d went to another node meanwhile", partition)
            except errors.KafkaError as error:
                logger.warning("the part %d is loaded at its first use: %s", partition, error)


class _Placement:
    """Implements ``share_state_log.Placement``: all groups of a topic's partition are in one."""

    def __init__(self, partitions: int, ownership: Ownership) -> None:
        self._partitions = partitions
        self.check = ownership.check

    def place(self, key: SharePartitionKey) -> int:
        """See ``Placement``."""
        return state_partition(key.topic_id, key.partition, self._partitions)
