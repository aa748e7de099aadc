"""Logs and counts denials, and logs who has changed ACLs, users, and the records of groups."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final

from sharegroup.broker.authorization.acl_rows import acl_of
from sharegroup.broker.authorization.acls import AclRule
from sharegroup.broker.authorization.resources import Operation, Resource
from sharegroup.broker.event_counters import Counters
from sharegroup.model.limits import AUTHORIZER_ANSWERS_MAX
from sharegroup.wire.internal.security import AclRow

logger = logging.getLogger("sharegroup.authorizer")

REQUEST: Final[ContextVar[str]] = ContextVar("REQUEST", default="")
"""The name of the API whose request this task answers."""

CHANGES_TOLD_MAX: Final = 20
"""So many ACLs of one request are logged one by one; of further ones only the number is logged."""


class Audit:
    """The denials of one connection.

    Each denial is counted. For each kind of request, operation and resource, one denial is logged;
    similar denials of many connections are logged only now and then.
    """

    __slots__ = ("_counters", "_told")

    def __init__(self, counters: Counters | None) -> None:
        self._counters = counters
        self._told: set[tuple[str, Operation, Resource]] = set()

    def denied(self, principal: str, host: str, operation: Operation, resource: Resource) -> None:
        """Count a denial, and log it if it is the first of its kind."""
        api = REQUEST.get()
        counters = self._counters
        if counters is not None:
            counters.add("authorization_denials", f"{operation.name} {resource.type.name}")
        if (api, operation, resource) in self._told:
            return
        if len(self._told) >= AUTHORIZER_ANSWERS_MAX:
            self._told.clear()
        self._told.add((api, operation, resource))
        kind = f"{principal} {operation.name} {resource.type.name}"
        left_out = counters.now_and_then.due(kind) if counters is not None else ""
        if left_out is None:
            return
        logger.info(
            "Principal = %s is Denied operation = %s from host = %s on "
            "resource = %s:LITERAL:%s%s%s",
            principal,
            operation.name,
            host,
            resource.type.name,
            resource.name,
            f" for request = {api}" if api else "",
            left_out,
        )


def tell_changes(principal: str, host: str, deed: str, acls: Sequence[AclRow]) -> None:
    """Log who has made or deleted ACLs."""
    told = [_text(acl_of(row)) for row in acls[:CHANGES_TOLD_MAX]]
    _tell(principal, host, deed, told, len(acls))


def tell_users(principal: str, host: str, deed: str, users: Sequence[str]) -> None:
    """Log who has made users, changed or deleted their passwords."""
    _tell(principal, host, deed, users[:CHANGES_TOLD_MAX], len(users))


def tell_groups(principal: str, host: str, deed: str, what: str) -> None:
    """Log who has paused or forked a group, or decided about its records by hand."""
    _tell(principal, host, deed, [what], 1)


def _tell(principal: str, host: str, deed: str, what: Sequence[str], count: int) -> None:
    for each in what:
        logger.info("%s from %s has %s: %s", principal, host, deed, each)
    if count > len(what):
        more = count - len(what)
        logger.info("%s from %s has %s, and %d more", principal, host, deed, more)


def _text(acl: AclRule) -> str:
    kind = "PREFIXED" if acl.prefixed else "LITERAL"
    resource = f"{acl.resource.type.name}:{kind}:{acl.resource.name}"
    right = f"{'ALLOW' if acl.allow else 'DENY'} {acl.principal} {acl.operation.name}"
    return f"{right} on {resource} from host {acl.host}"
