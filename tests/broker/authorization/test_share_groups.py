"""Share groups under ACLs: denied group, denied topic, denied assigned topic, over real sockets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.acl_authorizer import AclAuthorizer
from sharegroup.broker.authorization.acls import ANY, AclRule
from sharegroup.broker.authorization.resources import ANONYMOUS, Operation
from sharegroup.broker.authorization.resources import group as group_resource
from sharegroup.broker.handlers.share.describe_share_group_offsets import (
    describe_share_group_offsets,
)
from sharegroup.broker.leadership import OtherNodes
from sharegroup.broker.request_context import RequestContext
from sharegroup.client.network.connection import Connection
from sharegroup.model.errors import GroupAuthorizationFailed, TopicAuthorizationFailed
from sharegroup.model.ids import SharePartitionKey
from sharegroup.wire import apis
from sharegroup.wire.messages import describe_share_group_offsets as offsets
from sharegroup.wire.messages import share_acknowledge, share_fetch
from sharegroup.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from sharegroup.wire.messages.share_group_describe import ShareGroupDescribeRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.authorization.clients import Clients, with_acls
from tests.broker.by_hand import TIMEOUT_MS

TOPIC = TopicAuthorizationFailed.code
GROUP = GroupAuthorizationFailed.code
MEMBER = "a-member"
WHOLE_GROUP = "ALLOW,User:ANONYMOUS,*,READ,GROUP,workers,LITERAL"
WHOLE_TOPIC = "ALLOW,User:ANONYMOUS,*,READ,TOPIC,jobs,LITERAL"
SEEN_TOPIC = "ALLOW,User:ANONYMOUS,*,DESCRIBE,TOPIC,jobs,LITERAL"


async def send(connection: Connection, api: apis.Api, request: Any) -> Any:
    return await connection.send(api, request, timeout_ms=TIMEOUT_MS)


async def join(connection: Connection) -> int:
    """The heartbeat's error code."""
    request = ShareGroupHeartbeatRequest("workers", MEMBER, 0, None, ["jobs"])
    code: int = (await send(connection, apis.SHARE_GROUP_HEARTBEAT, request)).error_code
    return code


async def share_fetched(clients: Clients, epoch: int = 0) -> Any:
    topic = share_fetch.FetchTopic(clients.topic_id, [share_fetch.FetchPartition(0)])
    request = share_fetch.ShareFetchRequest(
        "workers", MEMBER, epoch, 0, 1, 1 << 20, 100, 100, topics=[topic]
    )
    return await send(clients.anybody, apis.SHARE_FETCH, request)


async def acknowledged(clients: Clients, epoch: int) -> Any:
    batch = share_acknowledge.AcknowledgementBatch(0, 2, [1])
    part = share_acknowledge.AcknowledgePartition(0, [batch])
    topic = share_acknowledge.AcknowledgeTopic(clients.topic_id, [part])
    request = share_acknowledge.ShareAcknowledgeRequest("workers", MEMBER, epoch, topics=[topic])
    return await send(clients.anybody, apis.SHARE_ACKNOWLEDGE, request)


