"""DescribeUserScramCredentials (API key 50).

Source: Kafka's message definitions DescribeUserScramCredentialsRequest.json,
DescribeUserScramCredentialsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i8, i16, i32, message, string


@message
class ScramUserName(Message):
    """A user to describe."""

    name: str = string()


@message
class DescribeUserScramCredentialsRequest(Message):
    """DescribeUserScramCredentialsRequest, version 0. Null or empty users: all."""

    FLEXIBLE = 0

    users: Sequence[ScramUserName] | None = array(ScramUserName, nullable="0+")


@message
class ScramCredentialInfo(Message):
    """A credential of a user, without its secrets."""

    mechanism: int = i8()
    iterations: int = i32()


@message
class DescribedScramUser(Message):
    """The credentials of one user, or an error."""

    user: str = string()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    credential_infos: Sequence[ScramCredentialInfo] = array(ScramCredentialInfo)


@message
class DescribeUserScramCredentialsResponse(Message):
    """DescribeUserScramCredentialsResponse, version 0."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    results: Sequence[DescribedScramUser] = array(DescribedScramUser)
