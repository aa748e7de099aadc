"""ACLs in the numbers of the protocol (Kafka classes PatternType, AclPermissionType)."""

from __future__ import annotations

from typing import Final, NamedTuple

from sharegroup.broker.authorization.acls import ANY, Acl, as_address
from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType
from sharegroup.wire.internal.security import AclRow

UNKNOWN: Final = 0
EVERY: Final = 1
"""In a filter: any type, operation, permission or pattern."""
MATCHING: Final = 2
"""In a filter: the ACLs of whatever pattern that concern the resource of this name."""
LITERAL: Final = 3
PREFIXED: Final = 4
DENY: Final = 2
ALLOW: Final = 3


class AclFilter(NamedTuple):
    """Which ACLs are meant: EVERY, or None for a text, takes all (Kafka class AclBindingFilter)."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @property
    def unknown_pattern(self) -> bool:
        """Whether the type of resource or the pattern is a number without a meaning."""
        known = EVERY <= self.resource_type <= max(ResourceType)
        return not (known and EVERY <= self.pattern_type <= PREFIXED)

    @property
    def unknown_entry(self) -> bool:
        """Whether the operation or the permission is a number without a meaning."""
        return not (
            EVERY <= self.operation <= max(Operation) and EVERY <= self.permission_type <= ALLOW
        )

    @property
    def exact(self) -> AclRow | None:
        """The one ACL that is meant; None if it could be several."""
        if self.resource_name is None or self.principal is None or self.host is None:
            return None
        numbers = (self.resource_type, self.operation, self.permission_type)
        if EVERY in numbers or self.pattern_type in (EVERY, MATCHING):
            return None
        return AclRow(
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )

    def takes(self, acl: AclRow) -> bool:
        """Whether this ACL is meant."""
        return (
            self.resource_type in (EVERY, acl.resource_type)
            and self.operation in (EVERY, acl.operation)
            and self.permission_type in (EVERY, acl.permission_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._takes_name(acl)
        )

    def _takes_name(self, acl: AclRow) -> bool:
        """Kafka's class ResourcePatternFilter."""
        if self.pattern_type not in (EVERY, MATCHING, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != MATCHING:
            return False
        if acl.pattern_type == PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name == ANY


def row_of(acl: Acl) -> AclRow:
    """An ACL in numbers."""
    return AclRow(
        resource_type=acl.resource.type.value,
        resource_name=acl.resource.name,
        pattern_type=PREFIXED if acl.prefixed else LITERAL,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation.value,
        permission_type=ALLOW if acl.allow else DENY,
    )


def acl_of(row: AclRow) -> Acl:
    """An ACL from its numbers.

    Raises:
        ValueError: one of them has no meaning in an ACL.
    """
    if row.pattern_type not in (LITERAL, PREFIXED) or row.permission_type not in (DENY, ALLOW):
        raise ValueError(f"an ACL of pattern {row.pattern_type}, permission {row.permission_type}")
    return Acl(
        allow=row.permission_type == ALLOW,
        principal=row.principal,
        host=as_address(row.host),
        operation=Operation(row.operation),
        resource=Resource(ResourceType(row.resource_type), row.resource_name),
        prefixed=row.pattern_type == PREFIXED,
    )