def test_without_read_of_the_group_nothing_of_it_can_be_done(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        assert await join(clients.anybody) == GROUP
        assert (await share_fetched(clients)).error_code == GROUP
        assert (await acknowledged(clients, 1)).error_code == GROUP

    with_acls(tmp_path, [WHOLE_TOPIC], scenario)


@pytest.mark.parametrize(("topic_acl", "code"), [(None, TOPIC), (SEEN_TOPIC, 0), (WHOLE_TOPIC, 0)])
def test_joining_needs_describe_of_each_topic(
    tmp_path: Path, topic_acl: str | None, code: int
) -> None:
    async def scenario(clients: Clients) -> None:
        assert await join(clients.anybody) == code

    with_acls(tmp_path, [WHOLE_GROUP, *([topic_acl] if topic_acl else [])], scenario)


def test_a_member_that_may_not_read_a_topic_gets_nothing_of_it(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        assert await join(clients.anybody) == 0
        (topic,) = (await share_fetched(clients)).responses
        (part,) = topic.partitions
        assert (part.error_code, part.acquired_records) == (TOPIC, [])
        assert not part.records
        (topic,) = (await acknowledged(clients, 1)).responses
        assert topic.partitions[0].error_code == TOPIC

    with_acls(tmp_path, [WHOLE_GROUP, SEEN_TOPIC], scenario)


def test_a_member_that_may_reads_and_acknowledges(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        assert await join(clients.anybody) == 0
        (topic,) = (await share_fetched(clients)).responses
        (acquired,) = topic.partitions[0].acquired_records
        assert (acquired.first_offset, acquired.last_offset) == (0, 2)
        (topic,) = (await acknowledged(clients, 1)).responses
        assert topic.partitions[0].error_code == 0

    with_acls(tmp_path, [WHOLE_GROUP, WHOLE_TOPIC], scenario)


async def described(clients: Clients, group: str = "workers") -> Any:
    request = ShareGroupDescribeRequest([group], include_authorized_operations=True)
    response = await clients.ask(apis.SHARE_GROUP_DESCRIBE, request)
    return response.groups[0]


async def described_offsets(clients: Clients, *topics: str) -> Any:
    asked = [offsets.DescribeShareGroupOffsetsRequestTopic(name, [0]) for name in topics]
    group = offsets.DescribeShareGroupOffsetsRequestGroup("workers", asked if topics else None)
    request = offsets.DescribeShareGroupOffsetsRequest([group])
    response = await clients.ask(apis.DESCRIBE_SHARE_GROUP_OFFSETS, request)
    return response.groups[0]


OTHER_GROUP = WHOLE_GROUP.replace("workers", "others")


@pytest.mark.parametrize(
    ("acls", "code"),
    [
        ([WHOLE_GROUP, WHOLE_TOPIC], GROUP),
        ([OTHER_GROUP, WHOLE_TOPIC], GROUP),
        ([WHOLE_GROUP, OTHER_GROUP], TOPIC),
        ([WHOLE_GROUP, OTHER_GROUP, SEEN_TOPIC], TOPIC),
        ([WHOLE_GROUP, OTHER_GROUP, WHOLE_TOPIC], 0),
    ],
)
def test_a_fork_needs_read_of_both_groups_and_the_topics(
    tmp_path: Path, acls: list[str], code: int
) -> None:
    async def scenario(clients: Clients) -> None:
        assert await join(clients.admin) == 0
        request = AlterShareGroupOffsetsRequest("others", [], fork_of="workers")
        answer = await send(clients.anybody, apis.ALTER_SHARE_GROUP_OFFSETS, request)
        assert answer.error_code == code
        assert [topic.topic_name for topic in answer.responses] == ([] if code else ["jobs"])

    with_acls(tmp_path, acls, scenario)


def test_describing_needs_describe_of_the_group(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        assert await join(clients.admin) == 0
        assert (await described(clients)).error_code == GROUP
        assert (await described_offsets(clients)).error_code == GROUP
        assert (await described_offsets(clients, "jobs")).error_code == GROUP

    with_acls(tmp_path, [WHOLE_TOPIC], scenario)


def test_describing_a_member_hides_a_group_with_a_topic_that_may_not_be_seen(
    tmp_path: Path,
) -> None:
    async def scenario(clients: Clients) -> None:
        assert await join(clients.admin) == 0
        group = await described(clients)
        assert (group.error_code, group.members) == (TOPIC, [])
        assert "not authorized to describe" in group.error_message
        assert (await described_offsets(clients)).topics == []
        (topic,) = (await described_offsets(clients, "jobs")).topics
        assert topic.topic_id.int == 0
        (part,) = topic.partitions
        assert (part.error_code, part.start_offset, part.lag) == (TOPIC, -1, -1)

    with_acls(tmp_path, [WHOLE_GROUP], scenario)


class AnotherLeads:
    """A fleet whose other node leads every partition. It may not be asked."""

    def owner_of(self, _key: SharePartitionKey) -> int:
        return 2

    async def ask(self, *request: object) -> Any:
        raise AssertionError(f"another node was asked: {request}")


def test_another_node_is_not_asked_about_a_topic_that_may_not_be_seen(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        parts = replace(clients.broker.parts, other_nodes=cast(OtherNodes, AnotherLeads()))
        asked = [offsets.DescribeShareGroupOffsetsRequestTopic("secret", [0])]
        group = offsets.DescribeShareGroupOffsetsRequestGroup("workers", asked, states_from=0)
        request = offsets.DescribeShareGroupOffsetsRequest([group])
        rule = AclRule(True, ANONYMOUS, ANY, Operation.DESCRIBE, group_resource("workers"))
        access = Access(AclAuthorizer([rule]), ANONYMOUS, "127.0.0.1")
        context = RequestContext(1, "", "", object(), access, ("", 0))
        answer = await describe_share_group_offsets(parts, request, context)
        (topic,) = answer.groups[0].topics
        assert [one.error_code for one in topic.partitions] == [TOPIC]

    with_acls(tmp_path, [], scenario)


def test_describing_lists_the_authorized_operations(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        assert await join(clients.admin) == 0
        group = await described(clients)
        assert group.error_code == 0
        assert group.authorized_operations == 1 << 3 | 1 << 8
        assert [member.member_id for member in group.members] == [MEMBER]
        (topic,) = (await described_offsets(clients)).topics
        assert topic.topic_name == "jobs"

    with_acls(tmp_path, [WHOLE_GROUP, SEEN_TOPIC], scenario)


@pytest.mark.parametrize(
    ("acl", "listed"),
    [
        (WHOLE_GROUP, ["workers"]),
        ("ALLOW,User:ANONYMOUS,*,DESCRIBE,CLUSTER,kafka-cluster,LITERAL", ["workers"]),
        ("ALLOW,User:ANONYMOUS,*,READ,GROUP,others,LITERAL", []),
    ],
)
def test_groups_that_may_not_be_described_are_not_listed(
    tmp_path: Path, acl: str, listed: list[str]
) -> None:
    async def scenario(clients: Clients) -> None:
        assert await join(clients.admin) == 0
        response = await clients.ask(apis.LIST_GROUPS, ListGroupsRequest())
        assert [group.group_id for group in response.groups] == listed

    with_acls(tmp_path, [acl], scenario)
