"""The words of ACLs: what they are about, and what they allow or deny (KIP-11, KIP-290).

The numbers are the protocol's: Kafka classes ResourceType, AclOperation, PatternType,
AclPermissionType.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeVar


class AclResource(IntEnum):
    """What an ACL is about. UNKNOWN: a number without a meaning here."""

    UNKNOWN = 0
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """What an ACL allows or denies. UNKNOWN: a number without a meaning here."""

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

    LITERAL: as it is, and ``*`` is every name. PREFIXED: every name that begins with it. MATCHING,
    in a filter only: every ACL that concerns the resource of this name, by whatever pattern.
    """

    UNKNOWN = 0
    MATCHING = 2
    LITERAL = 3
    PREFIXED = 4


UNKNOWN: Final = 0
EVERY: Final = 1
"""In a filter: any type, operation, permission or pattern."""
DENY: Final = 2
ALLOW: Final = 3
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

AclWord = TypeVar("AclWord", AclResource, AclOperation, AclPattern)


def with_a_meaning(words: type[AclWord]) -> list[AclWord]:
    """All words but UNKNOWN: the words that an ACL, or a filter, may have."""
    return [word for word in words if word is not words.UNKNOWN]


def of_number(words: type[AclWord], number: int) -> AclWord:
    """The word of a number of the protocol; UNKNOWN if no word has this number."""
    return next((word for word in words if word == number), words.UNKNOWN)
