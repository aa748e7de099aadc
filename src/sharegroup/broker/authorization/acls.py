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

from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple

from sharegroup.broker.authorization.resources import Operation, Resource

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


@lru_cache(1_000)
def as_address(host: str) -> str:
    """An IP address in the form in which a connection's address is written; any other text
    unchanged. Java writes IPv6 addresses in full, so ACLs made for Kafka have full addresses."""
    if host == ANY:
        return ANY
    try:
        return str(ip_address(host))
    except ValueError:
        return host


class AclRule(NamedTuple):
    """One rule: allows or denies a principal an operation on resources, from a host."""

    allow: bool
    principal: str
    host: str
    operation: Operation
    resource: Resource
    prefixed: bool = False

    def covers(self, name: str) -> bool:
        """Whether this ACL covers the resource of that name, which must be of its type."""
        own = self.resource.name
        return name.startswith(own) if self.prefixed else own in (ANY, name)

    def concerns(self, principal: str, host: str, operation: Operation) -> bool:
        """Whether this ACL applies to the client and the operation."""
        if self.principal not in (EVERYBODY, principal) or self.host not in (ANY, host):
            return False
        if self.operation in (Operation.ALL, operation):
            return True
        return self.allow and self.operation in _IMPLIED_BY.get(operation, ())
