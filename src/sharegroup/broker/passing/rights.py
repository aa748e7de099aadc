"""What a client must be allowed here before its request is passed on: the cluster sees the broker's
own user only. Without one of these rights a request is refused as a whole; its parts are asked
about one by one (``refused_parts``), some of them on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.resources import (
    CLUSTER,
    Operation,
    Resource,
    ResourceType,
    group,
    topic,
)
from sharegroup.broker.internal_topics import IN_CLUSTER_PREFIX
from sharegroup.model.errors import (
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from sharegroup.wire import apis
from sharegroup.wire.apis import Api

Enough: TypeAlias = Callable[[Access], bool]
Need: TypeAlias = tuple[Operation, Resource] | tuple[Operation, Resource, Enough]
"""What is needed, and what is enough instead of that."""
Needs: TypeAlias = Callable[[Any], Iterator[Need]]


def check(access: Access, api: Api, request: Any) -> None:
    """Raise the refusal of the first right that is missing.

    Raises:
        TopicAuthorizationFailed, GroupAuthorizationFailed, ClusterAuthorizationFailed,
        TransactionalIdAuthorizationFailed: the client may not do it.
    """
    for need in NEEDS[api.key](request):
        require(access, need)


def require(access: Access, need: Need) -> None:
    """Check one right; raises as :func:`check`."""
    operation, resource, *instead = need
    _not_ours(resource)
    if not any(enough(access) for enough in instead):
        access.require(operation, resource)


def require_topic(access: Access, operation: Operation | None, name: str) -> None:
    """Check that a client may do this with a topic; None: whatever is not done to the brokers' own.

    Raises:
        TopicAuthorizationFailed: it may not.
    """
    _not_ours(topic(name))
    if operation is not None:
        access.require_topic(operation, name)


def require_delete(access: Access, name: str) -> None:
    """Check that a client may delete a topic: that it may delete all of them is enough.

    Raises:
        TopicAuthorizationFailed: it may not.
    """
    _not_ours(topic(name))
    if not access.allows(Operation.DELETE, CLUSTER):
        access.require_topic(Operation.DELETE, name)


def _not_ours(resource: Resource) -> None:
    refused = _OURS.get(resource.type)
    if refused is not None and resource.name.startswith(IN_CLUSTER_PREFIX):
        raise refused(f"{resource.name} belongs to the brokers themselves")


_OURS: Final = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}
"""What nobody may have whose name begins as those of the brokers' own, and how it is refused."""


def _transactional(name: str) -> Need:
    return Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, name)


def _produce(request: Any) -> Iterator[Need]:
    """Each topic is checked on the way."""
    if request.transactional_id:
        yield _transactional(request.transactional_id)


def _member(request: Any) -> Iterator[Need]:
    yield Operation.READ, group(request.group_id)


def _consumer_heartbeat(request: Any) -> Iterator[Need]:
    yield from _member(request)
    for name in request.subscribed_topic_names or ():
        yield Operation.DESCRIBE, topic(name)


def _offset_fetch(request: Any) -> Iterator[Need]:
    if not request.groups:  # it names one, as requests did before version 8
        yield Operation.DESCRIBE, group(request.group_id)


def _offset_delete(request: Any) -> Iterator[Need]:
    yield Operation.DELETE, group(request.group_id)


def _init_producer_id(request: Any) -> Iterator[Need]:
    if request.transactional_id is None:
        yield (
            Operation.IDEMPOTENT_WRITE,
            CLUSTER,
            lambda access: access.allows_any(Operation.WRITE, ResourceType.TOPIC),
        )
    else:
        yield _transactional(request.transactional_id)


def _add_partitions(request: Any) -> Iterator[Need]:
    if request.transactions:  # from version 4 on: brokers ask
        yield Operation.CLUSTER_ACTION, CLUSTER
        return
    yield _transactional(request.v3_and_below_transactional_id)


def _add_offsets(request: Any) -> Iterator[Need]:
    yield _transactional(request.transactional_id)
    yield Operation.READ, group(request.group_id)


def _end_txn(request: Any) -> Iterator[Need]:
    yield _transactional(request.transactional_id)


def _txn_offset_commit(request: Any) -> Iterator[Need]:
    yield _transactional(request.transactional_id)
    yield from _member(request)


def _describe_cluster(_request: Any) -> Iterator[Need]:
    yield Operation.DESCRIBE, CLUSTER


def _alter_cluster(_request: Any) -> Iterator[Need]:
    """As in Kafka, for any topic: replicas of the brokers' own ones may be moved, too."""
    yield Operation.ALTER, CLUSTER


def _write_markers(_request: Any) -> Iterator[Need]:
    yield (
        Operation.CLUSTER_ACTION,
        CLUSTER,
        lambda access: access.allows(Operation.ALTER, CLUSTER),
    )


def _each_alone(_request: Any) -> Iterator[Need]:
    """Each topic, group or resource on its own: ``refused_parts``, or the way of the request."""
    return iter(())


NEEDS: Final[dict[int, Needs]] = {
    apis.PRODUCE.key: _produce,
    apis.OFFSET_COMMIT.key: _member,
    apis.OFFSET_FETCH.key: _offset_fetch,
    apis.OFFSET_DELETE.key: _offset_delete,
    apis.JOIN_GROUP.key: _member,
    apis.SYNC_GROUP.key: _member,
    apis.HEARTBEAT.key: _member,
    apis.LEAVE_GROUP.key: _member,
    apis.CONSUMER_GROUP_HEARTBEAT.key: _consumer_heartbeat,
    apis.INIT_PRODUCER_ID.key: _init_producer_id,
    apis.ADD_PARTITIONS_TO_TXN.key: _add_partitions,
    apis.ADD_OFFSETS_TO_TXN.key: _add_offsets,
    apis.END_TXN.key: _end_txn,
    apis.TXN_OFFSET_COMMIT.key: _txn_offset_commit,
    apis.CREATE_TOPICS.key: _each_alone,
    apis.DELETE_TOPICS.key: _each_alone,
    apis.CREATE_PARTITIONS.key: _each_alone,
    apis.DESCRIBE_GROUPS.key: _each_alone,
    apis.CONSUMER_GROUP_DESCRIBE.key: _each_alone,
    apis.OFFSET_FOR_LEADER_EPOCH.key: _each_alone,
    apis.DESCRIBE_PRODUCERS.key: _each_alone,
    apis.DESCRIBE_TRANSACTIONS.key: _each_alone,
    apis.INCREMENTAL_ALTER_CONFIGS.key: _each_alone,
    apis.ALTER_CONFIGS.key: _each_alone,
    apis.DESCRIBE_LOG_DIRS.key: _describe_cluster,
    apis.ELECT_LEADERS.key: _alter_cluster,
    apis.ALTER_PARTITION_REASSIGNMENTS.key: _alter_cluster,
    apis.LIST_PARTITION_REASSIGNMENTS.key: _describe_cluster,
    apis.WRITE_TXN_MARKERS.key: _write_markers,
    apis.LIST_GROUPS.key: _each_alone,
    apis.LIST_TRANSACTIONS.key: _each_alone,
    apis.DELETE_GROUPS.key: _each_alone,
    apis.DESCRIBE_CONFIGS.key: _each_alone,
}
"""By API key; every API that is passed on is in it."""
