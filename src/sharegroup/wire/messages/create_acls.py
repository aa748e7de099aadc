"""CreateAcls (API key 30).

Source: Kafka's message definitions CreateAclsRequest.json, CreateAclsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i8, i16, i32, message, string


@message
class AclCreation(Message):
    """An ACL to create."""

    resource_type: int = i8()
    resource_name: str = string()
    resource_pattern_type: int = i8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = i8()
    permission_type: int = i8()


@message
class CreateAclsRequest(Message):
    """CreateAclsRequest, versions 1-3."""

    FLEXIBLE = 2

    creations: Sequence[AclCreation] = array(AclCreation)


@message
class AclCreationResult(Message):
    """Whether one ACL was created."""

    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@message
class CreateAclsResponse(Message):
    """CreateAclsResponse, versions 1-3."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    results: Sequence[AclCreationResult] = array(AclCreationResult)
