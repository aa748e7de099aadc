"""The one table of what this broker serves: API, versions, handler, size limit, and one line for
the docs.

ApiVersions, dispatch and ``docs/apis.md`` read it. The table names each handler and imports it on
first use, so that a broker starts fast. :func:`load_all` imports the rest between requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import KafkaError, MalformedMessage
from sharegroup.model.limits import (
    ACKNOWLEDGING_REQUEST_BYTES_MAX,
    ASSIGNING_REQUEST_BYTES_MAX,
    FRAME_BYTES_MAX,
    SMALL_REQUEST_BYTES_MAX,
)
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.api_versions import ApiVersion
from sharegroup.wire.refusal import refuser
from sharegroup.wire.schema import Versions

Handler = Callable[[BrokerParts, Any, RequestContext], Awaitable[Any]]
"""``async (parts, request, context) -> response``, or None for no answer."""


@dataclass(frozen=True)
class ServedApi:
    """One row. ``handler_name``: its room and its function, as ``log.produce``."""

    api: Api
    versions: Versions
    handler_name: str
    request_bytes_max: int
    doc: str

    @cached_property
    def _module(self) -> ModuleType:
        return import_module(f"sharegroup.broker.handlers.{self.handler_name}")

    @cached_property
    def handler(self) -> Handler:
        """The handler, imported on first use."""
        handler: Handler = getattr(self._module, self.handler_name.rpartition(".")[2])
        return handler

    def failure(self, request: Any, error: KafkaError) -> Any:
        """The response that reports ``error`` for the whole request.

        A handler has its own ``failure(request, error)`` beside it if the response has an error of
        its own that is not enough, or if a refusal says more than the error.
        """
        if hasattr(self._module, "failure"):
            return self._module.failure(request, error)
        response: Any = self.api.response()
        names = {f.name for f in fields(response)}
        if "error_code" not in names:
            return refuser(self.api.response)(request, error)
        response.error_code = error.code
        if "error_message" in names:
            response.error_message = error.message
        return response


def _row(
    api: Api,
    first: int,
    last: int,
    handler_name: str,
    doc: str,
    request_bytes_max: int = SMALL_REQUEST_BYTES_MAX,
) -> ServedApi:
    return ServedApi(api, Versions(first, last), handler_name, request_bytes_max, doc)


API_TABLE: dict[int, ServedApi] = {
    row.api.key: row
    for row in (
        _row(apis.PRODUCE, 3, 13, "log.produce", "append record batches", FRAME_BYTES_MAX),
        _row(apis.FETCH, 4, 17, "log.fetch", "read record batches; incremental sessions"),
        _row(
            apis.LIST_OFFSETS,
            1,
            11,
            "log.list_offsets",
            "offsets by time: earliest, latest, max, any",
        ),
        _row(apis.METADATA, 0, 13, "topics.metadata", "brokers, topics, partitions"),
        _row(apis.OFFSET_COMMIT, 2, 10, "offsets.offset_commit", "commit offsets of a group"),
        _row(apis.OFFSET_FETCH, 1, 10, "offsets.offset_fetch", "committed offsets of groups"),
        _row(
            apis.FIND_COORDINATOR,
            0,
            6,
            "groups.find_coordinator",
            "this node, for keys of every type",
        ),
        _row(
            apis.JOIN_GROUP, 0, 9, "groups.join_group", "join a classic group, and each rebalance"
        ),
        _row(apis.HEARTBEAT, 0, 4, "groups.heartbeat", "stay in a classic group"),
        _row(
            apis.LEAVE_GROUP,
            0,
            5,
            "groups.leave_group",
            "leave a classic group; remove its members",
        ),
        _row(
            apis.SYNC_GROUP,
            0,
            5,
            "groups.sync_group",
            "assignments of a classic group",
            ASSIGNING_REQUEST_BYTES_MAX,
        ),
        _row(apis.DESCRIBE_GROUPS, 0, 6, "groups.describe_groups", "members of classic groups"),
        _row(apis.LIST_GROUPS, 0, 5, "groups.list_groups", "groups by state and type"),
        _row(apis.API_VERSIONS, 0, 5, "cluster.api_versions", "this table, and the features"),
        _row(apis.SASL_HANDSHAKE, 0, 1, "security.sasl_handshake", "choose a SASL mechanism"),
        _row(apis.CREATE_TOPICS, 2, 7, "topics.create_topics", "create topics"),
        _row(apis.DELETE_TOPICS, 1, 6, "topics.delete_topics", "delete topics, by name or id"),
        _row(apis.DELETE_RECORDS, 0, 2, "log.delete_records", "move the log start"),
        _row(
            apis.INIT_PRODUCER_ID,
            0,
            5,
            "transactions.init_producer_id",
            "a producer id, for idempotence or transactions",
        ),
        _row(
            apis.OFFSET_FOR_LEADER_EPOCH,
            2,
            4,
            "log.offset_for_leader_epoch",
            "where a leader epoch ends; there is one epoch",
        ),
        _row(
            apis.ADD_PARTITIONS_TO_TXN,
            0,
            5,
            "transactions.add_partitions_to_txn",
            "partitions of a transaction; brokers may verify them",
        ),
        _row(
            apis.ADD_OFFSETS_TO_TXN,
            0,
            4,
            "transactions.add_offsets_to_txn",
            "group offsets of a transaction",
        ),
        _row(apis.END_TXN, 0, 5, "transactions.end_txn", "commit or abort a transaction"),
        _row(
            apis.WRITE_TXN_MARKERS,
            1,
            2,
            "transactions.write_txn_markers",
            "end transactions by hand",
        ),
        _row(
            apis.TXN_OFFSET_COMMIT,
            0,
            6,
            "transactions.txn_offset_commit",
            "commit offsets in a transaction",
        ),
        _row(apis.DESCRIBE_ACLS, 1, 3, "security.describe_acls", "the ACLs in force"),
        _row(apis.CREATE_ACLS, 1, 3, "security.create_acls", "make ACLs"),
        _row(apis.DELETE_ACLS, 1, 3, "security.delete_acls", "delete ACLs"),
        _row(
            apis.DESCRIBE_CONFIGS,
            1,
            4,
            "cluster.describe_configs",
            "topic, broker and group configs",
        ),
        _row(
            apis.ALTER_CONFIGS,
            0,
            2,
            "cluster.alter_configs",
            "replace topic, broker and group configs",
        ),
        _row(
            apis.DESCRIBE_LOG_DIRS,
            1,
            5,
            "topics.describe_log_dirs",
            "the data folder, partitions' sizes",
        ),
        _row(apis.SASL_AUTHENTICATE, 0, 2, "security.sasl_authenticate", "prove who the client is"),
        _row(apis.CREATE_PARTITIONS, 0, 3, "topics.create_partitions", "add partitions to a topic"),
        _row(apis.DELETE_GROUPS, 0, 3, "groups.delete_groups", "delete empty groups"),
        _row(
            apis.ELECT_LEADERS,
            0,
            2,
            "topics.elect_leaders",
            "elect leaders; a single node leads everything already",
        ),
        _row(
            apis.INCREMENTAL_ALTER_CONFIGS,
            0,
            1,
            "cluster.incremental_alter_configs",
            "change topic, broker and group configs",
        ),
        _row(
            apis.ALTER_PARTITION_REASSIGNMENTS,
            0,
            1,
            "topics.alter_partition_reassignments",
            "move replicas; a single node has all of them already",
        ),
        _row(
            apis.LIST_PARTITION_REASSIGNMENTS,
            0,
            0,
            "topics.list_partition_reassignments",
            "replicas that are being moved; a single node has none",
        ),
        _row(
            apis.OFFSET_DELETE, 0, 0, "offsets.offset_delete", "delete committed offsets of a group"
        ),
        _row(
            apis.DESCRIBE_CLIENT_QUOTAS,
            0,
            1,
            "cluster.describe_client_quotas",
            "quotas of users, client ids and addresses",
        ),
        _row(
            apis.ALTER_CLIENT_QUOTAS, 0, 1, "cluster.alter_client_quotas", "set and remove quotas"
        ),
        _row(
            apis.DESCRIBE_USER_SCRAM_CREDENTIALS,
            0,
            0,
            "security.describe_user_scram_credentials",
            "users of SCRAM: mechanisms and iterations",
        ),
        _row(
            apis.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            0,
            "security.alter_user_scram_credentials",
            "create, change, delete users of SCRAM",
        ),
        _row(
            apis.UPDATE_FEATURES, 0, 2, "cluster.update_features", "confirm the levels of features"
        ),
        _row(
            apis.DESCRIBE_CLUSTER,
            0,
            2,
            "cluster.describe_cluster",
            "cluster id, controller, brokers",
        ),
        _row(
            apis.DESCRIBE_PRODUCERS,
            0,
            0,
            "transactions.describe_producers",
            "a partition's producers and their open transactions",
        ),
        _row(
            apis.UNREGISTER_BROKER, 0, 0, "cluster.unregister_broker", "refused: there is one node"
        ),
        _row(
            apis.DESCRIBE_TRANSACTIONS,
            0,
            0,
            "transactions.describe_transactions",
            "transactional ids",
        ),
        _row(
            apis.LIST_TRANSACTIONS,
            0,
            2,
            "transactions.list_transactions",
            "transactional ids by state, producer, duration and pattern",
        ),
        _row(
            apis.CONSUMER_GROUP_HEARTBEAT,
            0,
            1,
            "groups.consumer_group_heartbeat",
            "join, stay in, leave a consumer group",
        ),
        _row(
            apis.CONSUMER_GROUP_DESCRIBE,
            0,
            1,
            "groups.consumer_group_describe",
            "members of consumer groups, what they have and shall have",
        ),
        _row(
            apis.LIST_CONFIG_RESOURCES,
            0,
            1,
            "cluster.list_config_resources",
            "topics, brokers and groups that have configs",
        ),
        _row(
            apis.DESCRIBE_TOPIC_PARTITIONS,
            0,
            0,
            "topics.describe_topic_partitions",
            "topics' partitions, page by page",
        ),
        _row(
            apis.SHARE_GROUP_HEARTBEAT,
            1,
            1,
            "share.share_group_heartbeat",
            "join, stay in, leave a share group",
        ),
        _row(
            apis.SHARE_GROUP_DESCRIBE, 1, 1, "share.share_group_describe", "members and assignments"
        ),
        _row(
            apis.SHARE_FETCH,
            1,
            2,
            "share.share_fetch",
            "acquire records",
            ACKNOWLEDGING_REQUEST_BYTES_MAX,
        ),
        _row(
            apis.SHARE_ACKNOWLEDGE,
            1,
            2,
            "share.share_acknowledge",
            "accept, release, reject, renew",
            ACKNOWLEDGING_REQUEST_BYTES_MAX,
        ),
        _row(
            apis.INITIALIZE_SHARE_GROUP_STATE,
            0,
            0,
            "state.initialize_share_group_state",
            "peers: begin delivery state",
        ),
        _row(
            apis.READ_SHARE_GROUP_STATE,
            0,
            0,
            "state.read_share_group_state",
            "peers: load delivery state",
        ),
        _row(
            apis.WRITE_SHARE_GROUP_STATE,
            0,
            1,
            "state.write_share_group_state",
            "peers: make delivery state durable",
        ),
        _row(
            apis.DELETE_SHARE_GROUP_STATE,
            0,
            0,
            "state.delete_share_group_state",
            "peers: forget delivery state",
        ),
        _row(
            apis.READ_SHARE_GROUP_STATE_SUMMARY,
            0,
            1,
            "state.read_share_group_state_summary",
            "peers: epochs, start offset and count",
        ),
        _row(
            apis.DESCRIBE_SHARE_GROUP_OFFSETS,
            0,
            1,
            "share.describe_share_group_offsets",
            "start offset, lag, in-flight count; on request the state of each record in flight",
        ),
        _row(
            apis.ALTER_SHARE_GROUP_OFFSETS,
            0,
            0,
            "share.alter_share_group_offsets",
            "let an empty share group begin anew",
        ),
        _row(
            apis.DELETE_SHARE_GROUP_OFFSETS,
            0,
            0,
            "share.delete_share_group_offsets",
            "forget an empty share group's offsets in topics",
        ),
    )
}


def served_apis() -> list[ApiVersion]:
    """The APIs and versions that this broker serves, for ApiVersions.

    Produce is announced from version 0 on, as by Kafka (KAFKA-18659). To a broker that does not
    announce version 0, librdkafka up to 2.8, and so clients in many languages, sends records
    uncompressed.
    """
    return [
        ApiVersion(
            served.api.key,
            0 if served.api == apis.PRODUCE else served.versions.first,
            served.versions.last,
        )
        for served in API_TABLE.values()
    ]


def check_length(key: int, version: int, length: int) -> None:
    """Refuse a too long request from its first bytes, before the rest has arrived.

    Raises:
        MalformedMessage: it is longer than its API allows.
    """
    served = API_TABLE.get(key)
    if served is None or version not in served.versions:
        name, most = f"API key {key} version {version}", SMALL_REQUEST_BYTES_MAX
    else:
        name, most = served.api.name, served.request_bytes_max
    if length > most:
        raise MalformedMessage(f"a {name} request of {length} bytes; the limit is {most}")


NEEDS_SHARE_VERSION: Final = frozenset(
    api.key
    for api in (
        apis.SHARE_GROUP_HEARTBEAT,
        apis.SHARE_GROUP_DESCRIBE,
        apis.SHARE_FETCH,
        apis.SHARE_ACKNOWLEDGE,
        apis.DESCRIBE_SHARE_GROUP_OFFSETS,
        apis.ALTER_SHARE_GROUP_OFFSETS,
        apis.DELETE_SHARE_GROUP_OFFSETS,
    )
)
"""Keys of the APIs that ``share.version`` 0 switches off, as in Kafka."""

CARRIES_ACKNOWLEDGEMENTS: Final = frozenset(
    api.key for api in (apis.SHARE_FETCH, apis.SHARE_ACKNOWLEDGE)
)
"""Keys of the APIs whose request size is bounded by the number of records in flight."""

CARRIES_RECORDS: Final = frozenset(
    api.key.to_bytes(2, "big") for api in (apis.FETCH, apis.SHARE_FETCH)
)
"""API keys, as the first bytes of a frame, whose answers carry records and can be large."""


async def load_all() -> None:
    """Import the messages and the handler of each API, one API at a time between requests.

    Later the process may have no file descriptor left, and an import would fail.
    """
    for served in API_TABLE.values():
        served.api.request, served.api.response, served.handler  # noqa: B018
        await asyncio.sleep(0)
