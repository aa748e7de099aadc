"""Each request of ``Admin`` goes to the right node, and again when what it is about moves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from sharegroup.cli.group_kinds import GroupKind, Kinds
from sharegroup.cli.offset_planning import Scope, Target, make_plan
from sharegroup.client import Admin
from sharegroup.client.admin.descriptions import ShareGroupSummary
from sharegroup.model.errors import KafkaStorageError, NonEmptyGroup
from sharegroup.model.ids import TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from sharegroup.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from sharegroup.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from sharegroup.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sharegroup.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from sharegroup.wire.messages.list_transactions import (
    ListTransactionsResponse,
    TransactionState,
)
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer

NOT_COORDINATOR = 16
KAFKA_STORAGE_ERROR = 56
NON_EMPTY_GROUP = 68
NOT_LEADER = 6
UNKNOWN_TOPIC_ID = 100
TOPIC_ID = UUID(int=7)
WHERE = TopicPartition("t", 0)


@dataclass
class TwoNodes:
    """Nodes 1 and 2; ``home`` says which coordinates a group, ``told`` what clients are told."""

    home: dict[str, int]
    told: dict[str, int]
    busy: set[str] = field(default_factory=set)
    asked: list[tuple[int, str]] = field(default_factory=list)
    described: list[tuple[int, list[str]]] = field(default_factory=list)
    part_errors: list[int] = field(default_factory=list)
    """Error codes of the partition, one per DescribeShareGroupOffsets; then there is none."""
    start: int = 2
    there: set[int] = field(default_factory=lambda: {1, 2})
    """The nodes that Metadata tells of."""
    leader: int = 1
    topic_id: UUID = TOPIC_ID
    decided: list[int] = field(default_factory=list)
    """The nodes that were asked for decisions by hand."""
    servers: dict[int, ScriptedServer] = field(default_factory=dict)

    async def __aenter__(self) -> TwoNodes:
        for node in (1, 2):
            server = self.servers[node] = ScriptedServer()
            server.handle(apis.METADATA, self._metadata, (1, 12))
            server.handle(apis.FIND_COORDINATOR, self._find_coordinator, (0, 6))
            self._serve_groups(server, node)
            await server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self.servers.values():
            await server.__aexit__(None, None, None)

    def _serve_groups(self, server: ScriptedServer, node: int) -> None:
        async def delete(request: Message, version: int) -> Message:
            assert isinstance(request, DeleteGroupsRequest)
            results = [
                DeletableGroupResult(group, self._error(node, group))
                for group in request.groups_names
            ]
            return DeleteGroupsResponse(results=results)

        async def alter(request: Message, version: int) -> Message:
            assert isinstance(request, AlterShareGroupOffsetsRequest)
            error = self._error(node, request.group_id)
            moved = AlterShareGroupOffsetsResponseTopic(
                "t", partitions=[AlterShareGroupOffsetsResponsePartition(0)]
            )
            return AlterShareGroupOffsetsResponse(
                error_code=error, responses=[] if error else [moved]
            )

        async def describe(request: Message, version: int) -> Message:
            assert isinstance(request, DescribeShareGroupOffsetsRequest)
            error = self.part_errors.pop(0) if self.part_errors else 0
            part = DescribeShareGroupOffsetsResponsePartition(0, -1 if error else self.start)
            part.error_code = error
            topic = DescribeShareGroupOffsetsResponseTopic("t", partitions=[part])
            names = [one.group_id for one in request.groups]
            self.described.append((node, names))
            groups = [
                DescribeShareGroupOffsetsResponseGroup(name, topics=[topic], member_count=1)
                for name in names
            ]
            return DescribeShareGroupOffsetsResponse(groups=groups)

        async def list_groups(request: Message, version: int) -> Message:
            mine = [group for group, home in self.home.items() if home == node]
            return ListGroupsResponse(
                groups=[ListedGroup(group, "share", "Empty", "share") for group in mine]
            )

        async def acknowledge(request: Message, version: int) -> Message:
            assert isinstance(request, ShareAcknowledgeRequest)
            self.decided.append(node)
            [topic] = request.topics
            error = NOT_LEADER if node != self.leader else 0
            if topic.topic_id != self.topic_id:
                error = UNKNOWN_TOPIC_ID
            part = PartitionData(0, error, decided=0 if error else 1)
            return ShareAcknowledgeResponse(
                responses=[ShareAcknowledgeTopicResponse(topic.topic_id, [part])]
            )

        async def list_transactions(request: Message, version: int) -> Message:
            return ListTransactionsResponse(
                transaction_states=[TransactionState(f"t{node}", node, "Ongoing")]
            )

        async def settings(request: Message, version: int) -> Message:
            assert isinstance(request, DescribeConfigsRequest)
            one = DescribeConfigsResourceResult(name="node.id", value=str(node))
            result = DescribeConfigsResult(resource_name=str(node), configs=[one])
            return DescribeConfigsResponse(results=[result])

        server.features = ["share.by.hand", "share.blocked.records"]
        server.handle(apis.SHARE_ACKNOWLEDGE, acknowledge, (1, 2))
        server.handle(apis.LIST_TRANSACTIONS, list_transactions, (0, 1))
        server.handle(apis.DESCRIBE_CONFIGS, settings, (1, 4))
        server.handle(apis.DELETE_GROUPS, delete, (0, 3))
        server.handle(apis.ALTER_SHARE_GROUP_OFFSETS, alter, (0, 0))
        server.handle(apis.DESCRIBE_SHARE_GROUP_OFFSETS, describe, (0, 1))
        server.handle(apis.LIST_GROUPS, list_groups, (0, 5))

    def _error(self, node: int, group: str) -> int:
        self.asked.append((node, group))
        if self.home[group] != node:
            self.told[group] = self.home[group]  # word of the move has got round
            return NOT_COORDINATOR
        return NON_EMPTY_GROUP if group in self.busy else 0

    async def _metadata(self, request: Message, version: int) -> Message:
        brokers = [
            MetadataResponseBroker(node, "127.0.0.1", server.port)
            for node, server in self.servers.items()
            if node in self.there
        ]
        part = MetadataResponsePartition(partition_index=0, leader_id=self.leader)
        topic = MetadataResponseTopic(name="t", topic_id=self.topic_id, partitions=[part])
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])

    async def _find_coordinator(self, request: Message, version: int) -> Message:
        assert isinstance(request, FindCoordinatorRequest)
        found = [
            Coordinator(key, node, "127.0.0.1", self.servers[node].port)
            for key in request.coordinator_keys
            for node in [self.told[key]]
        ]
        return FindCoordinatorResponse(coordinators=found)


def test_each_group_is_asked_at_its_coordinator() -> None:
    async def scenario() -> None:
        homes = {"a": 1, "b": 2, "c": 1}
        async with (
            TwoNodes(home=homes, told=dict(homes), busy={"c"}) as nodes,
            Admin(nodes.servers[1].address) as admin,
        ):
            outcome = await admin.delete_share_groups("a", "b", "c")
            assert (outcome["a"], outcome["b"]) == (None, None)
            assert isinstance(outcome["c"], NonEmptyGroup)
            assert sorted(nodes.asked) == [(1, "a"), (1, "c"), (2, "b")]

    asyncio.run(scenario())


def test_groups_of_all_nodes_are_listed() -> None:
    async def scenario() -> None:
        homes = {"a": 2, "b": 1}
        async with (
            TwoNodes(home=homes, told=dict(homes)) as nodes,
            Admin(nodes.servers[2].address) as admin,
        ):
            assert [one.group_id for one in await admin.list_groups("share")] == ["a", "b"]

    asyncio.run(scenario())


def test_a_broker_that_has_joined_is_asked_too() -> None:
    async def scenario() -> None:
        homes = {"a": 1, "b": 2}
        async with (
            TwoNodes(home=homes, told=dict(homes), there={1}) as nodes,
            Admin(nodes.servers[1].address) as admin,
        ):
            assert [one.group_id for one in await admin.list_groups("share")] == ["a"]
            nodes.there = {1, 2}
            assert [one.group_id for one in await admin.list_groups("share")] == ["a", "b"]

    asyncio.run(scenario())


def test_transactions_of_a_broker_that_has_joined_are_listed() -> None:
    async def scenario() -> None:
        async with (
            TwoNodes(home={}, told={}, there={1}) as nodes,
            Admin(nodes.servers[1].address) as admin,
        ):
            nodes.there = {1, 2}
            found = await admin.list_transactions()
            assert [one.transactional_id for one in found] == ["t1", "t2"]

    asyncio.run(scenario())


def test_a_broker_that_has_joined_tells_its_settings() -> None:
    async def scenario() -> None:
        async with (
            TwoNodes(home={}, told={}, there={1}) as nodes,
            Admin(nodes.servers[1].address, request_timeout_ms=2_000) as admin,
        ):
            nodes.there = {1, 2}
            assert (await admin.describe_configs("broker", "2"))["node.id"].value == "2"

    asyncio.run(scenario())


def test_a_queue_of_a_broker_that_has_joined_is_summarized() -> None:
    async def scenario() -> None:
        homes = {"a": 1, "b": 2}
        async with (
            TwoNodes(home=homes, told=dict(homes), there={1}) as nodes,
            Admin(nodes.servers[1].address) as admin,
        ):
            nodes.there = {1, 2}
            found = await admin.summarize_share_groups(["a", "b"])
            assert [type(one) for one in found.values()] == [ShareGroupSummary] * 2
            assert nodes.described == [(1, ["a"]), (2, ["b"])]

    asyncio.run(scenario())


def test_a_coordinator_that_moved_is_found_again() -> None:
    async def scenario() -> None:
        async with (
            TwoNodes(home={"g": 2}, told={"g": 1}) as nodes,
            Admin(nodes.servers[1].address) as admin,
        ):
            assert await admin.alter_share_group_offsets("g", {WHERE: 7}) == {WHERE: None}
            assert nodes.asked == [(1, "g"), (2, "g")]
            await admin.alter_share_group_offsets("g", {WHERE: 8})
            assert nodes.asked[2:] == [(2, "g")]

    asyncio.run(scenario())


def test_a_part_that_moves_is_asked_about_again() -> None:
    async def scenario() -> None:
        async with (
            TwoNodes(home={"g": 1}, told={"g": 1}) as nodes,
            Admin(nodes.servers[1].address) as admin,
        ):
            nodes.part_errors = [NOT_COORDINATOR]
            offset = (await admin.list_share_group_offsets("g"))[WHERE]
            assert (offset.start_offset, offset.error) == (2, None)
            nodes.part_errors, nodes.start = [NOT_COORDINATOR], -1
            assert (await admin.describe_record_states("g"))[WHERE].error is None
            assert not nodes.part_errors

    asyncio.run(scenario())


def test_an_error_of_a_part_that_stays_is_told_with_the_others() -> None:
    async def scenario() -> None:
        async with (
            TwoNodes(home={"g": 1}, told={"g": 1}) as nodes,
            Admin(nodes.servers[1].address) as admin,
        ):
            nodes.part_errors = [KAFKA_STORAGE_ERROR, KAFKA_STORAGE_ERROR]
            offset = (await admin.list_share_group_offsets("g"))[WHERE]
            assert isinstance(offset.error, KafkaStorageError)
            records = (await admin.describe_record_states("g"))[WHERE]
            assert isinstance(records.error, KafkaStorageError)

    asyncio.run(scenario())


def test_decisions_by_hand_go_to_the_new_leader() -> None:
    async def scenario() -> None:
        async with (
            TwoNodes(home={"g": 1}, told={"g": 1}) as nodes,
            Admin(nodes.servers[1].address, request_timeout_ms=2_000) as admin,
        ):
            assert (await admin.accept_records("g", WHERE, 0)).records == 1
            nodes.leader = 2
            assert (await admin.accept_records("g", WHERE, 1)).records == 1
            nodes.leader = 1
            await admin.release_blocked_record("g", WHERE, 2)
            assert nodes.decided == [1, 1, 2, 2, 1]

    asyncio.run(scenario())


def test_decisions_by_hand_find_a_topic_that_was_made_anew() -> None:
    async def scenario() -> None:
        async with (
            TwoNodes(home={"g": 1}, told={"g": 1}) as nodes,
            Admin(nodes.servers[1].address) as admin,
        ):
            assert (await admin.accept_records("g", WHERE, 0)).records == 1
            nodes.topic_id = UUID(int=8)
            assert (await admin.accept_records("g", WHERE, 1)).records == 1

    asyncio.run(scenario())


def test_no_plan_takes_an_unreadable_offset_for_none() -> None:
    async def scenario() -> None:
        async with (
            TwoNodes(home={"g": 1}, told={"g": 1}, part_errors=[KAFKA_STORAGE_ERROR]) as nodes,
            Admin(nodes.servers[1].address) as admin,
        ):
            kinds = Kinds({"g": GroupKind.SHARE}, None)
            scope = Scope(groups=["g"], every_group=False, kind=None, topics={}, every_topic=True)
            with pytest.raises(KafkaStorageError):
                await make_plan(admin, kinds, scope, Target())

    asyncio.run(scenario())


def test_an_error_of_the_group_is_raised() -> None:
    async def scenario() -> None:
        async with (
            TwoNodes(home={"g": 1}, told={"g": 1}, busy={"g"}) as nodes,
            Admin(nodes.servers[1].address) as admin,
        ):
            with pytest.raises(NonEmptyGroup):
                await admin.alter_share_group_offsets("g", {WHERE: 7})

    asyncio.run(scenario())


def test_a_broker_that_is_gone_for_good_is_asked_no_more() -> None:
    looks: list[int] = []

    async def scenario() -> None:
        async with TwoNodes(home={"workers": 1}, told={}) as nodes:
            first, gone = nodes.servers[1], nodes.servers[2].port
            await nodes.servers[2].__aexit__(None, None, None)

            async def metadata(request: Message, version: int) -> Message:
                looks.append(version)
                brokers = [MetadataResponseBroker(1, "127.0.0.1", first.port)]
                if len(looks) <= 2:  # at the start, and before the groups are listed
                    brokers.append(MetadataResponseBroker(2, "127.0.0.1", gone))
                return MetadataResponse(brokers=brokers, controller_id=1, topics=[])

            first.handle(apis.METADATA, metadata, (1, 12))
            async with Admin(first.address, request_timeout_ms=20_000) as admin:
                [group] = await admin.list_groups()
                assert group.group_id == "workers"

    asyncio.run(scenario())
    assert len(looks) > 2
