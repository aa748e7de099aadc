"""Who may have requests passed on: the broker in front of a cluster asks its own ACLs."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from sharegroup import Admin, Producer
from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.acl_authorizer import AclAuthorizer
from sharegroup.broker.authorization.acls import ANY, AclRule
from sharegroup.broker.authorization.resources import (
    CLUSTER,
    Operation,
    Resource,
    topic,
)
from sharegroup.broker.passing.passing import Passing
from sharegroup.broker.passing.rights import NEEDS, check
from sharegroup.broker.passing.ways import WAYS
from sharegroup.broker.request_context import RequestContext
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.api_versions import ApiVersion
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from sharegroup.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process


def test_what_belongs_to_the_brokers_is_nobodys(node: SharegroupServer) -> None:
    async def scenario() -> None:
        async with Admin(node.bootstrap) as ours:
            names = {one.transactional_id for one in await ours.list_transactions()}
            assert not {name for name in names if name.startswith("__sharegroup_")}
            with pytest.raises(errors.TopicAuthorizationFailed):
                await ours.delete_topics("__sharegroup_fleet_settings")
        with pytest.raises(errors.TransactionalIdAuthorizationFailed):
            async with Producer(node.bootstrap, transactional_id="__sharegroup_fleet_settings.0"):
                pass

    asyncio.run(scenario())


def test_each_request_that_is_passed_on_says_what_its_client_needs() -> None:
    assert NEEDS.keys() == WAYS.keys()


ALICE = "User:alice"
MINE, OTHERS, OURS = "mine", "others", "__sharegroup_fleet_settings"
IDS = {MINE: UUID(int=1), OTHERS: UUID(int=2), OURS: UUID(int=3)}
UNKNOWN = UUID(int=9)
REFUSED = errors.TopicAuthorizationFailed.code


def alice(*rights: tuple[Operation, Resource]) -> Access:
    rules = [AclRule(True, ALICE, ANY, operation, resource) for operation, resource in rights]
    return Access(AclAuthorizer(rules), ALICE, "127.0.0.1")


class BehindIt(ScriptedServer):
    """A cluster that does what it is told.

    Attributes:
        asked: the requests that came through.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Message] = []
        self.handle(apis.METADATA, self._topics, (1, 12))
        self.handle(apis.DELETE_TOPICS, self._delete, (1, 6))
        self.handle(apis.PRODUCE, self._produce, (3, 9))
        self.handle(apis.OFFSET_COMMIT, self._unasked, (2, 10))

    async def _unasked(self, request: Message, version: int) -> Message:
        raise AssertionError(f"{request} of version {version}")

    async def _topics(self, _request: Message, _version: int) -> Message:
        part = MetadataResponsePartition(leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(1, "127.0.0.1", self.port)],
            controller_id=1,
            topics=[
                MetadataResponseTopic(name=name, topic_id=of, partitions=[part])
                for name, of in IDS.items()
            ],
        )

    async def _delete(self, request: Message, _version: int) -> Message:
        assert isinstance(request, DeleteTopicsRequest)
        self.asked.append(request)
        done = [*request.topics, *(DeleteTopicState(name) for name in request.topic_names)]
        return DeleteTopicsResponse(
            responses=[DeletableTopicResult(one.name, one.topic_id) for one in done]
        )

    async def _produce(self, request: Message, _version: int) -> Message:
        assert isinstance(request, ProduceRequest)
        self.asked.append(request)
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=one.name, partition_responses=[PartitionProduceResponse()]
                )
                for one in request.topic_data
            ]
        )


def passed_on(api: Api, version: int, request: Message, access: Access) -> tuple[Any, list[Any]]:
    """The answer to alice, and what the cluster was asked."""

    async def seen(_created: object) -> None: ...
    async def here(_request: object) -> None: ...

    async def scenario() -> tuple[Any, list[Any]]:
        async with BehindIt() as server, Cluster(server.address) as cluster:
            await cluster.refresh()
            context = RequestContext(version, "", "", object(), access, ("", 0))
            answer = await Passing(cluster, WAYS, seen).answer(api, request, context, here)
            return answer, server.asked

    return asyncio.run(scenario())


def test_offsets_are_committed_by_the_names_of_topics() -> None:
    """What a client may do is looked up by names, and OffsetCommit 10 has none."""

    async def seen(_created: object) -> None: ...

    async def scenario() -> None:
        async with BehindIt() as server, Cluster(server.address) as cluster:
            passing = Passing(cluster, {apis.OFFSET_COMMIT.key: WAYS[apis.OFFSET_COMMIT.key]}, seen)
            await passing.learn()
            (announced,) = passing.announced([ApiVersion(apis.OFFSET_COMMIT.key, 2, 10)])
            assert announced.max_version == 9

    asyncio.run(scenario())


