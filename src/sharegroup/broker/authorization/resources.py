"""Kafka's terms of authorisation: which type of resource has which operations, and the error of
each type (Kafka class AclEntry)."""

from __future__ import annotations

from typing import Final, NamedTuple

from sharegroup.model import errors
from sharegroup.model.acl import CLUSTER_NAME, AclOperation, AclResource

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of an unauthenticated connection."""


OPERATIONS_NOT_ASKED: Final = -(2**31)
"""AuthorizedOperations of a response if the request did not ask for them."""


Operation = AclOperation
"""ALL occurs only in ACLs, and so do CREATE_TOKENS, DESCRIBE_TOKENS and TWO_PHASE_COMMIT here."""

ResourceType = AclResource
"""No request here asks for a DELEGATION_TOKEN or a USER: there are no tokens. ACLs of them are
kept, as in Kafka."""


class Resource(NamedTuple):
    """A resource by its type and name."""

    type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


def topic(name: str) -> Resource:
    """A topic."""
    return Resource(ResourceType.TOPIC, name)


def group(group_id: str) -> Resource:
    """A group of any type."""
    return Resource(ResourceType.GROUP, group_id)


SUPPORTED: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        Operation.DESCRIBE,
        Operation.WRITE,
        Operation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that each type of resource has (Kafka class AclEntry)."""

REFUSALS: Final[dict[ResourceType, type[errors.KafkaError]]] = {
    ResourceType.TOPIC: errors.TopicAuthorizationFailed,
    ResourceType.GROUP: errors.GroupAuthorizationFailed,
    ResourceType.CLUSTER: errors.ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: errors.TransactionalIdAuthorizationFailed,
}
"""The error for each type of resource that a request can ask for."""
