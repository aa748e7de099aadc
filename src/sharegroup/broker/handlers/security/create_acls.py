"""CreateAcls: make ACLs, durably (Kafka classes AclApis, AclControlManager)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from sharegroup.broker.authorization.audit import tell_changes
from sharegroup.broker.authorization.resources import CLUSTER, Operation, ResourceType
from sharegroup.broker.coordination.security_machine import SecurityMachine
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.acl import ALLOW, DENY, AclPattern, with_a_meaning
from sharegroup.model.errors import InvalidRequest, KafkaError, PolicyViolation, SecurityDisabled
from sharegroup.model.limits import ACL_CHANGES_MAX
from sharegroup.wire.internal.security import AclChange, AclRow
from sharegroup.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

NOT_AN_ACLS: Final[Mapping[int, str]] = {1: "ANY", 2: "MATCH"}
"""Kafka's words for numbers that only filters have. Any other number that no ACL can have is
UNKNOWN."""


async def create_acls(
    parts: BrokerParts, request: CreateAclsRequest, context: RequestContext
) -> CreateAclsResponse:
    """One result for each ACL. It is no error if an ACL exists already.

    Raises:
        SecurityDisabled: no ACLs are stored here.
        PolicyViolation: the request has more than ACL_CHANGES_MAX ACLs.
    """
    context.access.require(Operation.ALTER, CLUSTER)
    check_stored(parts)
    if len(request.creations) > ACL_CHANGES_MAX:
        raise PolicyViolation("Unable to perform excessively large batch operation.")
    rows: dict[AclRow, None] = {}
    results = []
    async for creation in sliced(request.creations):
        result = AclCreationResult()
        results.append(result)
        try:
            rows[_checked(creation)] = None
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    if rows:
        made = await parts.security.change_acls(partial(_addition, rows, parts.new_id))
        access = context.access
        tell_changes(access.principal, access.host, "made an ACL", made)
    return CreateAclsResponse(results=results)


def check_stored(parts: BrokerParts) -> None:
    """Check that ACLs that a request makes would be in force.

    Raises:
        SecurityDisabled: they would not; the message names the setting that is missing.
    """
    if not parts.access_rules.enabled:
        raise SecurityDisabled("No Authorizer is configured.")
    if not parts.access_rules.stores:
        raise SecurityDisabled(
            "The ACLs are those of authorizer.acl.file; set authorizer.class.name to "
            "StandardAuthorizer to make others by requests."
        )


async def _addition(
    rows: Mapping[AclRow, None], new_id: Callable[[], UUID], machine: SecurityMachine
) -> tuple[list[AclRow], Sequence[AclChange]]:
    new = [row for row in rows if row not in machine.acl_ids]
    return new, [AclChange(new_id(), row) async for row in sliced(new)]


def _checked(creation: AclCreation) -> AclRow:
    """The ACL to create. Raises InvalidRequest by Kafka's checks, in its order and its words."""
    kind, name = creation.resource_type, creation.resource_name
    if kind == ResourceType.CLUSTER and name != CLUSTER.name:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER.name}")
    if not name:
        raise InvalidRequest("Invalid empty resource name")
    if kind not in _TYPES:
        raise InvalidRequest(f"Invalid resourceType {_word(kind)}")
    if creation.resource_pattern_type not in (AclPattern.LITERAL, AclPattern.PREFIXED):
        raise InvalidRequest(f"Invalid patternType {_word(creation.resource_pattern_type)}")
    if creation.operation not in _OPERATIONS:
        raise InvalidRequest(f"Invalid operation {_word(creation.operation)}")
    if creation.permission_type not in (DENY, ALLOW):
        raise InvalidRequest(f"Invalid permissionType {_word(creation.permission_type)}")
    if not creation.host:
        raise InvalidRequest("Host pattern cannot be null or empty")
    if ":" not in creation.principal:
        raise InvalidRequest(
            f"Could not parse principal from `{creation.principal}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    return AclRow(
        kind,
        name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


_TYPES: Final = frozenset(with_a_meaning(ResourceType))
_OPERATIONS: Final = frozenset(with_a_meaning(Operation))


def _word(number: int) -> str:
    return NOT_AN_ACLS.get(number, "UNKNOWN")
