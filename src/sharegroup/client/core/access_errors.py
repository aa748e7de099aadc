"""Errors of a broker's answer. A denial names the operation that was not allowed, and on what."""

from __future__ import annotations

from typing import Final

from sharegroup.model import errors
from sharegroup.model.printable import last_word

_DENIALS: Final = frozenset(
    kind.code
    for kind in (
        errors.ClusterAuthorizationFailed,
        errors.GroupAuthorizationFailed,
        errors.TopicAuthorizationFailed,
        errors.TransactionalIdAuthorizationFailed,
    )
)


def error_on(code: int, message: str | None, operation: str, resource: str) -> errors.KafkaError:
    """The error of ``code``.

    Args:
        message: the broker's own text, if it has one.
        operation: what was asked for, as ACLs call it: ``WRITE``.
        resource: on what: ``topic 'orders'``.
    """
    if code not in _DENIALS:
        return errors.error_from_code(code, message)
    why = message or errors.error_from_code(code).message
    return errors.error_from_code(code, f"not authorised for {operation} on {resource}: {why}")


def error_of_member(code: int, message: str | None, group_id: str) -> errors.KafkaError:
    """The error of a request by which a member joins its group, or stays in it. If another kind of
    group has the id, the error says what to do.
    """
    error = error_on(code, message, "READ", f"group {group_id!r}")
    why = error.message.rstrip(".")
    if isinstance(error, errors.GroupIdNotFound) and "is not a" in why:
        return errors.GroupIdNotFound(
            f"{why}: a group of another kind has this id. Take another group id, or delete that "
            f"group when it has no members (sharegroup groups delete {last_word(group_id)})"
        )
    if isinstance(error, errors.InconsistentGroupProtocol):
        return errors.InconsistentGroupProtocol(
            f"the group {group_id!r} is no classic consumer group, or its members have no "
            f"assignment strategy in common with this one ({why}). Take another group id, or the "
            "same strategies as the others; sharegroup groups list shows of which kind it is"
        )
    return error
