"""The one table of what is passed on to the cluster, and how. All other requests are answered
here."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.passing import groups, log_dirs, logs, offsets, topics
from sharegroup.broker.passing.passing import Way
from sharegroup.wire import apis

WAYS: Final[dict[int, Way]] = {
    apis.PRODUCE.key: logs.produce,
    apis.OFFSET_FOR_LEADER_EPOCH.key: logs.leader_epochs,
    apis.DESCRIBE_PRODUCERS.key: logs.describe_producers,
    apis.JOIN_GROUP.key: groups.by_group,
    apis.SYNC_GROUP.key: groups.by_group,
    apis.HEARTBEAT.key: groups.by_group,
    apis.LEAVE_GROUP.key: groups.by_group,
    apis.CONSUMER_GROUP_HEARTBEAT.key: groups.consumer_heartbeat,
    apis.OFFSET_COMMIT.key: groups.by_group,
    apis.OFFSET_DELETE.key: groups.by_group,
    apis.TXN_OFFSET_COMMIT.key: groups.by_group,
    apis.OFFSET_FETCH.key: offsets.offset_fetch,
    apis.LIST_GROUPS.key: groups.list_groups,
    apis.DESCRIBE_GROUPS.key: groups.describe_groups,
    apis.CONSUMER_GROUP_DESCRIBE.key: groups.describe_consumer_groups,
    apis.DELETE_GROUPS.key: groups.delete_groups,
    apis.INIT_PRODUCER_ID.key: groups.by_transaction,
    apis.ADD_PARTITIONS_TO_TXN.key: groups.by_transaction,
    apis.ADD_OFFSETS_TO_TXN.key: groups.by_transaction,
    apis.END_TXN.key: groups.by_transaction,
    apis.LIST_TRANSACTIONS.key: groups.list_transactions,
    apis.DESCRIBE_TRANSACTIONS.key: groups.describe_transactions,
    apis.CREATE_TOPICS.key: topics.create,
    apis.DELETE_TOPICS.key: topics.delete,
    apis.CREATE_PARTITIONS.key: topics.change,
    apis.ELECT_LEADERS.key: topics.by_controller,
    apis.ALTER_PARTITION_REASSIGNMENTS.key: topics.by_controller,
    apis.LIST_PARTITION_REASSIGNMENTS.key: topics.by_controller,
    apis.DESCRIBE_CONFIGS.key: topics.describe_configs,
    apis.INCREMENTAL_ALTER_CONFIGS.key: topics.change_configs,
    apis.ALTER_CONFIGS.key: topics.replace_configs,
    apis.DESCRIBE_LOG_DIRS.key: log_dirs.describe_log_dirs,
    apis.WRITE_TXN_MARKERS.key: logs.write_markers,
}
"""By API key."""
