"""AlterUserScramCredentials (API key 51).

Source: Kafka's message definitions AlterUserScramCredentialsRequest.json,
AlterUserScramCredentialsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, data, i8, i16, i32, message, string


@message
class ScramCredentialDeletion(Message):
    """A user, and the mechanism whose credential is to be deleted."""

    name: str = string()
    mechanism: int = i8()


@message
class ScramCredentialUpsertion(Message):
    """A credential to create or replace. The client has salted the password."""

    name: str = string()
    mechanism: int = i8()
    iterations: int = i32()
    salt: bytes = data()
    salted_password: bytes = data()

    def __repr__(self) -> str:
        """Without the salted password: whoever has it can log in."""
        return f"ScramCredentialUpsertion(name={self.name!r}, mechanism={self.mechanism})"


@message
class AlterUserScramCredentialsRequest(Message):
    """AlterUserScramCredentialsRequest, version 0."""

    FLEXIBLE = 0

    deletions: Sequence[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: Sequence[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@message
class AlterUserScramCredentialsResult(Message):
    """Whether the credentials of one user were altered."""

    user: str = string()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@message
class AlterUserScramCredentialsResponse(Message):
    """AlterUserScramCredentialsResponse, version 0."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    results: Sequence[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
