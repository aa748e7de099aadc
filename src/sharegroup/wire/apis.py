"""The APIs we know: key, name, message classes.

The broker's own table (``broker.network.api_table``) says which APIs it serves. Message modules are
imported on first use: starting a broker or an executor does not pay for APIs that it never sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from sharegroup.wire.schema import Message


@dataclass(frozen=True)
class Api:
    """One Kafka API."""

    key: int
    name: str
    module: str

    def _message(self, suffix: str) -> type[Message]:
        kind: type[Message] = getattr(
            import_module(f"sharegroup.wire.messages.{self.module}"), self.name + suffix
        )
        return kind

    @cached_property
    def request(self) -> type[Message]:
        """The request's class, for all versions."""
        return self._message("Request")

    @cached_property
    def response(self) -> type[Message]:
        """The response's class, for all versions."""
        return self._message("Response")

    def request_flexible(self, version: int) -> bool:
        """Whether the request and its header carry tagged fields (KIP-482)."""
        return version >= self.request.FLEXIBLE

    def response_header_flexible(self, version: int) -> bool:
        """Whether the response header carries tagged fields; never for ApiVersions (KIP-511)."""
        return self.key != 18 and version >= self.response.FLEXIBLE


PRODUCE = Api(0, "Produce", "produce")
FETCH = Api(1, "Fetch", "fetch")
LIST_OFFSETS = Api(2, "ListOffsets", "list_offsets")
METADATA = Api(3, "Metadata", "metadata")
OFFSET_COMMIT = Api(8, "OffsetCommit", "offset_commit")
OFFSET_FETCH = Api(9, "OffsetFetch", "offset_fetch")
FIND_COORDINATOR = Api(10, "FindCoordinator", "find_coordinator")
JOIN_GROUP = Api(11, "JoinGroup", "join_group")
HEARTBEAT = Api(12, "Heartbeat", "heartbeat")
LEAVE_GROUP = Api(13, "LeaveGroup", "leave_group")
SYNC_GROUP = Api(14, "SyncGroup", "sync_group")
DESCRIBE_GROUPS = Api(15, "DescribeGroups", "describe_groups")
LIST_GROUPS = Api(16, "ListGroups", "list_groups")
SASL_HANDSHAKE = Api(17, "SaslHandshake", "sasl_handshake")
API_VERSIONS = Api(18, "ApiVersions", "api_versions")
CREATE_TOPICS = Api(19, "CreateTopics", "create_topics")
DELETE_TOPICS = Api(20, "DeleteTopics", "delete_topics")
DELETE_RECORDS = Api(21, "DeleteRecords", "delete_records")
INIT_PRODUCER_ID = Api(22, "InitProducerId", "init_producer_id")
OFFSET_FOR_LEADER_EPOCH = Api(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch")
ADD_PARTITIONS_TO_TXN = Api(24, "AddPartitionsToTxn", "add_partitions_to_txn")
ADD_OFFSETS_TO_TXN = Api(25, "AddOffsetsToTxn", "add_offsets_to_txn")
END_TXN = Api(26, "EndTxn", "end_txn")
WRITE_TXN_MARKERS = Api(27, "WriteTxnMarkers", "write_txn_markers")
TXN_OFFSET_COMMIT = Api(28, "TxnOffsetCommit", "txn_offset_commit")
DESCRIBE_ACLS = Api(29, "DescribeAcls", "describe_acls")
CREATE_ACLS = Api(30, "CreateAcls", "create_acls")
DELETE_ACLS = Api(31, "DeleteAcls", "delete_acls")
DESCRIBE_CONFIGS = Api(32, "DescribeConfigs", "describe_configs")
ALTER_CONFIGS = Api(33, "AlterConfigs", "alter_configs")
DESCRIBE_LOG_DIRS = Api(35, "DescribeLogDirs", "describe_log_dirs")
SASL_AUTHENTICATE = Api(36, "SaslAuthenticate", "sasl_authenticate")
CREATE_PARTITIONS = Api(37, "CreatePartitions", "create_partitions")
DELETE_GROUPS = Api(42, "DeleteGroups", "delete_groups")
ELECT_LEADERS = Api(43, "ElectLeaders", "elect_leaders")
INCREMENTAL_ALTER_CONFIGS = Api(44, "IncrementalAlterConfigs", "incremental_alter_configs")
ALTER_PARTITION_REASSIGNMENTS = Api(
    45, "AlterPartitionReassignments", "alter_partition_reassignments"
)
LIST_PARTITION_REASSIGNMENTS = Api(46, "ListPartitionReassignments", "list_partition_reassignments")
OFFSET_DELETE = Api(47, "OffsetDelete", "offset_delete")
DESCRIBE_CLIENT_QUOTAS = Api(48, "DescribeClientQuotas", "describe_client_quotas")
ALTER_CLIENT_QUOTAS = Api(49, "AlterClientQuotas", "alter_client_quotas")
DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    50, "DescribeUserScramCredentials", "describe_user_scram_credentials"
)
ALTER_USER_SCRAM_CREDENTIALS = Api(51, "AlterUserScramCredentials", "alter_user_scram_credentials")
UPDATE_FEATURES = Api(57, "UpdateFeatures", "update_features")
DESCRIBE_CLUSTER = Api(60, "DescribeCluster", "describe_cluster")
DESCRIBE_PRODUCERS = Api(61, "DescribeProducers", "describe_producers")
UNREGISTER_BROKER = Api(64, "UnregisterBroker", "unregister_broker")
DESCRIBE_TRANSACTIONS = Api(65, "DescribeTransactions", "describe_transactions")
LIST_TRANSACTIONS = Api(66, "ListTransactions", "list_transactions")
CONSUMER_GROUP_HEARTBEAT = Api(68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat")
CONSUMER_GROUP_DESCRIBE = Api(69, "ConsumerGroupDescribe", "consumer_group_describe")
LIST_CONFIG_RESOURCES = Api(74, "ListConfigResources", "list_config_resources")
DESCRIBE_TOPIC_PARTITIONS = Api(75, "DescribeTopicPartitions", "describe_topic_partitions")
SHARE_GROUP_HEARTBEAT = Api(76, "ShareGroupHeartbeat", "share_group_heartbeat")
SHARE_GROUP_DESCRIBE = Api(77, "ShareGroupDescribe", "share_group_describe")
SHARE_FETCH = Api(78, "ShareFetch", "share_fetch")
SHARE_ACKNOWLEDGE = Api(79, "ShareAcknowledge", "share_acknowledge")
INITIALIZE_SHARE_GROUP_STATE = Api(83, "InitializeShareGroupState", "initialize_share_group_state")
READ_SHARE_GROUP_STATE = Api(84, "ReadShareGroupState", "read_share_group_state")
WRITE_SHARE_GROUP_STATE = Api(85, "WriteShareGroupState", "write_share_group_state")
DELETE_SHARE_GROUP_STATE = Api(86, "DeleteShareGroupState", "delete_share_group_state")
READ_SHARE_GROUP_STATE_SUMMARY = Api(
    87, "ReadShareGroupStateSummary", "read_share_group_state_summary"
)
DESCRIBE_SHARE_GROUP_OFFSETS = Api(90, "DescribeShareGroupOffsets", "describe_share_group_offsets")
ALTER_SHARE_GROUP_OFFSETS = Api(91, "AlterShareGroupOffsets", "alter_share_group_offsets")
DELETE_SHARE_GROUP_OFFSETS = Api(92, "DeleteShareGroupOffsets", "delete_share_group_offsets")

APIS: dict[int, Api] = {api.key: api for api in list(globals().values()) if isinstance(api, Api)}