def test_topics_are_deleted_by_whom_may_delete_them_also_by_their_ids() -> None:
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(None, IDS[MINE]),
            DeleteTopicState(None, IDS[OTHERS]),
            DeleteTopicState(None, IDS[OURS]),
            DeleteTopicState(None, UNKNOWN),
            DeleteTopicState(MINE, NULL_TOPIC_ID),
            DeleteTopicState(OTHERS, NULL_TOPIC_ID),
        ]
    )
    access = alice((Operation.DELETE, topic(MINE)), (Operation.DESCRIBE, topic(OTHERS)))
    answer, asked = passed_on(apis.DELETE_TOPICS, 6, request, access)
    assert {(one.name, one.topic_id): one.error_code for one in answer.responses} == {
        (None, IDS[MINE]): 0,
        (None, IDS[OTHERS]): REFUSED,
        (None, IDS[OURS]): REFUSED,
        (None, UNKNOWN): errors.UnknownTopicId.code,
        (MINE, NULL_TOPIC_ID): 0,
        (OTHERS, NULL_TOPIC_ID): REFUSED,
    }
    [through] = asked
    assert through.topics == [request.topics[0], request.topics[4]]


@pytest.mark.parametrize("version", [5, 6])
def test_who_may_delete_nothing_reaches_nobody(version: int) -> None:
    one = DeleteTopicsRequest(topics=[DeleteTopicState(None, IDS[OTHERS])])
    request = one if version > 5 else DeleteTopicsRequest(topic_names=[OTHERS])
    answer, asked = passed_on(apis.DELETE_TOPICS, version, request, alice())
    assert [each.error_code for each in answer.responses] == [REFUSED]
    assert asked == []


def test_who_may_delete_everything_gets_nothing_of_ours() -> None:
    request = DeleteTopicsRequest(topic_names=[OTHERS, OURS])
    everything = alice((Operation.ALL, CLUSTER))
    answer, asked = passed_on(apis.DELETE_TOPICS, 5, request, everything)
    assert {one.name: one.error_code for one in answer.responses} == {OTHERS: 0, OURS: REFUSED}
    assert [one.topic_names for one in asked] == [[OTHERS]]


def test_records_of_one_topic_are_not_refused_with_another_ones() -> None:
    data = [TopicProduceData(name=name, partition_data=[PartitionProduceData()]) for name in IDS]
    request = ProduceRequest(None, 1, 1_000, data)
    access = alice((Operation.WRITE, topic(MINE)))
    answer, asked = passed_on(apis.PRODUCE, 9, request, access)
    found = {one.name: one.partition_responses[0].error_code for one in answer.responses}
    assert found == {MINE: 0, OTHERS: REFUSED, OURS: REFUSED}
    assert [[one.name for one in each.topic_data] for each in asked] == [[MINE]]


def test_nobody_ends_transactions_in_what_is_ours() -> None:
    """A marker raises the epoch of its producer: who writes our state would be fenced."""
    topics = [WritableTxnMarkerTopic(OURS, [0])]
    request = WriteTxnMarkersRequest(markers=[WritableTxnMarker(7, 0, False, topics)])
    everything = alice((Operation.ALL, CLUSTER))
    answer, asked = passed_on(apis.WRITE_TXN_MARKERS, 1, request, everything)
    assert answer.markers[0].topics[0].partitions[0].error_code == REFUSED
    assert asked == []


@pytest.mark.parametrize(
    ("request_", "api", "enough"),
    [
        (InitProducerIdRequest(None, 1), apis.INIT_PRODUCER_ID, (Operation.WRITE, topic(MINE))),
        (
            InitProducerIdRequest(None, 1),
            apis.INIT_PRODUCER_ID,
            (Operation.IDEMPOTENT_WRITE, CLUSTER),
        ),
        (
            CreateTopicsRequest([CreatableTopic(MINE)]),
            apis.CREATE_TOPICS,
            (Operation.CREATE, CLUSTER),
        ),
        (
            CreateTopicsRequest([CreatableTopic(MINE)]),
            apis.CREATE_TOPICS,
            (Operation.CREATE, topic(MINE)),
        ),
        (WriteTxnMarkersRequest(), apis.WRITE_TXN_MARKERS, (Operation.ALTER, CLUSTER)),
        (WriteTxnMarkersRequest(), apis.WRITE_TXN_MARKERS, (Operation.CLUSTER_ACTION, CLUSTER)),
    ],
)
def test_one_right_is_enough(
    request_: Message, api: Api, enough: tuple[Operation, Resource]
) -> None:
    """As at Kafka, and at a broker with its own log (docs/authorization.md)."""
    check(alice(enough), api, request_)
    with pytest.raises(errors.KafkaError):
        check(alice((Operation.READ, topic(MINE))), api, request_)
