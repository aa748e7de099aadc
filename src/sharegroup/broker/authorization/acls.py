"""Access control lists, by Kafka's rules (class StandardAuthorizer).

* A deny wins over every allow. Operations that no ACL allows are denied.
  ``allow.everyone.if.no.acl.found`` allows every operation on a resource that no ACL covers.
* An allow of READ, WRITE, DELETE or ALTER implies DESCRIBE; an allow of ALTER_CONFIGS implies
  DESCRIBE_CONFIGS. A deny implies nothing.
* A literal ``*`` covers every resource of its type; a prefixed name covers all names that begin
  with it.
* Super users may do everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType

EVERYBODY: Final = "User:*"
ANY: Final = "*"

_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset(
        (
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
        )
    ),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """One line: allows or denies a principal an operation on resources, from a host."""

    allow: bool
    principal: str
    host: str
    operation: Operation
    resource: Resource
    prefixed: bool = False

    def covers(self, name: str) -> bool:
        """Whether it covers the resource of that name; the type is that of this ACL."""
        own = self.resource.name
        return name.startswith(own) if self.prefixed else own in (ANY, name)

    def concerns(self, principal: str, host: str, operation: Operation) -> bool:
        """Whether it applies to this client and operation."""
        if self.principal not in (EVERYBODY, principal) or self.host not in (ANY, host):
            return False
        if self.operation in (Operation.ALL, operation):
            return True
        return self.allow and self.operation in _IMPLIED_BY.get(operation, ())


class AclAuthorizer:
    """Decides by a list of :class:`Acl`."""

    def __init__(
        self,
        acls: Iterable[Acl],
        *,
        super_users: Iterable[str] = (),
        allow_if_no_acl: bool = False,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._literal: dict[Resource, list[Acl]] = {}
        self._prefixed: dict[ResourceType, list[Acl]] = {}
        self._by_type: dict[ResourceType, list[Acl]] = {}
        self.acls = tuple(acls)
        for acl in self.acls:
            self._by_type.setdefault(acl.resource.type, []).append(acl)
            if acl.prefixed:
                self._prefixed.setdefault(acl.resource.type, []).append(acl)
            else:
                self._literal.setdefault(acl.resource, []).append(acl)

    @property
    def acl_count(self) -> int:
        """The number of ACLs."""
        return len(self.acls)

    def authorize(
        self, principal: str, host: str, operation: Operation, resource: Resource
    ) -> bool:
        """Whether an ACL allows it and none denies it; see the module for the other rules."""
        if principal in self._super_users:
            return True
        allowed = spoken_of = False
        for acl in self._of(resource):
            spoken_of = True
            if acl.concerns(principal, host, operation):
                if not acl.allow:
                    return False
                allowed = True
        return allowed or (self._allow_if_no_acl and not spoken_of)

    def authorize_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether some allow of the resource type is not completely covered by a deny."""
        if principal in self._super_users:
            return True
        acls = self._by_type.get(resource_type, ())
        concerned = [acl for acl in acls if acl.concerns(principal, host, operation)]
        denies = [acl for acl in concerned if not acl.allow]
        if any(deny.resource.name == ANY and not deny.prefixed for deny in denies):
            return False
        if self._allow_if_no_acl:
            return True
        return any(acl.allow and not _hidden(acl, denies) for acl in concerned)

    def _of(self, resource: Resource) -> Iterator[Acl]:
        yield from self._literal.get(resource, ())
        if resource.name != ANY:
            yield from self._literal.get(Resource(resource.type, ANY), ())
        for acl in self._prefixed.get(resource.type, ()):
            if acl.covers(resource.name):
                yield acl


def _hidden(allow: Acl, denies: Iterable[Acl]) -> bool:
    """Whether one of ``denies`` covers all that ``allow`` names."""
    name = allow.resource.name
    if allow.prefixed:
        return any(deny.prefixed and deny.covers(name) for deny in denies)
    return name != ANY and any(deny.covers(name) for deny in denies)
