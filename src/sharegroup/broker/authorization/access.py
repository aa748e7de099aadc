"""What one client may do: every handler asks, the broker's authorizer answers."""

from __future__ import annotations

from sharegroup.broker.authorization.audit import Audit
from sharegroup.broker.authorization.authorizer import AllowAll, Authorizer
from sharegroup.broker.authorization.resources import (
    ANONYMOUS,
    REFUSALS,
    SUPPORTED,
    Operation,
    Resource,
    ResourceType,
    group,
    topic,
)
from sharegroup.broker.event_counters import Counters
from sharegroup.model.limits import AUTHORIZER_ANSWERS_MAX


class Access:
    """The access rights of one connection, by its principal and host.

    The authorizer's answers are cached, so that a request on the hot path costs a dictionary
    look-up, and nothing at all under :class:`AllowAll`.
    """

    __slots__ = ("_audit", "_authorizer", "_free", "_kept", "_kept_any", "host", "principal")

    def __init__(
        self,
        authorizer: Authorizer | None = None,
        principal: str = ANONYMOUS,
        host: str = "",
        counters: Counters | None = None,
    ) -> None:
        self._audit = Audit(counters)
        self._authorizer = authorizer or AllowAll()
        self._free = isinstance(self._authorizer, AllowAll)
        self._kept: dict[tuple[Operation, Resource], bool] = {}
        self._kept_any: dict[tuple[Operation, ResourceType], bool] = {}
        self.principal = principal
        self.host = host

    @property
    def restricted(self) -> bool:
        """Whether anything can be refused at all; if not, callers may skip their checks."""
        return not self._free

    def allows(self, operation: Operation, resource: Resource) -> bool:
        """Whether this client may do ``operation`` on ``resource``."""
        if self._free:
            return True
        answer = self._kept.get((operation, resource))
        if answer is None:
            answer = self._authorizer.authorize(self.principal, self.host, operation, resource)
            if len(self._kept) >= AUTHORIZER_ANSWERS_MAX:
                self._kept.clear()
            self._kept[operation, resource] = answer
        return answer

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether this client may do ``operation`` on some resource of the type."""
        if self._free:
            return True
        answer = self._kept_any.get((operation, resource_type))
        if answer is None:
            answer = self._authorizer.authorize_any(
                self.principal, self.host, operation, resource_type
            )
            self._kept_any[operation, resource_type] = answer
        return answer

    def require(self, operation: Operation, resource: Resource) -> None:
        """Check that this client may do ``operation`` on ``resource``.

        Raises:
            TopicAuthorizationFailed, GroupAuthorizationFailed, ClusterAuthorizationFailed,
            TransactionalIdAuthorizationFailed: the client may not; the error depends on the type of
                resource.
        """
        if not (self._free or self.allows(operation, resource)):
            self.denied(operation, resource)
            raise REFUSALS[resource.type]

    def denied(self, operation: Operation, resource: Resource) -> None:
        """Log and count that a request was refused for lack of this right. :meth:`require` calls
        it."""
        self._audit.denied(self.principal, self.host, operation, resource)

    def admits_topic(self, operation: Operation, name: str) -> bool:
        """As :meth:`allows`, for a topic that a request names; a refusal is logged and counted."""
        if self._free or self.allows(operation, topic(name)):
            return True
        self.denied(operation, topic(name))
        return False

    def require_topic(self, operation: Operation, name: str) -> None:
        """As :meth:`require`, for a topic; skips the check if everything is allowed."""
        if not self._free:
            self.require(operation, topic(name))

    def allows_topic(self, operation: Operation, name: str) -> bool:
        """As :meth:`allows`, for a topic."""
        return self._free or self.allows(operation, topic(name))

    def require_group(self, operation: Operation, group_id: str) -> None:
        """As :meth:`require`, for a group."""
        if not self._free:
            self.require(operation, group(group_id))

    def operations(self, resource: Resource) -> int:
        """AuthorizedOperations of a response: one bit for each operation allowed to the client."""
        return sum(
            1 << operation
            for operation in SUPPORTED[resource.type]
            if self.allows(operation, resource)
        )
