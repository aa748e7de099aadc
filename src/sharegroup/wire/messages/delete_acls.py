"""DeleteAcls (API key 31).

Source: Kafka's message definitions DeleteAclsRequest.json, DeleteAclsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i8, i16, i32, message, string


@message
class DeleteAclsFilter(Message):
    """A filter: the ACLs that match it are deleted."""

    resource_type_filter: int = i8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = i8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = i8()
    permission_type: int = i8()


@message
class DeleteAclsRequest(Message):
    """DeleteAclsRequest, versions 1-3."""

    FLEXIBLE = 2

    filters: Sequence[DeleteAclsFilter] = array(DeleteAclsFilter)


@message
class DeleteAclsMatchingAcl(Message):
    """An ACL that matched a filter, and whether it was deleted."""

    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    resource_type: int = i8()
    resource_name: str = string()
    pattern_type: int = i8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = i8()
    permission_type: int = i8()


@message
class DeleteAclsFilterResult(Message):
    """The ACLs that one filter has matched."""

    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    matching_acls: Sequence[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@message
class DeleteAclsResponse(Message):
    """DeleteAclsResponse, versions 1-3."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    filter_results: Sequence[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
