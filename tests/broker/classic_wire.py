"""Members of classic groups, each with its own connection, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sharegroup.client.network.connection import Connection
from sharegroup.model.errors import ERRORS
from sharegroup.wire import apis
from sharegroup.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from sharegroup.wire.messages.heartbeat import HeartbeatRequest
from sharegroup.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from sharegroup.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from sharegroup.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.group_wire import TIMEOUT_MS, World

CLASSIC = "classic-grp"
MEMBER_ID_REQUIRED = 79


class ClassicMember:
    """A consumer of the group CLASSIC, played by hand."""

    def __init__(self, connection: Connection, instance_id: str | None = None) -> None:
        self._connection = connection
        self.instance_id = instance_id
        self.session_ms = 10_000
        self.metadata = b"m"
        self.member_id = ""
        self.generation = -1
        self.joined: Any = None

    async def send(self, api: apis.Api, request: Any) -> Any:
        return await self._connection.send(api, request, timeout_ms=TIMEOUT_MS)

    def disconnect(self) -> None:
        self._connection.close()

    async def join_once(
        self, protocols: Sequence[str] = ("range",), *, session_ms: int | None = None, **other: Any
    ) -> Any:
        """One JoinGroup; keeps the member id and generation of its answer."""
        request = JoinGroupRequest(
            group_id=other.pop("group", CLASSIC),
            session_timeout_ms=session_ms or self.session_ms,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=other.pop("protocol_type", "consumer"),
            protocols=[JoinGroupRequestProtocol(name, self.metadata) for name in protocols],
            **other,
        )
        answer = await self.send(apis.JOIN_GROUP, request)
        if answer.error_code in (0, MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
        if not answer.error_code:
            self.generation = answer.generation_id
        self.joined = answer
        return answer

    async def join(self, protocols: Sequence[str] = ("range",), **other: Any) -> Any:
        """Join as a client does: get an id, come again with it."""
        answer = await self.join_once(protocols, **other)
        if answer.error_code == MEMBER_ID_REQUIRED:
            answer = await self.join_once(protocols, **other)
        assert answer.error_code == 0, ERRORS[answer.error_code]
        return answer

    @property
    def leads(self) -> bool:
        return bool(self.joined.leader == self.member_id)

    async def sync_once(self, assignments: Mapping[str, bytes] | None = None) -> Any:
        request = SyncGroupRequest(
            CLASSIC,
            self.generation,
            self.member_id,
            self.instance_id,
            self.joined.protocol_type or "consumer",
            self.joined.protocol_name,
            [SyncGroupRequestAssignment(*one) for one in (assignments or {}).items()],
        )
        return await self.send(apis.SYNC_GROUP, request)

    async def sync(self) -> bytes:
        """Sync; a leader gives each member its own id as assignment."""
        given = {m.member_id: m.member_id.encode() for m in self.joined.members}
        answer = await self.sync_once(given if self.leads else None)
        assert answer.error_code == 0, ERRORS[answer.error_code]
        return bytes(answer.assignment)

    async def heartbeat(self) -> int:
        """The error code."""
        request = HeartbeatRequest(CLASSIC, self.generation, self.member_id, self.instance_id)
        answer = await self.send(apis.HEARTBEAT, request)
        return int(answer.error_code)

    async def leave(self) -> int:
        """The error code of this member."""
        request = LeaveGroupRequest(
            group_id=CLASSIC, members=[MemberIdentity(self.member_id, self.instance_id)]
        )
        request.member_id = self.member_id  # before version 3
        answer = await self.send(apis.LEAVE_GROUP, request)
        return int(next((left.error_code for left in answer.members), answer.error_code))


async def member(world: World, instance_id: str | None = None, **versions: int) -> ClassicMember:
    """A client that has not joined yet."""
    return ClassicMember(await world.connect(**versions), instance_id)


async def together(*members: ClassicMember) -> list[bytes]:
    """All members join and sync; their assignments."""
    await asyncio.gather(*(one.join() for one in members))
    return list(await asyncio.gather(*(one.sync() for one in members)))


async def asked(world: World, requests: int = 1) -> None:
    """Return as soon as so many joins and syncs wait in the broker for other members."""
    async with asyncio.timeout(240):
        while True:
            if world.broker.parts.classic_groups.waiting >= requests:
                return
            await asyncio.sleep(0.001)


async def describe(world: World, group: str = CLASSIC) -> DescribedGroup:
    (found,) = (await world.send(apis.DESCRIBE_GROUPS, DescribeGroupsRequest([group]))).groups
    assert isinstance(found, DescribedGroup)
    return found


async def listed(world: World, **filters: Any) -> dict[str, tuple[str, str, str]]:
    """(protocol type, state, type) of each group."""
    answer = await world.send(apis.LIST_GROUPS, ListGroupsRequest(**filters))
    return {g.group_id: (g.protocol_type, g.group_state, g.group_type) for g in answer.groups}
