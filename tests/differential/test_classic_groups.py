"""One story of classic groups, told by hand to our broker and to Apache Kafka: the same answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.client.network.connection import Connection
from sharegroup.client.network.versions import CLIENT_VERSIONS
from sharegroup.model.errors import ERRORS, UnknownMemberId
from sharegroup.wire import apis
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest
from sharegroup.wire.messages.describe_groups import DescribeGroupsRequest
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.heartbeat import HeartbeatRequest
from sharegroup.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.apache_kafka.broker import KafkaBroker
from tests.broker.classic_wire import CLASSIC, ClassicMember
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

TIMEOUT_MS = 120_000
OPTIONS = ("group.initial.rebalance.delay.ms=0", "group.max.size=3")


class Story:
    """What a server answered, in words."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self.answers: list[object] = []
        self.connections: list[Connection] = []

    async def member(self, instance_id: str | None = None, **versions: int) -> ClassicMember:
        host, port = self._server.bootstrap.split(":")
        spoken = {
            served.api: (served.versions.first, versions.get(served.api.module, 999))
            for served in API_TABLE.values()
        }
        connection = await Connection.open(
            host,
            int(port),
            client_id="c",
            timeout_ms=TIMEOUT_MS,
            versions={**CLIENT_VERSIONS, **spoken},
        )
        self.connections.append(connection)
        made = ClassicMember(connection, instance_id)
        made.session_ms = 120_000  # nobody is late on a busy machine
        return made

    def note(self, *words: object) -> None:
        self.answers.append(words)

    def code(self, what: str, code: int, *words: object) -> None:
        self.note(what, ERRORS[code].name if code else "ok", *words)

    def joined(self, what: str, one: ClassicMember, answer: Any) -> None:
        self.code(
            what,
            answer.error_code,
            answer.generation_id,
            answer.protocol_type,
            answer.protocol_name,
            bool(answer.member_id),
            answer.member_id == one.member_id,
            bool(answer.leader) and answer.leader == one.member_id,
            [(m.group_instance_id, bytes(m.metadata)) for m in answer.members],
            answer.skip_assignment,
        )

    async def describe(self, one: ClassicMember, *groups: str) -> None:
        request = DescribeGroupsRequest(groups or [CLASSIC])
        for group in (await one.send(apis.DESCRIBE_GROUPS, request)).groups:
            self.code(
                "describe",
                group.error_code,
                group.error_message,
                group.group_state,
                group.protocol_type,
                group.protocol_data,
                sorted(
                    (
                        m.group_instance_id or "",
                        m.client_id,
                        m.client_host,
                        bytes(m.member_metadata),
                        bool(m.member_assignment),
                    )
                    for m in group.members
                ),
            )


async def refusals(story: Story) -> None:
    """Requests that come too early, or are wrong."""
    one = await story.member()
    story.code("heartbeat to no group", await one.heartbeat())
    story.code("leave no group", await one.leave())
    await story.describe(one, "no-such-group")
    old = await story.member(describe_groups=5)
    await story.describe(old, "no-such-group")
    for what, more in (
        ("no group id", {"group": ""}),
        ("short session", {"session_ms": 5_999}),
        ("long session", {"session_ms": 1_800_001}),
        ("no protocol type", {"protocol_type": ""}),
    ):
        story.joined(what, one, await one.join_once(**more))
    story.joined("no protocols", one, await one.join_once(()))
    one.member_id = "stranger"
    story.joined("an unknown member", one, await one.join_once())
    for request in (HeartbeatRequest("", 1, "m"), LeaveGroupRequest("", members=[])):
        api = apis.HEARTBEAT if isinstance(request, HeartbeatRequest) else apis.LEAVE_GROUP
        story.code("no group id", (await one.send(api, request)).error_code)


