"""Errors of a broker's answer, where a denial says what was not allowed, on what."""

from __future__ import annotations

from typing import Final

from sharegroup.model.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    error_from_code,
)

_DENIALS: Final = frozenset(
    kind.code
    for kind in (
        ClusterAuthorizationFailed,
        GroupAuthorizationFailed,
        TopicAuthorizationFailed,
        TransactionalIdAuthorizationFailed,
    )
)


def error_on(code: int, message: str | None, operation: str, resource: str) -> KafkaError:
    """The error of ``code``.

    Args:
        message: the broker's own text, if it has one.
        operation: what was asked for, as ACLs call it: ``WRITE``.
        resource: on what: ``topic 'orders'``.
    """
    if code not in _DENIALS:
        return error_from_code(code, message)
    why = message or error_from_code(code).message
    return error_from_code(code, f"not authorised for {operation} on {resource}: {why}")
