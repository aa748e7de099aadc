"""What decides, and the embedded default that lets everybody do everything."""

from __future__ import annotations

from typing import Protocol

from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType


class Authorizer(Protocol):
    """Decides who may do what. Answers of one object must not change: they are kept for each
    connection. Other rules need another object (``Broker.read_acls``).

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
        """Whether there can be a resource of the type that the principal may do it on."""
        ...


class AllowAll:
    """Everybody may do everything: the default, as in Kafka without an authorizer."""

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
