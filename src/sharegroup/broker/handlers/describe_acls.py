"""DescribeAcls: the ACLs of ``authorizer.acl.file`` (Kafka class AclApis, handleDescribeAcls)."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.acls import ANY, Acl
from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import InvalidRequest, SecurityDisabled
from sharegroup.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

UNKNOWN: Final = 0
EVERY: Final = 1
"""In a filter: any type, operation, permission or pattern."""
MATCHING: Final = 2
"""In a filter: the ACLs of whatever pattern that concern the resource of this name."""
LITERAL: Final = 3
PREFIXED: Final = 4
DENY: Final = 2
ALLOW: Final = 3


async def describe_acls(
    parts: BrokerParts, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse:
    """Those that the filter matches, by resource.

    Raises:
        SecurityDisabled: no ACL file is set, as Kafka says without an authorizer.
        InvalidRequest: the filter has an unknown element.
    """
    context.access.require(Operation.DESCRIBE, CLUSTER)
    if UNKNOWN in (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    ):
        raise InvalidRequest("DescribeAclsRequest contains UNKNOWN elements")
    acls = context.access.acls
    if acls is None:
        raise SecurityDisabled("No Authorizer is configured on the broker")
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    for acl in acls:
        if _matches(request, acl):
            of = (acl.resource.type, acl.resource.name, _pattern(acl))
            description = AclDescription(acl.principal, acl.host, acl.operation, _permission(acl))
            resources.setdefault(of, []).append(description)
    return DescribeAclsResponse(
        resources=[DescribeAclsResource(*of, own) for of, own in resources.items()]
    )


def _pattern(acl: Acl) -> int:
    return PREFIXED if acl.prefixed else LITERAL


def _permission(acl: Acl) -> int:
    return ALLOW if acl.allow else DENY


def _matches(wanted: DescribeAclsRequest, acl: Acl) -> bool:
    """Kafka's AclBindingFilter."""
    return (
        wanted.resource_type_filter in (EVERY, acl.resource.type)
        and wanted.operation in (EVERY, acl.operation)
        and wanted.permission_type in (EVERY, _permission(acl))
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and _matches_name(wanted.resource_name_filter, wanted.pattern_type_filter, acl)
    )


def _matches_name(name: str | None, pattern: int, acl: Acl) -> bool:
    """Kafka's ResourcePatternFilter."""
    if pattern not in (EVERY, MATCHING, _pattern(acl)):
        return False
    if name is None or name == acl.resource.name:
        return True
    return pattern == MATCHING and (acl.resource.name == ANY or acl.covers(name))
