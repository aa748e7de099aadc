"""What is asked under each list of ACLs: every API, about what exists and what does not.

Topics whose names begin with `jobs` (of which the ACLs speak) and `secret` (of which they do not),
and `missing`, which does not exist; groups whose names begin with `work`, and `others`, which does
not exist; transactional ids `payments` and `refunds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.batch import TRANSACTIONAL, encode_batch
from sharegroup.wire.messages import add_offsets_to_txn as offsets_to_txn
from sharegroup.wire.messages import add_partitions_to_txn as to_txn
from sharegroup.wire.messages import alter_client_quotas as alter_quotas
from sharegroup.wire.messages import (
    alter_configs,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    produce,
    share_acknowledge,
    share_fetch,
    sync_group,
    unregister_broker,
    update_features,
)
from sharegroup.wire.messages import alter_partition_reassignments as reassign
from sharegroup.wire.messages import alter_share_group_offsets as alter_share
from sharegroup.wire.messages import alter_user_scram_credentials as alter_users
from sharegroup.wire.messages import consumer_group_describe as consumer_describe
from sharegroup.wire.messages import consumer_group_heartbeat as consumer_heartbeat
from sharegroup.wire.messages import delete_share_group_offsets as delete_share
from sharegroup.wire.messages import delete_share_group_state as delete_state
from sharegroup.wire.messages import describe_client_quotas as quotas
from sharegroup.wire.messages import describe_producers as producers
from sharegroup.wire.messages import describe_share_group_offsets as describe_share
from sharegroup.wire.messages import describe_topic_partitions as topic_partitions
from sharegroup.wire.messages import describe_transactions as describe_txns
from sharegroup.wire.messages import describe_user_scram_credentials as describe_users
from sharegroup.wire.messages import incremental_alter_configs as incremental
from sharegroup.wire.messages import init_producer_id as init_producer
from sharegroup.wire.messages import initialize_share_group_state as initialize
from sharegroup.wire.messages import list_config_resources as config_resources
from sharegroup.wire.messages import list_partition_reassignments as reassignments
from sharegroup.wire.messages import list_transactions as list_txns
from sharegroup.wire.messages import offset_for_leader_epoch as epochs
from sharegroup.wire.messages import read_share_group_state as read_state
from sharegroup.wire.messages import read_share_group_state_summary as summary
from sharegroup.wire.messages import share_group_describe as share_describe
from sharegroup.wire.messages import share_group_heartbeat as share_heartbeat
from sharegroup.wire.messages import txn_offset_commit as txn_commit
from sharegroup.wire.messages import write_share_group_state as write_state
from sharegroup.wire.messages import write_txn_markers as markers

TOPICS = ("jobs", "secret", "missing")
GROUPS = ("workers", "others")
IDS = ("payments", "refunds")
NOBODY = UUID(int=7)
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
CLUSTER_NAME = "kafka-cluster"
TOPIC, GROUP, BROKER = 2, 32, 4
NO_MEMBER = "nobody"
BATCH = encode_batch([(b"k", b"v")], timestamp_ms=0)


@dataclass(frozen=True)
class Asked:
    """One request. `of` makes it from the ids of the topics."""

    name: str
    api: Api
    version: int
    of: Callable[[Mapping[str, UUID]], Any]


Ids = Mapping[str, UUID]


def _by_id(ids: Ids) -> list[UUID]:
    return [ids["jobs"], ids["secret"], NOBODY]


def _produced(ids: Ids) -> Any:
    parts = [produce.PartitionProduceData(0, BATCH)]
    return produce.ProduceRequest(
        None, 1, 1000, [produce.TopicProduceData("", each, parts) for each in _by_id(ids)]
    )


def _produced_by_name(_: Ids) -> Any:
    parts = [produce.PartitionProduceData(0, BATCH)]
    return produce.ProduceRequest(
        None, 1, 1000, [produce.TopicProduceData(name, NOBODY, parts) for name in TOPICS]
    )


def _produced_in_a_transaction(_: Ids) -> Any:
    batch = encode_batch(
        [(b"k", b"v")],
        timestamp_ms=0,
        producer_id=99,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )
    parts = [produce.PartitionProduceData(0, batch)]
    return produce.ProduceRequest(
        "payments", -1, 1000, [produce.TopicProduceData(name, NOBODY, parts) for name in TOPICS]
    )


def _fetched(ids: Ids) -> Any:
    parts = [fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)]
    topics = [fetch.FetchTopic(topic_id=each, partitions=parts) for each in _by_id(ids)]
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=topics)


def _fetched_by_name(_: Ids) -> Any:
    parts = [fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)]
    topics = [fetch.FetchTopic(topic=name, partitions=parts) for name in TOPICS]
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=topics)


def _committed(ids: Ids) -> Any:
    parts = [offset_commit.OffsetCommitRequestPartition(0, 1, -1, "")]
    topics = [offset_commit.OffsetCommitRequestTopic("", each, parts) for each in _by_id(ids)]
    return offset_commit.OffsetCommitRequest("workers", topics=topics)


def _committed_by_name(_: Ids) -> Any:
    parts = [offset_commit.OffsetCommitRequestPartition(0, 1, -1, "")]
    topics = [offset_commit.OffsetCommitRequestTopic(name, NOBODY, parts) for name in TOPICS]
    return offset_commit.OffsetCommitRequest("workers", topics=topics)


def _offsets(ids: Ids) -> Any:
    some = [offset_fetch.OffsetFetchRequestTopics("", each, [0]) for each in _by_id(ids)]
    groups = [offset_fetch.OffsetFetchRequestGroup(group, topics=some) for group in GROUPS]
    return offset_fetch.OffsetFetchRequest(groups=groups)


def _all_offsets(_: Ids) -> Any:
    groups = [offset_fetch.OffsetFetchRequestGroup(group, topics=None) for group in GROUPS]
    return offset_fetch.OffsetFetchRequest(groups=groups)


def _offsets_by_name(_: Ids) -> Any:
    some = [offset_fetch.OffsetFetchRequestTopics(name, NOBODY, [0]) for name in TOPICS]
    groups = [offset_fetch.OffsetFetchRequestGroup(group, topics=some) for group in GROUPS]
    return offset_fetch.OffsetFetchRequest(groups=groups)


def _in_transaction(ids: Ids) -> Any:
    parts = [txn_commit.TxnOffsetCommitRequestPartition(0, 1, -1, "")]
    topics = [txn_commit.TxnOffsetCommitRequestTopic(name, NOBODY, parts) for name in TOPICS]
    return txn_commit.TxnOffsetCommitRequest("payments", "workers", 99, 0, topics=topics)


def _share_fetched(ids: Ids) -> Any:
    parts = [share_fetch.FetchPartition(0)]
    topics = [share_fetch.FetchTopic(ids[name], parts) for name in ("jobs", "secret")]
    return share_fetch.ShareFetchRequest(
        "work-fetchers", MEMBER, 0, 500, 1, 100_000, 10, 10, topics=topics
    )


def _acknowledged(ids: Ids) -> Any:
    parts = [share_acknowledge.AcknowledgePartition(0)]
    topics = [share_acknowledge.AcknowledgeTopic(ids["jobs"], parts)]
    return share_acknowledge.ShareAcknowledgeRequest("work-fetchers", MEMBER, 7, topics=topics)


def _acl_row() -> tuple[Any, ...]:
    return (2, "made-up", 3, "User:nobody", "*", 3, 3)


def _configs(_: Ids) -> Any:
    named = [*((TOPIC, name) for name in TOPICS), *((GROUP, name) for name in GROUPS)]
    return describe_configs.DescribeConfigsRequest(
        [
            describe_configs.DescribeConfigsResource(kind, name, ["retention.ms"])
            for kind, name in [*named, (BROKER, "1"), (BROKER, "")]
        ]
    )


def _alter(_: Ids) -> Any:
    named = [*((TOPIC, name) for name in TOPICS), *((GROUP, name) for name in GROUPS)]
    return incremental.IncrementalAlterConfigsRequest(
        [incremental.AlterConfigsResource(*each, []) for each in [*named, (BROKER, "1")]], True
    )


def _replace(_: Ids) -> Any:
    named = [*((TOPIC, name) for name in TOPICS), *((GROUP, name) for name in GROUPS)]
    return alter_configs.AlterConfigsRequest(
        [alter_configs.AlterConfigsResource(*each, []) for each in named], True
    )


def _markers(_: Ids) -> Any:
    topics = [markers.WritableTxnMarkerTopic(name, [0]) for name in ("missing",)]
    return markers.WriteTxnMarkersRequest([markers.WritableTxnMarker(99, 0, True, topics, 0, 2)])


def _add_partitions(_: Ids) -> Any:
    topics = [to_txn.AddPartitionsToTxnTopic(name, [0]) for name in TOPICS]
    return to_txn.AddPartitionsToTxnRequest([], "payments", 99, 0, topics)


def _add_one_partition(_: Ids) -> Any:
    topics = [to_txn.AddPartitionsToTxnTopic("jobs", [0])]
    return to_txn.AddPartitionsToTxnRequest([], "payments", 99, 0, topics)


def _add_by_broker(_: Ids) -> Any:
    topics = [to_txn.AddPartitionsToTxnTopic("jobs", [0])]
    each = to_txn.AddPartitionsToTxnTransaction("payments", 99, 0, True, topics)
    return to_txn.AddPartitionsToTxnRequest([each], "", 0, 0, [])


ASKED = (
    Asked("Produce by id", apis.PRODUCE, 13, _produced),
    Asked("Produce by name", apis.PRODUCE, 12, _produced_by_name),
    Asked("Produce in a transaction", apis.PRODUCE, 11, _produced_in_a_transaction),
    Asked("Fetch by id", apis.FETCH, 17, _fetched),
    Asked("Fetch by name", apis.FETCH, 12, _fetched_by_name),
    Asked("ListOffsets", apis.LIST_OFFSETS, 10, lambda _: list_offsets.ListOffsetsRequest(-1, 0, [
        list_offsets.ListOffsetsTopic(name, [list_offsets.ListOffsetsPartition(0, -1, -1)])
        for name in TOPICS])),
    Asked("Metadata of all", apis.METADATA, 12, lambda _: metadata.MetadataRequest(
        None, False, False, True)),
    Asked("Metadata of all with the cluster's operations", apis.METADATA, 10,
          lambda _: metadata.MetadataRequest(None, False, True, True)),
    Asked("Metadata that makes topics", apis.METADATA, 12, lambda _: metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=name) for name in ("jobs-to-make", "to-make")],
        True, False, True)),
    Asked("DescribeConfigs of others", apis.DESCRIBE_CONFIGS, 4,
          lambda _: describe_configs.DescribeConfigsRequest([
              describe_configs.DescribeConfigsResource(8, "1", ["none"])])),
    Asked("Metadata by name", apis.METADATA, 12, lambda _: metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=name) for name in TOPICS], False, False, True)),
    Asked("Metadata by id", apis.METADATA, 12, lambda ids: metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(each, None) for each in _by_id(ids)], False, False, True)),
    Asked("OffsetCommit by id", apis.OFFSET_COMMIT, 10, _committed),
    Asked("OffsetCommit by name", apis.OFFSET_COMMIT, 9, _committed_by_name),
    Asked("OffsetFetch by id", apis.OFFSET_FETCH, 10, _offsets),
    Asked("OffsetFetch by name", apis.OFFSET_FETCH, 9, _offsets_by_name),
    Asked("OffsetFetch of all", apis.OFFSET_FETCH, 9, _all_offsets),
    *(Asked(f"FindCoordinator {kind}", apis.FIND_COORDINATOR, 6,
            lambda _, kind=kind, keys=keys: find_coordinator.FindCoordinatorRequest(
                key_type=kind, coordinator_keys=list(keys)))
      for kind, keys in ((0, GROUPS), (1, IDS), (2, ["workers:AAAAAAAAAAAAAAAAAAAAAQ:0"]))),
    Asked("JoinGroup", apis.JOIN_GROUP, 9, lambda _: join_group.JoinGroupRequest(
        "workers", 10_000, 10_000, "", None, "consumer",
        [join_group.JoinGroupRequestProtocol("range", b"")])),
    Asked("Heartbeat", apis.HEARTBEAT, 4, lambda _: heartbeat.HeartbeatRequest(
        "others", 1, NO_MEMBER)),
    Asked("Heartbeat of workers", apis.HEARTBEAT, 4, lambda _: heartbeat.HeartbeatRequest(
        "workers", 1, NO_MEMBER)),
    Asked("LeaveGroup", apis.LEAVE_GROUP, 5, lambda _: leave_group.LeaveGroupRequest(
        "workers", members=[leave_group.MemberIdentity(NO_MEMBER)])),
    Asked("SyncGroup", apis.SYNC_GROUP, 5, lambda _: sync_group.SyncGroupRequest(
        "workers", 1, NO_MEMBER, None, "consumer", "range")),
    Asked("DescribeGroups", apis.DESCRIBE_GROUPS, 6,
          lambda _: describe_groups.DescribeGroupsRequest(list(GROUPS), True)),
    Asked("ListGroups", apis.LIST_GROUPS, 5, lambda _: list_groups.ListGroupsRequest()),
    Asked("CreateTopics", apis.CREATE_TOPICS, 7, lambda _: create_topics.CreateTopicsRequest([
        create_topics.CreatableTopic(name, 1, 1) for name in TOPICS], 10_000, True)),
    Asked("DeleteTopics by name", apis.DELETE_TOPICS, 6,
          lambda _: delete_topics.DeleteTopicsRequest(
              topics=[delete_topics.DeleteTopicState(name) for name in ("jobs-doomed", "missing")],
              timeout_ms=10_000)),
    Asked("DeleteTopics by id", apis.DELETE_TOPICS, 6,
          lambda ids: delete_topics.DeleteTopicsRequest(topics=[
              delete_topics.DeleteTopicState(None, each)
              for each in (ids["jobs-doomed-too"], NOBODY)], timeout_ms=10_000)),
    Asked("DeleteRecords", apis.DELETE_RECORDS, 2,
          lambda _: delete_records.DeleteRecordsRequest([
              delete_records.DeleteRecordsTopic(
                  name, [delete_records.DeleteRecordsPartition(0, 0)]) for name in TOPICS], 1000)),
    Asked("InitProducerId", apis.INIT_PRODUCER_ID, 5,
          lambda _: init_producer.InitProducerIdRequest(None, 0)),
    Asked("InitProducerId of a transaction", apis.INIT_PRODUCER_ID, 5,
          lambda _: init_producer.InitProducerIdRequest("payments", 10_000)),
    Asked("OffsetForLeaderEpoch", apis.OFFSET_FOR_LEADER_EPOCH, 4,
          lambda _: epochs.OffsetForLeaderEpochRequest(-1, [
              epochs.OffsetForLeaderTopic(name, [epochs.OffsetForLeaderPartition(0, -1, 0)])
              for name in TOPICS])),
    Asked("AddPartitionsToTxn", apis.ADD_PARTITIONS_TO_TXN, 3, _add_partitions),
    Asked("AddPartitionsToTxn of one", apis.ADD_PARTITIONS_TO_TXN, 3, _add_one_partition),
    Asked("AddPartitionsToTxn by a broker", apis.ADD_PARTITIONS_TO_TXN, 5, _add_by_broker),
    Asked("AddOffsetsToTxn", apis.ADD_OFFSETS_TO_TXN, 4,
          lambda _: offsets_to_txn.AddOffsetsToTxnRequest("payments", 99, 0, "workers")),
    Asked("EndTxn", apis.END_TXN, 5, lambda _: end_txn.EndTxnRequest("payments", 99, 0, True)),
    Asked("WriteTxnMarkers", apis.WRITE_TXN_MARKERS, 2, _markers),
    Asked("TxnOffsetCommit", apis.TXN_OFFSET_COMMIT, 5, _in_transaction),
    Asked("DescribeAcls", apis.DESCRIBE_ACLS, 3, lambda _: describe_acls.DescribeAclsRequest(
        2, "no such", 3, None, None, 1, 1)),
    Asked("CreateAcls", apis.CREATE_ACLS, 3, lambda _: create_acls.CreateAclsRequest(
        [create_acls.AclCreation(*_acl_row())])),
    Asked("DeleteAcls", apis.DELETE_ACLS, 3, lambda _: delete_acls.DeleteAclsRequest(
        [delete_acls.DeleteAclsFilter(*_acl_row())])),
    Asked("DescribeConfigs", apis.DESCRIBE_CONFIGS, 4, _configs),
    Asked("AlterConfigs", apis.ALTER_CONFIGS, 2, _replace),
    Asked("IncrementalAlterConfigs", apis.INCREMENTAL_ALTER_CONFIGS, 1, _alter),
    Asked("DescribeLogDirs", apis.DESCRIBE_LOG_DIRS, 4,
          lambda _: describe_log_dirs.DescribeLogDirsRequest(
              [describe_log_dirs.DescribableLogDirTopic(name, [0]) for name in TOPICS])),
    Asked("CreatePartitions", apis.CREATE_PARTITIONS, 3,
          lambda _: create_partitions.CreatePartitionsRequest(
              [create_partitions.CreatePartitionsTopic(name, 2) for name in TOPICS], 10_000, True)),
    Asked("ElectLeaders", apis.ELECT_LEADERS, 2, lambda _: elect_leaders.ElectLeadersRequest(
        0, [elect_leaders.TopicPartitions(name, [0]) for name in TOPICS], 10_000)),
    Asked("UpdateFeatures", apis.UPDATE_FEATURES, 2,
          lambda _: update_features.UpdateFeaturesRequest(
              10_000, [update_features.FeatureUpdateKey("group.version", 1)], True)),
    Asked("UnregisterBroker", apis.UNREGISTER_BROKER, 0,
          lambda _: unregister_broker.UnregisterBrokerRequest(77)),
    Asked("AlterPartitionReassignments", apis.ALTER_PARTITION_REASSIGNMENTS, 0,
          lambda _: reassign.AlterPartitionReassignmentsRequest(10_000, topics=[
              reassign.ReassignableTopic(name, [reassign.ReassignablePartition(0, [1])])
              for name in TOPICS])),
    Asked("ListPartitionReassignments", apis.LIST_PARTITION_REASSIGNMENTS, 0,
          lambda _: reassignments.ListPartitionReassignmentsRequest(10_000, None)),
    Asked("OffsetDelete", apis.OFFSET_DELETE, 0, lambda _: offset_delete.OffsetDeleteRequest(
        "workers", [offset_delete.OffsetDeleteRequestTopic(
            name, [offset_delete.OffsetDeleteRequestPartition(0)])
            for name in ("jobs", "missing")])),
    Asked("DescribeCluster", apis.DESCRIBE_CLUSTER, 1,
          lambda _: describe_cluster.DescribeClusterRequest(True)),
    Asked("DescribeProducers", apis.DESCRIBE_PRODUCERS, 0,
          lambda _: producers.DescribeProducersRequest(
              [producers.TopicRequest(name, [0]) for name in TOPICS])),
    Asked("DescribeTransactions", apis.DESCRIBE_TRANSACTIONS, 0,
          lambda _: describe_txns.DescribeTransactionsRequest(list(IDS))),
    Asked("ListTransactions", apis.LIST_TRANSACTIONS, 1,
          lambda _: list_txns.ListTransactionsRequest()),
    Asked("ConsumerGroupHeartbeat", apis.CONSUMER_GROUP_HEARTBEAT, 1,
          lambda _: consumer_heartbeat.ConsumerGroupHeartbeatRequest(
              "workers", MEMBER, 5, subscribed_topic_names=["jobs"], rebalance_timeout_ms=10_000)),
    Asked("ConsumerGroupHeartbeat of a missing topic", apis.CONSUMER_GROUP_HEARTBEAT, 1,
          lambda _: consumer_heartbeat.ConsumerGroupHeartbeatRequest(
              "workers", MEMBER, 5, subscribed_topic_names=["missing"])),
    Asked("ConsumerGroupDescribe", apis.CONSUMER_GROUP_DESCRIBE, 1,
          lambda _: consumer_describe.ConsumerGroupDescribeRequest(
              ["workers", "others", "work-readers"], True)),
    Asked("ShareGroupHeartbeat", apis.SHARE_GROUP_HEARTBEAT, 1,
          lambda _: share_heartbeat.ShareGroupHeartbeatRequest(
              "work-none", MEMBER, 5, None, ["jobs"])),
    Asked("ShareGroupHeartbeat of a missing topic", apis.SHARE_GROUP_HEARTBEAT, 1,
          lambda _: share_heartbeat.ShareGroupHeartbeatRequest(
              "work-none", MEMBER, 5, None, ["missing"])),
    Asked("ShareGroupHeartbeat of workers", apis.SHARE_GROUP_HEARTBEAT, 1,
          lambda _: share_heartbeat.ShareGroupHeartbeatRequest(
              "workers", MEMBER, 5, None, ["jobs"])),
    Asked("ShareGroupDescribe", apis.SHARE_GROUP_DESCRIBE, 1,
          lambda _: share_describe.ShareGroupDescribeRequest(
              ["workers", "others", "work-sharers"], True)),
    Asked("ShareFetch", apis.SHARE_FETCH, 1, _share_fetched),
    Asked("ShareAcknowledge", apis.SHARE_ACKNOWLEDGE, 1, _acknowledged),
    Asked("InitializeShareGroupState", apis.INITIALIZE_SHARE_GROUP_STATE, 0,
          lambda ids: initialize.InitializeShareGroupStateRequest("g", [
              initialize.InitializeStateData(NOBODY, [initialize.PartitionData(0, 1, 0)])])),
    Asked("ReadShareGroupState", apis.READ_SHARE_GROUP_STATE, 0,
          lambda ids: read_state.ReadShareGroupStateRequest("g", [
              read_state.ReadStateData(NOBODY, [read_state.PartitionData(0, 1)])])),
    Asked("WriteShareGroupState", apis.WRITE_SHARE_GROUP_STATE, 0,
          lambda ids: write_state.WriteShareGroupStateRequest("g", [
              write_state.WriteStateData(NOBODY, [write_state.PartitionData(0, 1, 1, 0)])])),
    Asked("DeleteShareGroupState", apis.DELETE_SHARE_GROUP_STATE, 0,
          lambda ids: delete_state.DeleteShareGroupStateRequest("g", [
              delete_state.DeleteStateData(NOBODY, [delete_state.PartitionData(0)])])),
    Asked("ReadShareGroupStateSummary", apis.READ_SHARE_GROUP_STATE_SUMMARY, 0,
          lambda ids: summary.ReadShareGroupStateSummaryRequest("g", [
              summary.ReadStateSummaryData(NOBODY, [summary.PartitionData(0, 1)])])),
    Asked("DescribeShareGroupOffsets", apis.DESCRIBE_SHARE_GROUP_OFFSETS, 0,
          lambda _: describe_share.DescribeShareGroupOffsetsRequest([
              describe_share.DescribeShareGroupOffsetsRequestGroup(group, [
                  describe_share.DescribeShareGroupOffsetsRequestTopic(name, [0])
                  for name in TOPICS]) for group in ("work-sharers", "others")])),
    Asked("DescribeShareGroupOffsets of all", apis.DESCRIBE_SHARE_GROUP_OFFSETS, 0,
          lambda _: describe_share.DescribeShareGroupOffsetsRequest([
              describe_share.DescribeShareGroupOffsetsRequestGroup(group, None)
              for group in ("work-sharers", "others")])),
    Asked("AlterShareGroupOffsets", apis.ALTER_SHARE_GROUP_OFFSETS, 0,
          lambda _: alter_share.AlterShareGroupOffsetsRequest("work-altered", [
              alter_share.AlterShareGroupOffsetsRequestTopic(name, [
                  alter_share.AlterShareGroupOffsetsRequestPartition(0, 0)]) for name in TOPICS])),
    Asked("DeleteShareGroupOffsets", apis.DELETE_SHARE_GROUP_OFFSETS, 0,
          lambda _: delete_share.DeleteShareGroupOffsetsRequest("work-altered", [
              delete_share.DeleteShareGroupOffsetsRequestTopic(name) for name in TOPICS])),
    Asked("ListConfigResources", apis.LIST_CONFIG_RESOURCES, 1,
          lambda _: config_resources.ListConfigResourcesRequest([TOPIC, GROUP])),
    Asked("DescribeClientQuotas", apis.DESCRIBE_CLIENT_QUOTAS, 1,
          lambda _: quotas.DescribeClientQuotasRequest()),
    Asked("DescribeTopicPartitions", apis.DESCRIBE_TOPIC_PARTITIONS, 0,
          lambda _: topic_partitions.DescribeTopicPartitionsRequest(
              [topic_partitions.TopicRequest(name) for name in TOPICS])),
    Asked("DescribeTopicPartitions of all", apis.DESCRIBE_TOPIC_PARTITIONS, 0,
          lambda _: topic_partitions.DescribeTopicPartitionsRequest([])),
    Asked("AlterClientQuotas", apis.ALTER_CLIENT_QUOTAS, 1,
          lambda _: alter_quotas.AlterClientQuotasRequest([alter_quotas.AlteredEntry(
              [quotas.EntityData("user", NO_MEMBER)],
              [alter_quotas.AlteredQuota("producer_byte_rate", 1.0)])], True)),
    Asked("DescribeUserScramCredentials", apis.DESCRIBE_USER_SCRAM_CREDENTIALS, 0,
          lambda _: describe_users.DescribeUserScramCredentialsRequest(
              [describe_users.ScramUserName(NO_MEMBER)])),
    Asked("AlterUserScramCredentials", apis.ALTER_USER_SCRAM_CREDENTIALS, 0,
          lambda _: alter_users.AlterUserScramCredentialsRequest(
              [alter_users.ScramCredentialDeletion(NO_MEMBER, 1)], [])),
    Asked("DeleteGroups", apis.DELETE_GROUPS, 2,
          lambda _: delete_groups.DeleteGroupsRequest(["workers", "others"])),
)  # fmt: skip
"""Those of APIs that are not served here yet are kept for the day when they are."""
