"""Who may have requests passed on: the broker in front of a cluster asks its own ACLs."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.admin import AdminClient

from sharegroup import Admin, Producer
from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.acl_authorizer import AclAuthorizer
from sharegroup.broker.authorization.acls import ANY, AclRule
from sharegroup.broker.authorization.resources import (
    CLUSTER,
    Operation,
    Resource,
    ResourceType,
    group,
    topic,
)
from sharegroup.broker.passing.passing import Passing
from sharegroup.broker.passing.rights import NEEDS, check
from sharegroup.broker.passing.ways import WAYS
from sharegroup.broker.quotas import Mutations
from sharegroup.broker.request_context import RequestContext
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages import consumer_group_describe as group_describe
from sharegroup.wire.messages import offset_fetch
from sharegroup.wire.messages.api_versions import ApiVersion
from sharegroup.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from sharegroup.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from sharegroup.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from sharegroup.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from sharegroup.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from sharegroup.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
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
from tests.servers.admin import SILENT
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
NEW_OF_OURS = "__sharegroup_fleet_new"


def test_what_belongs_to_the_brokers_is_nobodys(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    async def scenario() -> None:
        async with Admin(node.bootstrap) as ours:
            names = {one.transactional_id for one in await ours.list_transactions()}
            assert not {name for name in names if name.startswith("__sharegroup_")}
            with pytest.raises(errors.TopicAuthorizationFailed):
                await ours.delete_topics("__sharegroup_fleet_settings")
        # Nor is one made for whom asks for it as a producer does.
        AdminClient({"bootstrap.servers": node.bootstrap, **SILENT}).list_topics(NEW_OF_OURS, 60)
        async with Admin(cluster.bootstrap) as theirs:
            assert NEW_OF_OURS not in {one.name for one in await theirs.list_topics()}
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
        self.handle(apis.FIND_COORDINATOR, self._coordinator, (4, 4))
        self.handle(apis.OFFSET_FETCH, self._offsets, (1, 9))
        self.handle(apis.CONSUMER_GROUP_HEARTBEAT, self._heartbeat, (1, 1))
        self.handle(apis.CONSUMER_GROUP_DESCRIBE, self._group, (0, 1))
        self.handle(apis.DESCRIBE_TRANSACTIONS, self._transactions, (0, 0))
        self.handle(apis.CREATE_TOPICS, self._create, (2, 7))
        self.handle(apis.CREATE_PARTITIONS, self._grow, (0, 3))

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

    async def _coordinator(self, request: Message, _version: int) -> Message:
        assert isinstance(request, FindCoordinatorRequest)
        here = [Coordinator(key, 1, "127.0.0.1", self.port) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=here)

    async def _offsets(self, request: Message, version: int) -> Message:
        """All topics have an offset, also where only some are asked for."""
        assert isinstance(request, offset_fetch.OffsetFetchRequest)
        self.asked.append(request)
        if version < 8:
            names = [one.name for one in request.topics] if request.topics is not None else IDS
            part = offset_fetch.OffsetFetchResponsePartition(0, 7, -1, "", 0)
            before = [offset_fetch.OffsetFetchResponseTopic(name, [part]) for name in names]
            return offset_fetch.OffsetFetchResponse(topics=before)
        [group] = request.groups
        names = [one.name for one in group.topics] if group.topics is not None else IDS
        each = offset_fetch.OffsetFetchResponsePartitions(0, 7, -1, "", 0)
        topics = [offset_fetch.OffsetFetchResponseTopics(name, partitions=[each]) for name in names]
        answer = offset_fetch.OffsetFetchResponseGroup(group.group_id, topics)
        return offset_fetch.OffsetFetchResponse(groups=[answer])

    async def _heartbeat(self, request: Message, _version: int) -> Message:
        self.asked.append(request)
        return ConsumerGroupHeartbeatResponse()

    async def _group(self, _request: Message, _version: int) -> Message:
        topics = [group_describe.TopicPartitions(of, name, [0]) for name, of in IDS.items()][:2]
        member = group_describe.Member(target_assignment=group_describe.Assignment(topics))
        found = group_describe.DescribedGroup(group_id=MINE, members=[member])
        return group_describe.ConsumerGroupDescribeResponse(groups=[found])

    async def _transactions(self, _request: Message, _version: int) -> Message:
        state = TransactionState(topics=[TopicData(name, [0]) for name in IDS])
        return DescribeTransactionsResponse(transaction_states=[state])

    async def _create(self, request: Message, _version: int) -> Message:
        assert isinstance(request, CreateTopicsRequest)
        self.asked.append(request)
        configs = [CreatableTopicConfigs("retention.ms", "1")]
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(one.name, num_partitions=3, configs=configs)
                for one in request.topics
            ]
        )

    async def _grow(self, request: Message, _version: int) -> Message:
        assert isinstance(request, CreatePartitionsRequest)
        self.asked.append(request)
        return CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(one.name) for one in request.topics]
        )


def passed_on(
    api: Api,
    version: int,
    request: Message,
    access: Access,
    mutations: Mutations | None = None,
) -> tuple[Any, list[Any]]:
    """The answer to alice, and what the cluster was asked."""

    async def seen(_created: object) -> None: ...
    async def here(_request: object) -> None: ...

    async def scenario() -> tuple[Any, list[Any]]:
        async with BehindIt() as server, Cluster(server.address) as cluster:
            await cluster.refresh()
            context = RequestContext(
                version, "", "", object(), access, ("", 0), mutations=mutations
            )
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
    # Clients know no node but this one: librdkafka warns of each other leader that it is told.
    leaders = [one.partition_responses[0].current_leader for one in answer.responses]
    assert leaders == [None] * len(IDS)


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


READS = (Operation.READ, group("workers"))
SEES = (Operation.DESCRIBE, topic(MINE))


@pytest.mark.parametrize("version", [7, 9])
@pytest.mark.parametrize("named", [True, False])
def test_offsets_in_other_topics_are_not_told(version: int, named: bool) -> None:
    asked: Any = None
    if version < 8:
        if named:
            asked = [offset_fetch.OffsetFetchRequestTopic(name, [0]) for name in IDS]
        request = offset_fetch.OffsetFetchRequest("workers", asked)
    else:
        if named:
            topics = offset_fetch.OffsetFetchRequestTopics
            asked = [topics(name, partition_indexes=[0]) for name in IDS]
        each = offset_fetch.OffsetFetchRequestGroup("workers", topics=asked)
        request = offset_fetch.OffsetFetchRequest(groups=[each])
    answer, through = passed_on(apis.OFFSET_FETCH, version, request, alice(READS, SEES))
    found = answer if version < 8 else answer.groups[0]
    offsets = {
        one.name: (part.committed_offset, part.error_code)
        for one in found.topics
        for part in one.partitions
    }
    others = {OTHERS: (-1, REFUSED), OURS: (-1, REFUSED)} if named else {}
    assert offsets == {MINE: (7, 0)} | others
    [sent] = through
    wanted = sent.topics if version < 8 else sent.groups[0].topics
    assert (wanted and [one.name for one in wanted]) == ([MINE] if named else None)


@pytest.mark.parametrize(("regex", "may"), [("min.", True), (".*", False), ("oth.*", False)])
def test_a_pattern_matches_no_topic_that_its_member_may_not_see(regex: str, may: bool) -> None:
    request = ConsumerGroupHeartbeatRequest("workers", "m", 0, subscribed_topic_regex=regex)
    access = alice(READS, SEES)
    if may:
        _, through = passed_on(apis.CONSUMER_GROUP_HEARTBEAT, 1, request, access)
        assert through == [request]
    else:
        with pytest.raises(errors.TopicAuthorizationFailed, match="expression matches a topic"):
            passed_on(apis.CONSUMER_GROUP_HEARTBEAT, 1, request, access)


def test_a_group_with_a_topic_that_may_not_be_seen_is_not_described() -> None:
    request = group_describe.ConsumerGroupDescribeRequest(["workers"])
    answer, _ = passed_on(apis.CONSUMER_GROUP_DESCRIBE, 1, request, alice(READS, SEES))
    [found] = answer.groups
    assert (found.error_code, list(found.members)) == (REFUSED, [])
    both = alice(READS, SEES, (Operation.DESCRIBE, topic(OTHERS)))
    answer, _ = passed_on(apis.CONSUMER_GROUP_DESCRIBE, 1, request, both)
    assert answer.groups[0].error_code == 0


def test_a_transaction_shows_the_topics_that_may_be_seen() -> None:
    transaction = Resource(ResourceType.TRANSACTIONAL_ID, "t")
    request = DescribeTransactionsRequest(["t"])
    access = alice((Operation.DESCRIBE, transaction), SEES)
    answer, _ = passed_on(apis.DESCRIBE_TRANSACTIONS, 0, request, access)
    assert [one.topic for one in answer.transaction_states[0].topics] == [MINE]


@pytest.mark.parametrize("may", [True, False])
def test_settings_of_a_new_topic_are_for_whom_may_see_them(may: bool) -> None:
    rights = [(Operation.CREATE, topic("new")), (Operation.DESCRIBE_CONFIGS, topic("new"))]
    request = CreateTopicsRequest([CreatableTopic("new")])
    answer, _ = passed_on(apis.CREATE_TOPICS, 7, request, alice(*rights[: 1 + may]))
    [made] = answer.topics
    assert (bool(made.configs), made.num_partitions) == ((True, 3) if may else (False, -1))
    assert made.topic_config_error_code == (0 if may else REFUSED)


def test_partitions_that_are_made_and_deleted_are_charged() -> None:
    everything = Access()
    taken: list[int] = []

    def take(count: int) -> int:
        taken.append(count)
        return 1_000 if sum(taken) > 4 else 0

    code = errors.ThrottlingQuotaExceeded.code
    charges = Mutations(take, strict=True)
    topics = [CreatableTopic("four", 4), CreatableTopic("one", 1), CreatableTopic(MINE, 9)]
    answer, asked = passed_on(
        apis.CREATE_TOPICS, 7, CreateTopicsRequest(topics), everything, charges
    )
    assert {one.name: one.error_code for one in answer.topics} == {"four": 0, "one": code, MINE: 0}
    assert [[one.name for one in each.topics] for each in asked] == [["four", MINE]]
    assert taken == [4, 1]  # a topic that is there is refused by the cluster
    grow = CreatePartitionsRequest([CreatePartitionsTopic(MINE, 3)])
    answer, asked = passed_on(apis.CREATE_PARTITIONS, 3, grow, everything, charges)
    assert [one.error_code for one in answer.results] == [code]
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(None, IDS[MINE])])
    answer, more = passed_on(apis.DELETE_TOPICS, 6, delete, everything, charges)
    assert [one.error_code for one in answer.responses] == [code]
    assert (taken, asked, more) == ([4, 1, 2, 1], [], [])
