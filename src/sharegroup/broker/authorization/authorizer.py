"""The authorizer protocol, and the default that allows everything to every client."""

from __future__ import annotations

from typing import Protocol

from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType


class Authorizer(Protocol):
    """Decides what a principal may do. The answers of one object must not change, because each
    connection caches them. Changed rules need a new object (``AccessRules``).

    ``principal`` is ``Type:name``; ``host`` is the client's address as text.
    """

    def authorize(
        self, principal: str, host: str, operation: Operation, resource: Resource
    ) -> bool:
        """Whether the principal may do the operation on this resource."""
        ...

    def authorize_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether the principal may do the operation on any possible resource of the type."""
        ...


class AllowAll:
    """Allows everything to every client: the default, as in Kafka without an authorizer."""

    def authorize(
        self, principal: str, host: str, operation: Operation, resource: Resource
    ) -> bool:
        """True."""
        return True

    def authorize_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """True."""
        return True
