"""``Admin``'s requests about ACLs: one attempt each; errors are raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sharegroup.client.admin.acls import Acl, AclFilter
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.acl import (
    ALLOW,
    DENY,
    EVERY,
    AclOperation,
    AclPattern,
    AclResource,
    of_number,
)
from sharegroup.model.errors import KafkaError, error_from_code
from sharegroup.wire import apis
from sharegroup.wire.messages.create_acls import AclCreation, CreateAclsRequest
from sharegroup.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from sharegroup.wire.messages.describe_acls import DescribeAclsRequest


async def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """CreateAcls; raises the first error."""
    request = CreateAclsRequest(
        [
            AclCreation(
                resource_type=acl.resource.value,
                resource_name=acl.name,
                resource_pattern_type=acl.pattern.value,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation.value,
                permission_type=_permission(acl.allow),
            )
            for acl in acls
        ]
    )
    response = await cluster.send_to_any(apis.CREATE_ACLS, request)
    for result in response.results:
        _check(result)


async def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """DescribeAcls, sorted."""
    request = DescribeAclsRequest(*_filter(wanted))
    response = await cluster.send_to_any(apis.DESCRIBE_ACLS, request)
    _check(response)
    return sorted(
        _acl(resource.resource_type, resource.resource_name, resource.pattern_type, each)
        for resource in response.resources
        for each in resource.acls
    )


async def delete_acls(
    cluster: Cluster, filters: Sequence[AclFilter]
) -> dict[Acl, KafkaError | None]:
    """DeleteAcls; raises the first error of a filter. Returns the error of each ACL."""
    request = DeleteAclsRequest([DeleteAclsFilter(*_filter(each)) for each in filters])
    response = await cluster.send_to_any(apis.DELETE_ACLS, request)
    outcome: dict[Acl, KafkaError | None] = {}
    for result in response.filter_results:
        _check(result)
        for found in result.matching_acls:
            acl = _acl(found.resource_type, found.resource_name, found.pattern_type, found)
            error = None
            if found.error_code:
                error = error_from_code(found.error_code, found.error_message)
            outcome[acl] = outcome.get(acl) or error
    return outcome


def _filter(wanted: AclFilter) -> tuple[Any, ...]:
    """The filter's fields, in the order that DescribeAcls and DeleteAcls have in common."""
    return (
        EVERY if wanted.resource is None else wanted.resource.value,
        wanted.name,
        EVERY if wanted.pattern is None else wanted.pattern.value,
        wanted.principal,
        wanted.host,
        EVERY if wanted.operation is None else wanted.operation.value,
        EVERY if wanted.allow is None else _permission(wanted.allow),
    )


def _acl(resource_type: int, name: str, pattern: int, entry: Any) -> Acl:
    return Acl(
        principal=entry.principal,
        operation=of_number(AclOperation, entry.operation),
        resource=of_number(AclResource, resource_type),
        name=name,
        pattern=of_number(AclPattern, pattern),
        host=entry.host,
        allow=entry.permission_type == ALLOW,
    )


def _permission(allow: bool) -> int:
    return ALLOW if allow else DENY


def _check(answer: Any) -> None:
    if answer.error_code:
        raise error_from_code(answer.error_code, answer.error_message)