async def dynamic_members(story: Story) -> None:
    """Two members, wrong requests among right ones."""
    one, two = await story.member(), await story.member(join_group=3)
    story.joined("first join", one, await one.join_once())
    await story.describe(one)
    story.joined("second join", one, await one.join_once())
    story.joined("again", one, await one.join_once())
    await story.describe(one)
    story.code("heartbeat", await one.heartbeat())
    one.generation += 1
    story.code("heartbeat of a later generation", await one.heartbeat())
    story.code("sync of a later generation", (await one.sync_once()).error_code)
    one.generation -= 1
    name, one.joined.protocol_name = one.joined.protocol_name, "sticky"
    story.code("sync of another protocol", (await one.sync_once()).error_code)
    one.joined.protocol_name = None
    story.code("sync of no protocol", (await one.sync_once()).error_code)
    one.joined.protocol_name = name
    story.note("sync", bool(await one.sync()))
    story.note("sync again", bool(await one.sync()))
    await story.describe(one)
    story.joined("another protocol", two, await two.join_once(["sticky"]))
    story.joined("another type", two, await two.join_once(protocol_type="connect"))
    joining = asyncio.create_task(two.join_once())
    for _ in range(500):
        if (code := await one.heartbeat()) != 0:
            break
        await asyncio.sleep(0.02)
    story.code("heartbeat in a rebalance", code)
    story.code("sync in a rebalance", (await one.sync_once()).error_code)
    await story.describe(one)
    story.joined("the leader joins", one, await one.join_once())
    story.joined("the other", two, await joining)
    given = await asyncio.gather(two.sync(), one.sync())
    story.note("assignments", [bool(each) for each in given])
    story.joined("a follower joins again", two, await two.join_once())
    third, fourth = await story.member(), await story.member()
    await third.join_once()
    deleted = await one.send(apis.DELETE_GROUPS, DeleteGroupsRequest([CLASSIC, "none"]))
    for result in sorted(deleted.results, key=lambda result: result.group_id):
        story.code("delete", result.error_code)
    story.code("a pending member leaves", await third.leave())
    story.code("and again", await third.leave())
    story.code("the heartbeat then", await one.heartbeat())
    story.note("the group is limited", await full(story, fourth, one, two))


async def full(story: Story, other: ClassicMember, *members: ClassicMember) -> list[str]:
    """Fill the group up to its size; the code of one member more."""
    await other.join_once()  # the others wait for whoever has an id
    await asyncio.gather(other.join(), *(one.join_once() for one in members))
    await asyncio.gather(other.sync(), *(one.sync() for one in members))
    more = await (await story.member()).join_once()
    codes = [ERRORS[more.error_code].name]
    codes += [str(await one.leave()) for one in (other, *members)]
    await story.describe(other)
    listed = await other.send(apis.LIST_GROUPS, ListGroupsRequest())
    codes += [f"{g.group_id} {g.protocol_type} {g.group_state}" for g in listed.groups]
    return codes


async def static_members(story: Story) -> None:
    """A static member, its successor, and an administrator."""
    one = await story.member("i")
    story.joined("a static member", one, await one.join_once())
    await one.sync()
    two = await story.member("i")
    story.joined("its successor", two, await two.join_once())
    story.note("its assignment", bool((await two.sync_once()).assignment))
    story.code("the fenced one's heartbeat", await one.heartbeat())
    story.code("its sync", (await one.sync_once()).error_code)
    story.joined("its join", one, await one.join_once())
    story.code("its leave", await one.leave())
    old = await story.member("i", join_group=8)
    story.joined("an old successor", old, await old.join_once())
    wrong = [MemberIdentity("", "j"), MemberIdentity("x", "j"), MemberIdentity("x")]
    request = LeaveGroupRequest(group_id=CLASSIC, members=[*wrong, MemberIdentity("", "i")])
    for left in (await two.send(apis.LEAVE_GROUP, request)).members:
        story.code("removed", left.error_code, left.member_id, left.group_instance_id)
    await story.describe(two)
    deleted = await two.send(apis.DELETE_GROUPS, DeleteGroupsRequest([CLASSIC]))
    story.code("delete", deleted.results[0].error_code)
    await story.describe(two)


async def types_of_group(story: Story) -> None:
    """One id, two types."""
    one = await story.member()

    async def share(group: str) -> Any:
        request = ShareGroupHeartbeatRequest(group, "m" * 22, 0, None, ["jobs"])
        return await one.send(apis.SHARE_GROUP_HEARTBEAT, request)

    story.code("a share group", (await share("shared")).error_code)
    story.joined("a consumer joins it", one, await one.join_once(group="shared"))
    request = HeartbeatRequest("shared", 1, "m" * 22)
    story.code("its heartbeat", (await one.send(apis.HEARTBEAT, request)).error_code)
    await story.describe(one, "shared")
    await one.join()
    answer = await share(CLASSIC)
    story.code("a share consumer joins a consumer group", answer.error_code, answer.error_message)


async def tell(server: RunningServer) -> list[object]:
    story = Story(server)
    finder = await story.member()
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[CLASSIC])
    await finder.send(apis.FIND_COORDINATOR, request)  # Kafka makes its topic now
    for _ in range(300):
        if await finder.leave() == UnknownMemberId.code:
            break
        await asyncio.sleep(0.1)
    for part in (refusals, dynamic_members, static_members, types_of_group):
        await part(story)
    for connection in story.connections:
        connection.close()
    await asyncio.sleep(0)
    return story.answers


def test_the_same_answers_as_apache_kafka(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path / "ours", *OPTIONS) as server:
        ours = asyncio.run(asyncio.wait_for(tell(server), 240))
    with KafkaBroker(tmp_path / "kafka", *OPTIONS) as server:
        theirs = asyncio.run(asyncio.wait_for(tell(server), 240))
    for our, their in zip(ours, theirs, strict=True):
        assert our == their
