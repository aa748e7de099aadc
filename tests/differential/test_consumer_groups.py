"""One story of consumer groups (KIP-848), told by hand to our broker and to Apache Kafka: the same
answers.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.client.network.connection import Connection
from sharegroup.client.network.versions import CLIENT_VERSIONS
from sharegroup.model.errors import ERRORS, GroupIdNotFound
from sharegroup.wire import apis
from sharegroup.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sharegroup.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.apache_kafka.broker import KafkaBroker
from tests.servers.admin import Admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

TIMEOUT_MS = 120_000
GROUP = "readers"
OPTIONS = (
    "group.consumer.assignment.interval.ms=0",
    "group.consumer.assignor.offload.enable=false",
    "group.consumer.max.size=3",
    "group.initial.rebalance.delay.ms=0",
)


class Story:
    """What a server answered, in words. Member ids are letters, and the topic is always foo."""

    def __init__(self, connections: dict[int, Connection]) -> None:
        self._connections = connections
        self.answers: list[object] = []
        self.topic_id: Any = None

    async def send(self, api: apis.Api, request: Any, version: int = 1) -> Any:
        return await self._connections[version].send(api, request, timeout_ms=TIMEOUT_MS)

    def note(self, what: str, code: int, *words: object) -> None:
        self.answers.append((what, ERRORS[code].name if code else "ok", *words))

    async def beat(self, what: str, member: str, epoch: int, **more: Any) -> Any:
        """A heartbeat; ``owned`` are partitions of foo. Which ones a member gets is for the
        assignor to say, so only their number is compared.
        """
        version = more.pop("version", 1)
        owned = more.pop("owned", None)
        group = more.pop("group", GROUP)
        if owned is not None:
            owned = [TopicPartitions(self.topic_id, owned)] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            group, member, epoch, topic_partitions=owned, **more
        )
        answer = await self.send(apis.CONSUMER_GROUP_HEARTBEAT, request, version)
        held = None
        if answer.assignment is not None:
            held = [len(topic.partitions) for topic in answer.assignment.topic_partitions]
            for topic in answer.assignment.topic_partitions:
                self.topic_id = topic.topic_id
        self.note(
            what,
            answer.error_code,
            answer.error_message,
            answer.member_id == member,
            bool(answer.member_id),
            answer.member_epoch,
            0 < answer.heartbeat_interval_ms <= 5_000,  # ours is shorter after a change
            held,
        )
        return answer

    async def join(self, what: str, member: str, **more: Any) -> Any:
        full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["foo"], "owned": []}
        return await self.beat(what, member, 0, **{**full, **more})

    async def commit(self, what: str, member: str, epoch: int, *partitions: int) -> None:
        places = [OffsetCommitRequestPartition(partition, 7) for partition in partitions]
        topics = [OffsetCommitRequestTopic("foo", self.topic_id, places)]
        request = OffsetCommitRequest(GROUP, epoch, member, topics=topics)
        (topic,) = (await self.send(apis.OFFSET_COMMIT, request)).topics
        for partition in topic.partitions:
            self.note(what, partition.error_code)

    async def list_groups(self) -> None:
        listed = (await self.send(apis.LIST_GROUPS, ListGroupsRequest())).groups
        self.answers.append(
            sorted((g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed)
        )

    async def describe(self, group: str = GROUP) -> None:
        request = ConsumerGroupDescribeRequest([group])
        (found,) = (await self.send(apis.CONSUMER_GROUP_DESCRIBE, request)).groups
        self.note(
            "describe",
            found.error_code,
            found.error_message,
            found.group_state,
            found.group_epoch,
            found.assignment_epoch,
            found.assignor_name,
            sorted(
                (
                    m.member_id,
                    m.instance_id or "",
                    m.member_epoch,
                    m.client_id,
                    m.client_host,
                    tuple(m.subscribed_topic_names),
                    m.subscribed_topic_regex or "",
                    m.member_type,
                    _held(m.assignment),
                    _held(m.target_assignment),
                )
                for m in found.members
            ),
        )

    async def delete(self) -> None:
        answer = await self.send(apis.DELETE_GROUPS, DeleteGroupsRequest([GROUP]))
        (result,) = answer.results
        self.note("delete", result.error_code)


def _held(assignment: Any) -> list[tuple[str, list[int]]]:
    return [(t.topic_name, sorted(t.partitions)) for t in assignment.topic_partitions]


async def refusals(story: Story) -> None:
    """Requests that are incomplete or come too early."""
    await story.beat("no group", "a", 3)
    await story.beat("leaves no group", "a", -1)
    await story.describe()
    for what, change in (
        ("no timeout", {"rebalance_timeout_ms": -1}),
        ("no subscription", {"subscribed_topic_names": None}),
        ("no owned partitions", {"owned": None}),
        ("empty instance", {"instance_id": ""}),
        ("empty rack", {"rack_id": ""}),
        ("empty group", {"group": ""}),
        ("strange assignor", {"server_assignor": "mine"}),
    ):
        await story.join(what, "a", **change)
    await story.join("no member id", "")
    await story.beat("epoch -3", "a", -3)
    await story.beat("epoch -2 without instance", "a", -2)
    bad = await story.join("regex", "a", subscribed_topic_names=None, subscribed_topic_regex="(")
    story.answers[-1] = ("regex", bad.error_code)  # RE2 and RE2/J have words of their own


async def dynamic_members(story: Story) -> None:
    """Two members share two partitions."""
    first = await story.join("first", "a")
    await story.join("first again", "a")
    await story.describe()
    await story.beat("nothing new", "a", first.member_epoch)
    await story.beat("too new", "a", first.member_epoch + 1)
    await story.beat("too old", "a", first.member_epoch - 1)
    await story.beat("stranger", "x", first.member_epoch)
    second = await story.join("second", "b")
    told = await story.beat("first is told", "a", first.member_epoch, owned=[0, 1])
    (kept,) = told.assignment.topic_partitions[0].partitions
    await story.beat("first still owns all", "a", first.member_epoch, owned=[0, 1])
    await story.beat("second waits", "b", second.member_epoch)
    await story.beat("first gives back", "a", first.member_epoch, owned=[kept])
    await story.beat("the answer was lost", "a", first.member_epoch, owned=[kept])
    await story.beat("and nothing is owned", "a", first.member_epoch)
    gets = await story.beat("second gets it", "b", second.member_epoch)
    assert gets.assignment.topic_partitions[0].partitions == [1 - kept]
    await story.delete()
    await story.send(
        apis.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest("queue", "s", 0, None, ["foo"])
    )
    await story.join("a share group's id", "a", group="queue")
    share = ShareGroupHeartbeatRequest(GROUP, "s", 0, None, ["foo"])
    refused = await story.send(apis.SHARE_GROUP_HEARTBEAT, share)
    story.note("a consumer group's id", refused.error_code, refused.error_message)
    await story.describe("queue")
    await story.list_groups()
    await commits(story, first.member_epoch, second.member_epoch, kept)
    await story.beat("b leaves", "b", -1)
    await story.beat("b leaves again", "b", -1)


async def commits(story: Story, old: int, new: int, kept: int) -> None:
    """Two members have one partition each: a has had its own for longer (KIP-1251)."""
    await story.commit("current", "a", new, kept)
    await story.commit("older, still held", "a", old, kept)
    await story.commit("older, given back", "a", old, 1 - kept)
    await story.commit("older, one of them given back", "a", old, kept, 1 - kept)
    await story.commit("before it was b's", "b", old, 1 - kept)
    await story.commit("newer", "a", new + 1, kept)
    await story.commit("stranger", "x", new, kept)
    await story.commit("no member", "", -1, kept)


async def becomes_classic(story: Story) -> None:
    """The group's members have left. A classic one comes."""
    first = await story.join("last of its kind", "a")

    async def join(what: str, member_id: str = "") -> Any:
        protocols = [JoinGroupRequestProtocol("range", b"m")]
        request = JoinGroupRequest(
            GROUP, 10_000, 10_000, member_id, None, "consumer", protocols, None
        )
        answer = await story.send(apis.JOIN_GROUP, request)
        story.note(what, answer.error_code, bool(answer.member_id), answer.generation_id)
        return answer

    await story.commit("commits", "a", first.member_epoch, 0)
    await story.beat("a leaves", "a", -1)
    await story.list_groups()
    came = await join("classic, new")
    await join("classic", came.member_id)
    await story.list_groups()
    await story.beat("goes on", "a", first.member_epoch)


