"""Which versions of each API the client can speak; a connection uses the highest that the broker
has as well.

Produce stops before 13, where topics are named by id: a producer knows its topics by name.
OffsetFetch stops before 10 for the same reason. Fetch and OffsetCommit go on: who asks by name
sends them with ``version_max=LAST_BY_NAME[api]``. The versions of AddPartitionsToTxn from 4 on are
for brokers only.
"""

from __future__ import annotations

from typing import Final

from sharegroup.wire import apis
from sharegroup.wire.apis import Api

LAST_BY_NAME: Final[dict[Api, int]] = {apis.FETCH: 12, apis.OFFSET_COMMIT: 9}
"""The last versions that name topics by their names."""

CLIENT_VERSIONS: Final[dict[Api, tuple[int, int]]] = {
    apis.PRODUCE: (3, 12),
    apis.FETCH: (4, 17),
    apis.LIST_OFFSETS: (1, 10),
    apis.METADATA: (1, 13),
    apis.OFFSET_COMMIT: (2, 10),
    apis.OFFSET_FETCH: (1, 9),
    apis.FIND_COORDINATOR: (0, 6),
    apis.JOIN_GROUP: (0, 9),
    apis.HEARTBEAT: (0, 4),
    apis.LEAVE_GROUP: (0, 5),
    apis.SYNC_GROUP: (0, 5),
    apis.LIST_GROUPS: (0, 5),
    apis.DESCRIBE_GROUPS: (0, 6),
    apis.API_VERSIONS: (0, 4),
    apis.CREATE_TOPICS: (2, 7),
    apis.DELETE_TOPICS: (1, 6),
    apis.DELETE_RECORDS: (0, 2),
    apis.INIT_PRODUCER_ID: (0, 5),
    apis.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    apis.ADD_PARTITIONS_TO_TXN: (0, 3),
    apis.ADD_OFFSETS_TO_TXN: (0, 4),
    apis.END_TXN: (0, 5),
    apis.WRITE_TXN_MARKERS: (1, 2),
    apis.TXN_OFFSET_COMMIT: (0, 5),
    apis.DESCRIBE_ACLS: (1, 3),
    apis.CREATE_ACLS: (1, 3),
    apis.DELETE_ACLS: (1, 3),
    apis.DESCRIBE_CONFIGS: (1, 4),
    apis.CREATE_PARTITIONS: (0, 3),
    apis.DELETE_GROUPS: (0, 3),
    apis.OFFSET_DELETE: (0, 0),
    apis.ALTER_CONFIGS: (0, 2),
    apis.DESCRIBE_LOG_DIRS: (1, 5),
    apis.ELECT_LEADERS: (0, 2),
    apis.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    apis.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    apis.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    apis.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    apis.ALTER_CLIENT_QUOTAS: (0, 1),
    apis.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    apis.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    apis.DESCRIBE_CLUSTER: (0, 1),
    apis.DESCRIBE_PRODUCERS: (0, 0),
    apis.DESCRIBE_TRANSACTIONS: (0, 0),
    apis.LIST_TRANSACTIONS: (0, 2),
    apis.CONSUMER_GROUP_HEARTBEAT: (1, 1),
    apis.CONSUMER_GROUP_DESCRIBE: (0, 1),
    apis.LIST_CONFIG_RESOURCES: (1, 1),
    apis.SHARE_GROUP_HEARTBEAT: (1, 1),
    apis.SHARE_GROUP_DESCRIBE: (1, 1),
    apis.SHARE_FETCH: (1, 2),
    apis.SHARE_ACKNOWLEDGE: (1, 2),
    apis.INITIALIZE_SHARE_GROUP_STATE: (0, 0),
    apis.READ_SHARE_GROUP_STATE: (0, 0),
    apis.WRITE_SHARE_GROUP_STATE: (0, 1),
    apis.DELETE_SHARE_GROUP_STATE: (0, 0),
    apis.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1),
    apis.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    apis.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    apis.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
}
