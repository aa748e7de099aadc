"""DescribeAcls: the ACLs in force (Kafka class AclApis, handleDescribeAcls)."""

from __future__ import annotations

from sharegroup.broker.authorization.acl_rows import AclRowFilter, row_of
from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.acl import UNKNOWN
from sharegroup.model.errors import InvalidRequest, SecurityDisabled
from sharegroup.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


async def describe_acls(
    parts: BrokerParts, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse:
    """The ACLs that the filter takes, by resource. An ACL that is both in the file and stored is
    listed once.

    Raises:
        SecurityDisabled: no ACLs are in force; Kafka answers so without an authorizer.
        InvalidRequest: the filter has an unknown element.
    """
    context.access.require(Operation.DESCRIBE, CLUSTER)
    wanted = AclRowFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    if UNKNOWN in wanted:
        raise InvalidRequest("DescribeAclsRequest contains UNKNOWN elements")
    rules = parts.access_rules
    if not rules.enabled:
        raise SecurityDisabled("No Authorizer is configured on the broker")
    rows = dict.fromkeys(map(row_of, rules.file_acls))
    if rules.stores:
        rows |= dict.fromkeys(parts.security.state.acl_ids)
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    async for row in sliced(rows):
        if wanted.takes(row):
            of = (row.resource_type, row.resource_name, row.pattern_type)
            description = AclDescription(
                row.principal, row.host, row.operation, row.permission_type
            )
            resources.setdefault(of, []).append(description)
    return DescribeAclsResponse(
        resources=[DescribeAclsResource(*of, own) for of, own in resources.items()]
    )
