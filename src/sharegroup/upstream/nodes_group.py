"""The nodes of a fleet as a group at the cluster: a classic group with a protocol type of its own,
as Kafka Connect and the Schema Registry have one.

The member that the cluster elects decides who owns what (``fleet/assignment.py``). Everybody gets
the whole map, and serves on during a rebalance by the map before: the log of each state partition
says who its owner is, the map only who should try.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from sharegroup.client.network.cluster import GROUP, Cluster
from sharegroup.fleet.assignment import Owned, OwnerMap, assign, newest
from sharegroup.model import errors
from sharegroup.upstream.epochs import Epochs
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from sharegroup.wire.messages.heartbeat import HeartbeatRequest
from sharegroup.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from sharegroup.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sharegroup.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sharegroup.wire.schema import Message

logger = logging.getLogger("sharegroup.broker")

PROTOCOL_TYPE: Final = "sharegroup"
PROTOCOL: Final = "nodes-1"
SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 5_000
HEARTBEAT_S: Final = 0.5
LEASE_S: Final = 2.0
"""A node whose last heartbeat is older hands out nothing. Its session ends later, so nobody has got
its partitions by then."""
PAUSE_S: Final = 0.2
LANE: Final = "nodes"
BEATS_WHILE_JOINING: Final = "beats while it joins"
BEATS: Final = "nodes-beats"
"""Another connection: a join may wait for a member that does not answer, and holds back what comes
behind it."""


class NodeFacts(NamedTuple):
    """What a node says of itself.

    Attributes:
        endpoints: host and port that clients are told, by the name of the listener.
        watched_port: where others see that it is there.
        member_id: in the group, as the member knows that decides; empty in what a node says.
    """

    node_id: int
    incarnation: str
    endpoints: Mapping[str, tuple[str, int]]
    watched_port: int
    rack: str | None = None
    draining: bool = False
    member_id: str = ""


class FleetMap(NamedTuple):
    """What the elected member has decided."""

    generation: int
    nodes: Mapping[int, NodeFacts]
    owners: OwnerMap


NO_MAP: Final = FleetMap(-1, {}, {})


class NodesGroup:
    """See the module.

    Args:
        group_id: of the fleet at the cluster.
        partitions: how many state partitions there are.
        told: called with each new map.
        drains: whether this node is to own nothing, looked at twice a second.
        is_there: whether the process of a node is alive.
        epochs: those that were given out.

    Attributes:
        map: the newest map.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        me: NodeFacts,
        partitions: int,
        told: Callable[[FleetMap], None],
        drains: Callable[[], bool],
        is_there: Callable[[NodeFacts], Awaitable[bool]],
        epochs: Epochs,
    ) -> None:
        self.map = NO_MAP
        self._last: OwnerMap = {}
        """The last owners that this node knows of."""
        self._cluster = cluster
        self._group_id = group_id
        self._me = me
        self._partitions = partitions
        self._told = told
        self._drains = drains
        self._is_there = is_there
        self._leaves = False
        self._epochs = epochs
        self._member_id = ""
        self._generation = -1
        self._again = asyncio.Event()
        self._asked_s = float("-inf")
        """When the last request was on its way that the cluster took as one of this generation."""
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None

    @property
    def holds(self) -> bool:
        """Whether this node may hand out records: no other one can have got its partitions."""
        return asyncio.get_running_loop().time() - self._asked_s < LEASE_S

    async def start(self) -> None:
        """Join, and return when there is a map with this node.

        Raises:
            KafkaError: the cluster refuses for good.
        """
        self._first = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(), name="nodes of the fleet")
        await self._first

    def drain(self) -> None:
        """Ask for a map in which this node owns nothing: it leaves."""
        self._leaves = True
        self._again.set()

    async def stop(self) -> None:
        """Take no map any more; :attr:`holds` ends with the lease."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def leave(self) -> None:
        """Stop, and leave: the others take over at once."""
        await self.stop()
        if self._member_id:
            try:
                await self.remove(self._member_id)
            except errors.KafkaError as error:
                logger.info("this node's session ends by itself: %s", error)

    async def remove(self, member_id: str) -> None:
        """Tell the cluster that a member is gone.

        Raises:
            KafkaError: the cluster cannot be told.
        """
        request = LeaveGroupRequest(
            self._group_id, member_id, [MemberIdentity(member_id, None, "gone")]
        )
        # Not behind a join that waits for that very member.
        await self._ask(apis.LEAVE_GROUP, request, lane=BEATS)

    async def _run(self) -> None:
        assert self._first is not None, "started"
        former = True
        while True:
            try:
                if former:
                    await self._remove_former()
                    former = False
                self._again.clear()
                await self._join()
                if not self._first.done():
                    self._first.set_result(None)
                await self._beat()
            except errors.RebalanceInProgress:
                continue  # somebody has come between the join and the map
            except (errors.IllegalGeneration, errors.UnknownMemberId, errors.FencedInstanceId):
                self._member_id, self._generation = "", -1
                self._asked_s = float("-inf")  # others may have all that this node had
            except errors.KafkaError as error:
                if not error.retriable and not self._first.done():
                    self._first.set_exception(error)
                    return
                level = logging.INFO if error.retriable else logging.WARNING
                logger.log(level, "the fleet's group cannot be joined now: %s", error)
                await asyncio.sleep(PAUSE_S)

    async def _remove_former(self) -> None:
        """An earlier process of this node is dead: nobody need wait for the end of its session.

        Raises:
            DuplicateBrokerRegistration: it is alive: two brokers have one id.
        """
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + 2 * SESSION_MS / 1000
        while former := await self._members_with_this_id():
            for facts in former:
                if not await self._is_there(facts):
                    await self.remove(facts.member_id)
                elif now_s() > until_s:
                    raise self._duplicate(facts)
                else:  # or another program has its port, and its session ends soon
                    await asyncio.sleep(PAUSE_S)

    async def _members_with_this_id(self) -> list[NodeFacts]:
        request = DescribeGroupsRequest([self._group_id])
        answer: DescribeGroupsResponse = await self._cluster.send_to_coordinator(
            self._group_id, apis.DESCRIBE_GROUPS, request, kind=GROUP, lane=LANE
        )
        for group in answer.groups:
            if group.error_code != errors.GroupIdNotFound.code:
                self._check(group.error_code)
        found = [
            _facts({**json.loads(said)["node"], "member_id": member.member_id})
            for group in answer.groups
            for member in group.members
            if (said := bytes(member.member_metadata))
        ]
        return [one for one in found if one.node_id == self._me.node_id]

    def _duplicate(self, other: NodeFacts) -> errors.KafkaError:
        at = ", ".join(f"{host}:{port}" for host, port in other.endpoints.values())
        return errors.DuplicateBrokerRegistration(
            f"the broker at {at} has the same node.id, {self._me.node_id}: give each broker a data "
            "folder of its own (not a copy), and no node.id or one of its own"
        )

    async def _beat(self) -> None:
        """Return when there is to be a new map."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), HEARTBEAT_S)
            if self._again.is_set():
                return
            if not await self._confirmed(self._generation):
                return
            if self._me.draining != self._is_draining:
                return

    async def _confirmed(self, generation: int) -> bool:
        """Have the cluster confirm that this node is one of the group, and that nobody has got what
        it has by the map of a generation. Returns False if there is to be another map.

        Raises:
            KafkaError: it does not confirm that.
        """
        request = HeartbeatRequest(self._group_id, generation, self._member_id)
        asked_s = asyncio.get_running_loop().time()
        try:
            await self._ask(apis.HEARTBEAT, request, lane=BEATS)
        except errors.RebalanceInProgress:
            self._asked_s = asked_s
            return False
        self._asked_s = asked_s
        return True

    async def _beat_while_joining(self) -> None:
        """The cluster waits for all nodes, also for one that stands still: the others serve on."""
        generation = self._generation  # the next one may give to others what this node has
        with suppress(errors.KafkaError):
            while generation >= 0:
                await asyncio.sleep(HEARTBEAT_S)
                await self._confirmed(generation)

    @property
    def _is_draining(self) -> bool:
        return self._leaves or self._drains()

    async def _join(self) -> None:
        beating = asyncio.create_task(self._beat_while_joining(), name=BEATS_WHILE_JOINING)
        try:
            await self._join_and_sync()
        finally:
            beating.cancel()

    async def _join_and_sync(self) -> None:
        self._me = self._me._replace(draining=self._is_draining)
        metadata = _written({"node": self._me._asdict(), "owners": _owners_json(self._last)})
        while True:
            request = JoinGroupRequest(
                self._group_id,
                SESSION_MS,
                REBALANCE_MS,
                self._member_id,
                None,
                PROTOCOL_TYPE,
                [JoinGroupRequestProtocol(PROTOCOL, metadata)],
            )
            try:
                joined: JoinGroupResponse = await self._ask(
                    apis.JOIN_GROUP, request, wait_ms=REBALANCE_MS + SESSION_MS
                )
                break
            except errors.MemberIdRequired as error:
                self._member_id = _member_id_in(error)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        decided: Sequence[SyncGroupRequestAssignment] = ()
        if joined.leader == joined.member_id:
            text = _written(await self._decided(joined))
            decided = [SyncGroupRequestAssignment(one.member_id, text) for one in joined.members]
        request_sync = SyncGroupRequest(
            self._group_id,
            self._generation,
            self._member_id,
            None,
            PROTOCOL_TYPE,
            PROTOCOL,
            decided,
        )
        asked_s = asyncio.get_running_loop().time()
        synced = await self._ask(apis.SYNC_GROUP, request_sync, wait_ms=REBALANCE_MS)
        self._asked_s = asked_s
        found = _map_of(self._generation, json.loads(bytes(synced.assignment)))
        mine = found.nodes[self._me.node_id]
        if mine.incarnation != self._me.incarnation:
            self._asked_s = float("-inf")
            raise self._duplicate(mine)
        self.map = found
        self._last = found.owners
        self._told(self.map)

    async def _decided(self, joined: JoinGroupResponse) -> dict[str, Any]:
        said = [json.loads(bytes(one.metadata)) for one in joined.members]
        nodes = {
            one["node"]["node_id"]: {**one["node"], "member_id": member.member_id}
            for one, member in zip(said, joined.members, strict=True)
        }
        before = newest([_owners_of(one["owners"]) for one in said])
        draining = [number for number, one in nodes.items() if one["draining"]]
        last = await self._epochs.last()
        known = max((one.epoch for one in before.values()), default=-1)
        epoch = max(last, known) + 1
        owners = assign(before, self._partitions, nodes, draining, epoch)
        if known < last:  # who knew the last map is gone, and anybody may have had anything
            owners = {partition: Owned(one.node_id, epoch) for partition, one in owners.items()}
        if owners != before:
            await self._epochs.keep(epoch)
        self._last = owners  # also if nobody is told of it, since the next rebalance has begun
        return {"nodes": [*nodes.values()], "owners": _owners_json(owners)}

    async def _ask(self, api: Api, request: Message, wait_ms: int = 0, lane: str = LANE) -> Any:
        answer = await self._cluster.send_to_coordinator(
            self._group_id,
            api,
            request,
            kind=GROUP,
            timeout_ms=SESSION_MS + wait_ms,
            lane=lane,
        )
        self._check(answer.error_code, getattr(answer, "member_id", ""))
        return answer

    def _check(self, code: int, member_id: str = "") -> None:
        if not code:
            return
        error = errors.error_from_code(code)
        if isinstance(error, errors.MemberIdRequired):
            raise errors.MemberIdRequired(member_id)
        if isinstance(error, errors.NotCoordinator | errors.CoordinatorNotAvailable):
            self._cluster.forget_coordinator(self._group_id, GROUP)
        raise error


def _member_id_in(error: errors.MemberIdRequired) -> str:
    return error.message


def _written(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _owners_json(owners: OwnerMap) -> list[list[int]]:
    return [[partition, *owned] for partition, owned in owners.items()]


def _owners_of(rows: Sequence[Sequence[int]]) -> dict[int, Owned]:
    return {partition: Owned(node_id, epoch) for partition, node_id, epoch in rows}


def _facts(one: Mapping[str, Any]) -> NodeFacts:
    endpoints = {name: (host, port) for name, (host, port) in one["endpoints"].items()}
    return NodeFacts(**{**one, "endpoints": endpoints})


def _map_of(generation: int, content: Mapping[str, Any]) -> FleetMap:
    nodes = {one["node_id"]: _facts(one) for one in content["nodes"]}
    return FleetMap(generation, nodes, _owners_of(content["owners"]))
