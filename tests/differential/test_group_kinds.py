"""A group id that a group of another kind has: each request that names it is answered as Apache
Kafka answers it, whether the group has members or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import pytest

from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages import alter_share_group_offsets as altering
from sharegroup.wire.messages import delete_share_group_offsets as deleting
from sharegroup.wire.messages import describe_share_group_offsets as describing
from sharegroup.wire.messages import leave_group as leaving
from sharegroup.wire.messages import offset_commit as committing
from sharegroup.wire.messages import offset_delete as offset_deleting
from sharegroup.wire.messages import offset_fetch as fetching
from sharegroup.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sharegroup.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sharegroup.wire.messages.describe_groups import DescribeGroupsRequest
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.heartbeat import HeartbeatRequest
from sharegroup.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from sharegroup.wire.messages.share_group_describe import ShareGroupDescribeRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from sharegroup.wire.messages.sync_group import SyncGroupRequest
from tests.apache_kafka.broker import KafkaBroker
from tests.broker.transaction_wire import Peer, close_all
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

TOPIC: Final = "jobs"
OPTIONS: Final = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=1",
    "offsets.topic.replication.factor=1",
    "share.coordinator.state.topic.num.partitions=1",
    "share.coordinator.state.topic.replication.factor=1",
)
KINDS: Final = ("share", "consumer", "classic", "offsets")
MEMBER_ID_REQUIRED: Final = 79
TRIES: Final = 100
LOADING: Final = frozenset((14, 15, 16))
JOIN, LEAVE = 0, -1
METADATA: Final = b"\0\1\0\0\0\1\0\4jobs\xff\xff\xff\xff"
"""A classic consumer's: version 1, subscribes to one topic, no user data."""


@dataclass
class Group:
    """A group of one kind, and its one member, if it has any."""

    peer: Peer
    group_id: str
    member_id: str = "member"
    epoch: int = 0

    async def ask(self, api: Api, version: int, request: Any) -> Any:
        """Asked again while a coordinator is loaded."""
        for _ in range(TRIES):
            answer = await self.peer.ask(api, version, request)
            if not LOADING.intersection(code for code, _ in told(answer)):
                break
            await asyncio.sleep(0.1)
        return answer

    async def share(self, epoch: int) -> Any:
        topics = [TOPIC] if epoch == JOIN else None
        request = ShareGroupHeartbeatRequest(self.group_id, "member", epoch, None, topics)
        return await self.ask(apis.SHARE_GROUP_HEARTBEAT, 1, request)

    async def consumer(self, epoch: int) -> Any:
        topics = [TOPIC] if epoch == JOIN else None
        request = ConsumerGroupHeartbeatRequest(
            self.group_id,
            "member",
            epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=topics,
            topic_partitions=[] if epoch == JOIN else None,
        )
        return await self.ask(apis.CONSUMER_GROUP_HEARTBEAT, 1, request)

    async def classic(self, epoch: int) -> Any:
        if epoch == LEAVE:
            gone = leaving.MemberIdentity(self.member_id)
            request = leaving.LeaveGroupRequest(self.group_id, "", [gone])
            return await self.ask(apis.LEAVE_GROUP, 5, request)
        self.member_id = ""
        for _ in range(2):
            protocol = JoinGroupRequestProtocol("range", METADATA)
            joining = JoinGroupRequest(
                self.group_id, 30_000, 30_000, self.member_id, None, "consumer", [protocol]
            )
            answer = await self.ask(apis.JOIN_GROUP, 9, joining)
            if answer.error_code != MEMBER_ID_REQUIRED:
                break
            self.member_id = answer.member_id
        self.epoch = answer.generation_id
        return answer

    async def offsets(self, _: int) -> Any:
        part = committing.OffsetCommitRequestPartition(0, 3, committed_metadata="")
        topic = committing.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
        request = committing.OffsetCommitRequest(self.group_id, -1, "", topics=[topic])
        return await self.ask(apis.OFFSET_COMMIT, 9, request)


async def joins(group: Group) -> list[Any]:
    return [await group.share(JOIN)]


async def share_heartbeat(group: Group) -> list[Any]:
    return [await group.share(1)]


async def share_leaves(group: Group) -> list[Any]:
    return [await group.share(LEAVE)]


async def consumer_joins(group: Group) -> list[Any]:
    return [await group.consumer(JOIN)]


async def consumer_heartbeat(group: Group) -> list[Any]:
    return [await group.consumer(1)]


async def consumer_leaves(group: Group) -> list[Any]:
    return [await group.consumer(LEAVE)]


async def classic_joins(group: Group) -> list[Any]:
    return [await group.classic(JOIN)]


async def classic_requests(group: Group) -> list[Any]:
    sync = SyncGroupRequest(group.group_id, 1, "stranger", None, "consumer", "range", [])
    return [
        await group.ask(apis.SYNC_GROUP, 5, sync),
        await group.ask(apis.HEARTBEAT, 4, HeartbeatRequest(group.group_id, 1, "stranger")),
        await group.ask(
            apis.LEAVE_GROUP,
            5,
            leaving.LeaveGroupRequest(group.group_id, "", [leaving.MemberIdentity("stranger")]),
        ),
    ]


async def commits(group: Group) -> list[Any]:
    return [await group.offsets(JOIN)]


