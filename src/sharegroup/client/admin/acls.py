"""ACLs as the admin client takes and returns them (KIP-11, KIP-290).

The numbers are the protocol's: Kafka classes ResourceType, AclOperation, PatternType.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class AclResource(IntEnum):
    """What an ACL is about. UNKNOWN: a type that this client does not know."""

    UNKNOWN = 0
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """What an ACL allows or denies. UNKNOWN: an operation that this client does not know."""

    UNKNOWN = 0
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPattern(IntEnum):
    """How the name of an ACL is meant.

    LITERAL: as it is, and ``*`` is every name. PREFIXED: every name that begins so. MATCHING, in a
    filter only: every ACL that concerns the resource of this name, by whatever pattern.
    """

    UNKNOWN = 0
    MATCHING = 2
    LITERAL = 3
    PREFIXED = 4


CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Acl:
    """Allows or denies a principal an operation on resources, from a host.

    ``principal`` is ``User:NAME``, or ``User:*`` for everybody; ``host`` an IP address, or ``*``.
    """

    principal: str
    operation: AclOperation
    resource: AclResource
    name: str
    pattern: AclPattern = AclPattern.LITERAL
    host: str = "*"
    allow: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which ACLs are meant; None takes all."""

    principal: str | None = None
    operation: AclOperation | None = None
    resource: AclResource | None = None
    name: str | None = None
    pattern: AclPattern | None = None
    host: str | None = None
    allow: bool | None = None