async def static_members(story: Story) -> None:
    """A static member goes and comes back."""
    await story.join("static", "s", instance_id="i")
    await story.join("its twin", "t", instance_id="i")
    await story.join("itself again", "s", instance_id="i")
    story.answers.pop()  # differences.csv: "a static member joins again"
    await story.beat("unknown instance", "s", 3, instance_id="j")
    await story.beat("leaves for a while", "s", -2, instance_id="i")
    await story.beat("while away", "s", 3, instance_id="i")
    back = await story.join("comes back", "t", instance_id="i")
    await story.beat("the former", "s", back.member_epoch, instance_id="i")
    await story.beat("the former leaves", "s", -1, instance_id="i")
    await story.join("third", "c")
    await story.join("too many", "d")
    await story.beat("t leaves", "t", -1, instance_id="i")
    await story.beat("c leaves", "c", -1)
    await story.beat("a leaves", "a", -1)
    await story.describe()
    named = await story.join("v0 without an id", "", version=0)
    await story.delete()
    leaves = ConsumerGroupHeartbeatRequest(GROUP, named.member_id, -1)
    await story.send(apis.CONSUMER_GROUP_HEARTBEAT, leaves)


async def tell(server: RunningServer) -> list[object]:
    host, port = server.bootstrap.split(":")
    connections = {}
    for version in (0, 1):
        spoken = {
            served.api: (
                served.versions.first,
                version if served.api == apis.CONSUMER_GROUP_HEARTBEAT else 999,
            )
            for served in API_TABLE.values()
        }
        connections[version] = await Connection.open(
            host,
            int(port),
            client_id="c",
            timeout_ms=TIMEOUT_MS,
            versions={**CLIENT_VERSIONS, **spoken},
        )
    story = Story(connections)
    await story.send(
        apis.FIND_COORDINATOR, FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    )  # Kafka makes its topic now
    for _ in range(300):
        if (await story.beat("ready", "a", 1)).error_code == GroupIdNotFound.code:
            break
        await asyncio.sleep(0.1)
    story.answers.clear()
    for chapter in (refusals, dynamic_members, static_members, becomes_classic):
        await chapter(story)
    for connection in connections.values():
        connection.close()
    await asyncio.sleep(0)
    return story.answers


def told_to(server: RunningServer) -> list[object]:
    Admin(server.bootstrap).create_topic("foo", 2)
    return asyncio.run(tell(server))


def test_the_same_answers_as_apache_kafka(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path / "ours", *OPTIONS) as ours:
        mine = told_to(ours)
    with KafkaBroker(tmp_path / "kafka", *OPTIONS) as kafka:
        theirs = told_to(kafka)
    for one, other in zip(mine, theirs, strict=True):
        assert one == other
