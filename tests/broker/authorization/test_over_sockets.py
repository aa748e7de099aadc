"""What a client is told that may not: each API's own error in its own place, over real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.client.network.connection import Connection
from sharegroup.model.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages import (
    alter_configs,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    fetch,
    incremental_alter_configs,
    list_offsets,
)
from sharegroup.wire.messages import delete_share_group_state as delete
from sharegroup.wire.messages import describe_producers as producers
from sharegroup.wire.messages import describe_share_group_offsets as offsets
from sharegroup.wire.messages import initialize_share_group_state as initialize
from sharegroup.wire.messages import read_share_group_state as read
from sharegroup.wire.messages import read_share_group_state_summary as summary
from sharegroup.wire.messages import write_share_group_state as write
from sharegroup.wire.messages import write_txn_markers as markers
from sharegroup.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sharegroup.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from sharegroup.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredEntry,
)
from sharegroup.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from sharegroup.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from sharegroup.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from sharegroup.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sharegroup.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sharegroup.wire.messages.create_acls import AclCreation, CreateAclsRequest
from sharegroup.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from sharegroup.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from sharegroup.wire.messages.describe_acls import DescribeAclsRequest
from sharegroup.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from sharegroup.wire.messages.describe_cluster import DescribeClusterRequest
from sharegroup.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from sharegroup.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from sharegroup.wire.messages.describe_transactions import DescribeTransactionsRequest
from sharegroup.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from sharegroup.wire.messages.elect_leaders import ElectLeadersRequest
from sharegroup.wire.messages.end_txn import EndTxnRequest
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.heartbeat import HeartbeatRequest
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from sharegroup.wire.messages.join_group import JoinGroupRequest
from sharegroup.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sharegroup.wire.messages.list_config_resources import ListConfigResourcesRequest
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from sharegroup.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from sharegroup.wire.messages.list_transactions import ListTransactionsRequest
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from sharegroup.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from sharegroup.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from sharegroup.wire.messages.share_fetch import ShareFetchRequest
from sharegroup.wire.messages.share_group_describe import ShareGroupDescribeRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from sharegroup.wire.messages.sync_group import SyncGroupRequest
from sharegroup.wire.messages.unregister_broker import UnregisterBrokerRequest
from sharegroup.wire.messages.update_features import UpdateFeaturesRequest
from tests.broker.authorization.clients import Clients, with_acls
from tests.broker.by_hand import TIMEOUT_MS, produce

TOPIC = TopicAuthorizationFailed.code
GROUP = GroupAuthorizationFailed.code
CLUSTER = ClusterAuthorizationFailed.code
TRANSACTIONAL_ID = TransactionalIdAuthorizationFailed.code
OTHER_ID = UUID(int=7)


def errors(response: Any) -> list[int]:
    """Every error code in a response that is not 0, in order."""
    if hasattr(response, "__slots__"):
        own = getattr(response, "error_code", 0)
        inner = [getattr(response, name) for name in response.__slots__]
        return [own] * bool(own) + [code for value in inner for code in errors(value)]
    if isinstance(response, list | tuple):
        return [code for value in response for code in errors(value)]
    return []


def configs(resource_type: int, name: str) -> Any:
    resource = describe_configs.DescribeConfigsResource(resource_type, name, None)
    return describe_configs.DescribeConfigsRequest([resource])


def alter(resource_type: int, name: str) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(resource_type, name, [])
    return incremental_alter_configs.IncrementalAlterConfigsRequest([resource])


def replace_configs(resource_type: int, name: str) -> Any:
    resource = alter_configs.AlterConfigsResource(resource_type, name, [])
    return alter_configs.AlterConfigsRequest([resource])


DENIED: list[tuple[apis.Api, Any, list[int]]] = [
    (apis.LIST_OFFSETS, list_offsets.ListOffsetsRequest(-1, 0, [
        list_offsets.ListOffsetsTopic("jobs", [list_offsets.ListOffsetsPartition(0, -1, -1)])
    ]), [TOPIC]),
    (apis.METADATA, MetadataRequest([MetadataRequestTopic(name="jobs")]), [TOPIC]),
    (apis.METADATA, MetadataRequest([MetadataRequestTopic(name="no-such-topic")], True), [TOPIC]),
    (apis.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest([TopicRequest("jobs")]),
     [TOPIC]),
    (apis.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("new", 1, -1)]), [TOPIC]),
    (apis.CREATE_PARTITIONS, CreatePartitionsRequest([CreatePartitionsTopic("jobs", 2)]), [TOPIC]),
    (apis.DELETE_TOPICS, delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState("jobs")]), [TOPIC]),
    (apis.DELETE_TOPICS, delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState("no-such-topic")]), [TOPIC]),
    (apis.DELETE_RECORDS, delete_records.DeleteRecordsRequest([
        delete_records.DeleteRecordsTopic("jobs", [delete_records.DeleteRecordsPartition(0, 1)])
    ]), [TOPIC]),
    (apis.DESCRIBE_CONFIGS, configs(2, "jobs"), [TOPIC]),
    (apis.DESCRIBE_CONFIGS, configs(4, ""), [CLUSTER]),
    (apis.DESCRIBE_CONFIGS, configs(32, "workers"), [GROUP]),
    (apis.ALTER_CONFIGS, replace_configs(2, "jobs"), [TOPIC]),
    (apis.ALTER_CONFIGS, replace_configs(4, ""), [CLUSTER]),
    (apis.ALTER_CONFIGS, replace_configs(32, "workers"), [GROUP]),
    (apis.INCREMENTAL_ALTER_CONFIGS, alter(2, "jobs"), [TOPIC]),
    (apis.INCREMENTAL_ALTER_CONFIGS, alter(4, ""), [CLUSTER]),
    (apis.INCREMENTAL_ALTER_CONFIGS, alter(32, "workers"), [GROUP]),
    (apis.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest(
        -1, [OffsetForLeaderTopic("jobs", [OffsetForLeaderPartition(0)])]), [TOPIC]),
    (apis.DESCRIBE_ACLS, DescribeAclsRequest(1, None, 1, None, None, 1, 1), [CLUSTER]),
    (apis.CREATE_ACLS, CreateAclsRequest([AclCreation(2, "jobs", 3, "User:a", "*", 3, 3)]),
     [CLUSTER]),
    (apis.DELETE_ACLS, DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)]),
     [CLUSTER]),
    (apis.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(), [CLUSTER]),
    (apis.ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest([AlteredEntry()]), [CLUSTER]),
    (apis.LIST_CONFIG_RESOURCES, ListConfigResourcesRequest(), [CLUSTER]),
    (apis.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(None), [CLUSTER]),
    (apis.ELECT_LEADERS, ElectLeadersRequest(0, None), [CLUSTER]),
    (apis.UPDATE_FEATURES, UpdateFeaturesRequest(), [CLUSTER]),
    (apis.UNREGISTER_BROKER, UnregisterBrokerRequest(7), [CLUSTER]),
    (apis.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(None), [CLUSTER]),
    (apis.ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion("alice", 1)], []
    ), [CLUSTER]),
    (apis.ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsRequest(), [CLUSTER]),
    (apis.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(), [CLUSTER]),
    (apis.DELETE_GROUPS, delete_groups.DeleteGroupsRequest(["workers"]), [GROUP]),
    (apis.FIND_COORDINATOR, FindCoordinatorRequest(key_type=0, coordinator_keys=["workers"]),
     [GROUP]),
    (apis.FIND_COORDINATOR, FindCoordinatorRequest(key_type=1, coordinator_keys=["payments"]),
     [TRANSACTIONAL_ID]),
    (apis.FIND_COORDINATOR, FindCoordinatorRequest(key_type=2, coordinator_keys=["g:x:0"]),
     [CLUSTER]),
    (apis.INIT_PRODUCER_ID, InitProducerIdRequest(None, 0), [CLUSTER]),
    (apis.INIT_PRODUCER_ID, InitProducerIdRequest("payments", 0), [TRANSACTIONAL_ID]),
    (apis.JOIN_GROUP, JoinGroupRequest("workers", 10_000), [GROUP]),
    (apis.SYNC_GROUP, SyncGroupRequest("workers", 1, "m", None, "consumer", "range"), [GROUP]),
    (apis.HEARTBEAT, HeartbeatRequest("workers", 1, "m"), [GROUP]),
    (apis.LEAVE_GROUP, LeaveGroupRequest("workers", members=[MemberIdentity("m")]), [GROUP]),
    (apis.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(), [CLUSTER]),
    (apis.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest("payments", 1, 0, "workers"),
     [TRANSACTIONAL_ID]),
    (apis.END_TXN, EndTxnRequest("payments", 1, 0, True), [TRANSACTIONAL_ID]),
    (apis.WRITE_TXN_MARKERS, markers.WriteTxnMarkersRequest([markers.WritableTxnMarker(
        1, 0, True, [markers.WritableTxnMarkerTopic("jobs", [0])], 0, 2)]), [CLUSTER]),
    (apis.DESCRIBE_PRODUCERS, producers.DescribeProducersRequest(
        [producers.TopicRequest("jobs", [0])]), [TOPIC]),
    (apis.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(["payments"]), [TRANSACTIONAL_ID]),
    (apis.DESCRIBE_GROUPS, describe_groups.DescribeGroupsRequest(["workers"]), [GROUP]),
    (apis.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest("workers", "m", 0), [GROUP]),
    (apis.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(["workers"]), [GROUP]),
    (apis.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest("workers", "m", 0, None, ["jobs"]),
     [GROUP]),
    (apis.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(["workers"]), [GROUP]),
    (apis.SHARE_FETCH, ShareFetchRequest("workers", "m", 0, 0, 1, 1, 1, 1), [GROUP]),
    (apis.SHARE_ACKNOWLEDGE, ShareAcknowledgeRequest("workers", "m", 1), [GROUP]),
    (apis.DESCRIBE_SHARE_GROUP_OFFSETS, offsets.DescribeShareGroupOffsetsRequest(
        [offsets.DescribeShareGroupOffsetsRequestGroup("workers", None)]), [GROUP]),
    (apis.ALTER_SHARE_GROUP_OFFSETS, AlterShareGroupOffsetsRequest("workers"), [GROUP]),
    (apis.DELETE_SHARE_GROUP_OFFSETS, DeleteShareGroupOffsetsRequest("workers"), [GROUP]),
    (apis.INITIALIZE_SHARE_GROUP_STATE, initialize.InitializeShareGroupStateRequest("workers", [
        initialize.InitializeStateData(OTHER_ID, [initialize.PartitionData(0, 1, 0)])]),
     [CLUSTER]),
    (apis.READ_SHARE_GROUP_STATE, read.ReadShareGroupStateRequest("workers", [
        read.ReadStateData(OTHER_ID, [read.PartitionData(0, 1), read.PartitionData(1, 1)])]),
     [CLUSTER, CLUSTER]),
    (apis.WRITE_SHARE_GROUP_STATE, write.WriteShareGroupStateRequest("workers", [
        write.WriteStateData(OTHER_ID, [write.PartitionData(0, 1, 1, 0)])]), [CLUSTER]),
    (apis.DELETE_SHARE_GROUP_STATE, delete.DeleteShareGroupStateRequest("workers", [
        delete.DeleteStateData(OTHER_ID, [delete.PartitionData(0)])]), [CLUSTER]),
    (apis.READ_SHARE_GROUP_STATE_SUMMARY, summary.ReadShareGroupStateSummaryRequest("workers", [
        summary.ReadStateSummaryData(OTHER_ID, [summary.PartitionData(0, 1)])]), [CLUSTER]),
]  # fmt: skip


ELSEWHERE = {
    apis.API_VERSIONS: "open to all, as in Kafka",
    apis.SASL_HANDSHAKE: "it comes before anybody is known",
    apis.SASL_AUTHENTICATE: "it comes before anybody is known",
    apis.DESCRIBE_CLUSTER: "open to all but for its operations: see what is shown",
    apis.LIST_GROUPS: "leaves out: see what is shown",
    apis.LIST_TRANSACTIONS: "leaves out: see what is shown",
    apis.PRODUCE: "its own tests",
    apis.FETCH: "its own tests",
    apis.OFFSET_COMMIT: "test_committed_offsets.py",
    apis.OFFSET_FETCH: "test_committed_offsets.py",
    apis.OFFSET_DELETE: "test_committed_offsets.py",
    apis.TXN_OFFSET_COMMIT: "test_committed_offsets.py",
}


def test_every_api_checks_authorization() -> None:
    asked = {api.key for api, _, _ in DENIED} | {api.key for api in ELSEWHERE}
    assert set(API_TABLE) == asked


def test_without_an_allow_each_api_refuses_in_its_own_place(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        for api, request, expected in DENIED:
            assert errors(await clients.ask(api, request)) == expected, (api.name, request)

    with_acls(tmp_path, [], scenario)


def test_without_an_allow_nothing_is_shown(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        assert (await clients.ask(apis.METADATA, MetadataRequest(None))).topics == []
        described = await clients.ask(
            apis.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest([])
        )
        assert described.topics == []
        assert (await clients.ask(apis.LIST_GROUPS, ListGroupsRequest())).groups == []
        await clients.broker.parts.transactions.initialize("payments", 1000, None)
        listed = await clients.ask(apis.LIST_TRANSACTIONS, ListTransactionsRequest())
        assert (listed.error_code, listed.transaction_states) == (0, [])
        cluster = await clients.ask(apis.DESCRIBE_CLUSTER, DescribeClusterRequest(True))
        assert cluster.cluster_authorized_operations == 0
        assert len(cluster.brokers) == 1

    with_acls(tmp_path, [], scenario)


def test_an_unknown_topic_id_is_unknown_and_a_known_one_is_refused(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        for topic_id, code in ((OTHER_ID, 100), (clients.topic_id, TOPIC)):
            request = MetadataRequest([MetadataRequestTopic(topic_id, None)])
            assert errors(await clients.ask(apis.METADATA, request)) == [code]
        batch = encode_batch([(b"k", b"v")], timestamp_ms=0)
        assert await produce(clients.anybody, clients.topic_id, batch) == TOPIC

    with_acls(tmp_path, [], scenario)


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        (["ALLOW,User:ANONYMOUS,127.0.0.1,WRITE,TOPIC,jobs,LITERAL"], True),
        (["ALLOW,User:ANONYMOUS,10.0.0.1,WRITE,TOPIC,jobs,LITERAL"], False),
        (["ALLOW,User:*,*,READ,TOPIC,jobs,LITERAL"], False),
    ],
)
def test_produce_needs_write(tmp_path: Path, acls: list[str], allowed: bool) -> None:
    async def scenario(clients: Clients) -> None:
        batch = encode_batch([(b"k", b"v")], timestamp_ms=0)
        refused = await produce(clients.anybody, clients.topic_id, batch)
        assert refused == (0 if allowed else TOPIC)
        log = clients.broker.parts.topics.log("jobs", 0)
        assert log.log_end_offset == (4 if allowed else 3)
        asked = await clients.ask(apis.INIT_PRODUCER_ID, InitProducerIdRequest(None, 0))
        assert errors(asked) == ([] if allowed else [CLUSTER])

    with_acls(tmp_path, acls, scenario)


def test_allowed_resources_are_shown_with_their_operations(tmp_path: Path) -> None:
    acls = ["ALLOW,User:ANONYMOUS,*,READ,TOPIC,jobs,LITERAL"]

    async def scenario(clients: Clients) -> None:
        request = MetadataRequest(None, include_topic_authorized_operations=True)
        (shown,) = (await clients.ask(apis.METADATA, request)).topics
        assert shown.name == "jobs"
        assert shown.topic_authorized_operations == 1 << 3 | 1 << 8
        cluster = await clients.as_admin(apis.DESCRIBE_CLUSTER, DescribeClusterRequest(True))
        assert cluster.cluster_authorized_operations > 0

    with_acls(tmp_path, acls, scenario)


def test_create_needs_create_on_the_topic_or_the_cluster(tmp_path: Path) -> None:
    acls = ["ALLOW,User:ANONYMOUS,*,CREATE,TOPIC,my-,PREFIXED"]

    async def scenario(clients: Clients) -> None:
        topics = [CreatableTopic("my-new", 2, -1), CreatableTopic("new", 1, -1)]
        made, refused = (await clients.ask(apis.CREATE_TOPICS, CreateTopicsRequest(topics))).topics
        assert (made.error_code, refused.error_code) == (0, TOPIC)
        assert made.topic_config_error_code == TOPIC  # it may not describe configs
        assert (made.num_partitions, made.configs) == (-1, [])
        assert clients.broker.parts.topics.find("new") is None

    with_acls(tmp_path, acls, scenario)


def test_each_listener_advertises_its_own_address(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        for connection in (clients.anybody, clients.admin):
            asked: Connection = connection
            metadata = await asked.send(apis.METADATA, MetadataRequest([]), timeout_ms=TIMEOUT_MS)
            (broker,) = metadata.brokers
            assert f"{broker.host}:{broker.port}" == asked.address

    with_acls(tmp_path, [], scenario)


def test_a_fetch_of_a_topic_needs_read(tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        for topic_id, code in ((OTHER_ID, 100), (clients.topic_id, TOPIC)):
            part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
            topic = fetch.FetchTopic(topic_id=topic_id, partitions=[part])
            request = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
            assert errors(await clients.ask(apis.FETCH, request)) == [code]

    with_acls(tmp_path, [], scenario)