async def reads_offsets(group: Group) -> list[Any]:
    topics = [fetching.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    wanted = fetching.OffsetFetchRequestGroup(group.group_id, topics=topics)
    return [await group.ask(apis.OFFSET_FETCH, 9, fetching.OffsetFetchRequest(groups=[wanted]))]


async def deletes_offsets(group: Group) -> list[Any]:
    part = offset_deleting.OffsetDeleteRequestPartition(0)
    topic = offset_deleting.OffsetDeleteRequestTopic(TOPIC, [part])
    request = offset_deleting.OffsetDeleteRequest(group.group_id, [topic])
    return [await group.ask(apis.OFFSET_DELETE, 0, request)]


async def describes(group: Group) -> list[Any]:
    named = [group.group_id]
    return [
        await group.ask(apis.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest(named)),
        await group.ask(apis.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(named)),
        await group.ask(apis.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(named)),
    ]


async def describes_share_offsets(group: Group) -> list[Any]:
    topic = describing.DescribeShareGroupOffsetsRequestTopic(TOPIC, [0])
    wanted = describing.DescribeShareGroupOffsetsRequestGroup(group.group_id, [topic])
    request = describing.DescribeShareGroupOffsetsRequest([wanted])
    return [await group.ask(apis.DESCRIBE_SHARE_GROUP_OFFSETS, 0, request)]


async def alters_share_offsets(group: Group) -> list[Any]:
    part = altering.AlterShareGroupOffsetsRequestPartition(0, 0)
    topic = altering.AlterShareGroupOffsetsRequestTopic(TOPIC, [part])
    request = altering.AlterShareGroupOffsetsRequest(group.group_id, [topic])
    return [await group.ask(apis.ALTER_SHARE_GROUP_OFFSETS, 0, request)]


async def deletes_share_offsets(group: Group) -> list[Any]:
    topic = deleting.DeleteShareGroupOffsetsRequestTopic(TOPIC)
    request = deleting.DeleteShareGroupOffsetsRequest(group.group_id, [topic])
    return [await group.ask(apis.DELETE_SHARE_GROUP_OFFSETS, 0, request)]


ASKED: Final = (
    joins,
    share_heartbeat,
    share_leaves,
    consumer_joins,
    consumer_heartbeat,
    consumer_leaves,
    classic_joins,
    classic_requests,
    commits,
    reads_offsets,
    deletes_offsets,
    describes,
    describes_share_offsets,
    alters_share_offsets,
    deletes_share_offsets,
)


OF_ITS_KIND: Final[dict[str, tuple[object, ...]]] = {
    "share": (deletes_share_offsets,),
    "consumer": (),
    "classic": (classic_joins,),  # it would wait for the group's member
    "offsets": (),
}
"""Left out: requests of the group's own kind that are compared elsewhere."""
CODES_ONLY: Final = {("offsets", "consumer_heartbeat"), ("offsets", "consumer_leaves")}
"""Kafka says that it is not a consumer group, we say that there is none."""


def told(answer: Any) -> list[tuple[int, str]]:
    """Every error code of an answer with its message, in their order."""
    found: list[tuple[int, str]] = []
    if isinstance(answer, list | tuple):
        for part in answer:
            found += told(part)
    elif is_dataclass(answer) and not isinstance(answer, type):
        if hasattr(answer, "error_code"):
            found.append((answer.error_code, getattr(answer, "error_message", None) or ""))
        for field in fields(answer):
            found += told(getattr(answer, field.name))
    return found


async def said(port: int, kind: str, *, empty: bool) -> dict[str, list[tuple[int, str]]]:
    """What each request is told; each about a group of its own."""
    try:
        peer = await Peer.connect(port)
        answers = {}
        for asked in ASKED:
            if asked in OF_ITS_KIND[kind]:
                continue
            group = Group(peer, f"{kind}-{'empty' if empty else 'full'}-{asked.__name__}")
            await getattr(group, kind)(JOIN)
            if empty:
                await getattr(group, kind)(LEAVE)
            found = told(await asked(group))
            if (kind, asked.__name__) in CODES_ONLY:
                found = [(code, "") for code, _ in found]
            answers[asked.__name__] = found
        return answers
    finally:
        await close_all()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, RunningServer]]:
    with (
        SharegroupServer(tmp_path_factory.mktemp("ours"), *OPTIONS) as ours,
        KafkaBroker(tmp_path_factory.mktemp("kafka"), *OPTIONS) as kafka,
    ):
        for server in (ours, kafka):
            asyncio.run(_begin(_port(server)))
        yield ours, kafka


async def _begin(port: int) -> None:
    peer = await Peer.connect(port)
    await peer.new_topic(1, TOPIC)
    wanted = FindCoordinatorRequest(key_type=0, coordinator_keys=["any"])
    await peer.ask(apis.FIND_COORDINATOR, 4, wanted)  # Kafka makes __consumer_offsets now
    await Group(peer, "first").share(JOIN)
    await close_all()


def _port(server: RunningServer) -> int:
    return int(server.bootstrap.rpartition(":")[2])


@pytest.mark.parametrize("empty", [False, True], ids=["members", "empty"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_of_another_kind(
    both: tuple[RunningServer, RunningServer], kind: str, empty: bool
) -> None:
    ours, kafka = (asyncio.run(said(_port(server), kind, empty=empty)) for server in both)
    assert ours == kafka
