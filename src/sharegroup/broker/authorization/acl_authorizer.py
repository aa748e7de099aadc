"""Decides by ACLs, as Kafka's class StandardAuthorizer; the rules stand in ``acls``."""

from __future__ import annotations

from collections.abc import Iterable

from sharegroup.broker.authorization.acl_index import AclIndex
from sharegroup.broker.authorization.acls import ANY, AclRule
from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType


class AclAuthorizer:
    """Decides by the ACLs of an :class:`AclIndex`.

    The index may change while requests are under way. Whoever changes it must make a new authorizer
    for the connections, because each connection caches the answers of the authorizer that it has.
    """

    def __init__(
        self,
        acls: AclIndex | Iterable[AclRule],
        *,
        super_users: Iterable[str] = (),
        allow_if_no_acl: bool = False,
    ) -> None:
        self.index = acls if isinstance(acls, AclIndex) else AclIndex(acls)
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl

    def renewed(self) -> AclAuthorizer:
        """A new authorizer of the same rules, of which no connection has cached an answer yet."""
        return AclAuthorizer(
            self.index, super_users=self._super_users, allow_if_no_acl=self._allow_if_no_acl
        )

    def authorize(
        self, principal: str, host: str, operation: Operation, resource: Resource
    ) -> bool:
        """Whether an ACL allows the operation and no ACL denies it, by the rules in ``acls``."""
        if principal in self._super_users:
            return True
        allowed = False
        for acl in self.index.about(principal, resource):
            if acl.concerns(principal, host, operation):
                if not acl.allow:
                    return False
                allowed = True
        return allowed or (self._allow_if_no_acl and not self.index.speaks_of(resource))

    def authorize_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether some allow of the resource type is not completely covered by a deny (Kafka's
        Authorizer.authorizeByResourceType, including its check of a made-up name)."""
        if self.authorize(principal, host, operation, Resource(resource_type, "hardcode")):
            return True
        concerned = [
            acl
            for acl in self.index.of_type(principal, resource_type)
            if acl.operation in (Operation.ALL, operation) and acl.host in (ANY, host)
        ]
        denies = [acl for acl in concerned if not acl.allow]
        if any(deny.resource.name == ANY and not deny.prefixed for deny in denies):
            return False
        literal = {deny.resource.name for deny in denies if not deny.prefixed}
        prefixes = {deny.resource.name for deny in denies if deny.prefixed}
        return any(acl.allow and not _hidden(acl, literal, prefixes) for acl in concerned)


def _hidden(allow: AclRule, literal: set[str], prefixes: set[str]) -> bool:
    """Whether denies of these names cover all resources that ``allow`` names."""
    name = allow.resource.name
    if not allow.prefixed and (name == ANY or name in literal):
        return name != ANY
    return any(name[:length] in prefixes for length in range(1, len(name) + 1))
