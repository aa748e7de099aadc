"""DescribeAcls (API key 29).

Source: Kafka's message definitions DescribeAclsRequest.json, DescribeAclsResponse.json. The
numbers are those of Kafka's classes ResourceType, PatternType, AclOperation, AclPermissionType.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i8, i16, i32, message, string


@message
class DescribeAclsRequest(Message):
    """DescribeAclsRequest, versions 1-3."""

    FLEXIBLE = 2

    resource_type_filter: int = i8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = i8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = i8()
    permission_type: int = i8()


@message
class AclDescription(Message):
    """Whom an ACL allows or denies which operation."""

    principal: str = string()
    host: str = string()
    operation: int = i8()
    permission_type: int = i8()


@message
class DescribeAclsResource(Message):
    """The ACLs of one resource pattern."""

    resource_type: int = i8()
    resource_name: str = string()
    pattern_type: int = i8("1+", default=3)
    acls: Sequence[AclDescription] = array(AclDescription)


@message
class DescribeAclsResponse(Message):
    """DescribeAclsResponse, versions 1-3."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    resources: Sequence[DescribeAclsResource] = array(DescribeAclsResource)
