"""ACLs in the numbers of the protocol (Kafka classes PatternType, AclPermissionType)."""

from __future__ import annotations

from typing import Final, NamedTuple

from sharegroup.broker.authorization.acls import ANY, AclRule, as_address
from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType
from sharegroup.model.acl import ALLOW, DENY, EVERY, AclPattern, with_a_meaning
from sharegroup.wire.internal.security import AclRow


class AclRowFilter(NamedTuple):
    """A filter of ACLs. A number EVERY, or None in place of a text, takes all (Kafka class
    AclBindingFilter)."""

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
        return not (known and EVERY <= self.pattern_type <= AclPattern.PREFIXED)

    @property
    def unknown_entry(self) -> bool:
        """Whether the operation or the permission is a number without a meaning."""
        return not (
            EVERY <= self.operation <= max(Operation) and EVERY <= self.permission_type <= ALLOW
        )

    @property
    def exact(self) -> AclRow | None:
        """The only ACL that the filter can take; None if it could take several."""
        if self.resource_name is None or self.principal is None or self.host is None:
            return None
        numbers = (self.resource_type, self.operation, self.permission_type)
        if EVERY in numbers or self.pattern_type in (EVERY, AclPattern.MATCHING):
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
        """Whether the filter takes this ACL."""
        return (
            self.resource_type in (EVERY, acl.resource_type)
            and self.operation in (EVERY, acl.operation)
            and self.permission_type in (EVERY, acl.permission_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._takes_name(acl)
        )

    def _takes_name(self, acl: AclRow) -> bool:
        """Whether the filter takes the ACL's resource (Kafka class ResourcePatternFilter)."""
        if self.pattern_type not in (EVERY, AclPattern.MATCHING, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != AclPattern.MATCHING:
            return False
        if acl.pattern_type == AclPattern.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name == ANY


_OPERATIONS: Final = {int(operation): operation for operation in with_a_meaning(Operation)}
_TYPES: Final = {int(kind): kind for kind in with_a_meaning(ResourceType)}


def row_of(acl: AclRule) -> AclRow:
    """An ACL in numbers."""
    return AclRow(
        resource_type=acl.resource.type.value,
        resource_name=acl.resource.name,
        pattern_type=AclPattern.PREFIXED if acl.prefixed else AclPattern.LITERAL,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation.value,
        permission_type=ALLOW if acl.allow else DENY,
    )


def acl_of(row: AclRow) -> AclRule:
    """An ACL from its numbers.

    Raises:
        ValueError: a number has no meaning in an ACL.
    """
    operation = _OPERATIONS.get(row.operation)
    kind = _TYPES.get(row.resource_type)
    if (
        row.pattern_type not in (AclPattern.LITERAL, AclPattern.PREFIXED)
        or row.permission_type not in (DENY, ALLOW)
        or operation is None
        or kind is None
    ):
        raise ValueError(
            f"an ACL with a number that has no meaning: resource type {row.resource_type}, pattern "
            f"{row.pattern_type}, operation {row.operation}, permission {row.permission_type}"
        )
    return AclRule(
        row.permission_type == ALLOW,
        row.principal,
        as_address(row.host),
        operation,
        Resource(kind, row.resource_name),
        row.pattern_type == AclPattern.PREFIXED,
    )
