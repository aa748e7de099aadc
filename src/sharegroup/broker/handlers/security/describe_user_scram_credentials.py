"""DescribeUserScramCredentials: the users of SCRAM (Kafka class ScramControlManager's image)."""

from __future__ import annotations

from collections import Counter

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import DuplicateResource, KafkaError, ResourceNotFound
from sharegroup.wire.messages.describe_user_scram_credentials import (
    DescribedScramUser,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialInfo,
)


async def describe_user_scram_credentials(
    parts: BrokerParts, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """The users that the request names; all users if it names no user. The answer has neither salts
    nor keys.

    Raises:
        ClusterAuthorizationFailed: the client may not describe the cluster.
    """
    context.access.require(Operation.DESCRIBE, CLUSTER)
    infos: dict[str, list[ScramCredentialInfo]] = {}
    for (user, mechanism), kept in sorted(parts.security.state.credentials.items()):
        if user:  # the user without a name is the broker's own
            infos.setdefault(user, []).append(ScramCredentialInfo(mechanism, kept.iterations))
    asked = Counter(user.name for user in request.users or ()) or Counter(infos.keys())
    return DescribeUserScramCredentialsResponse(
        results=[
            _described(name, count, infos.get(name)) async for name, count in sliced(asked.items())
        ]
    )


def failure(
    request: DescribeUserScramCredentialsRequest, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    """The error, for the request and for each user that it names."""
    return DescribeUserScramCredentialsResponse(
        error_code=error.code,
        error_message=error.message,
        results=[
            DescribedScramUser(user.name, error.code, error.message) for user in request.users or ()
        ],
    )


def _described(
    name: str, count: int, infos: list[ScramCredentialInfo] | None
) -> DescribedScramUser:
    error: KafkaError
    if count > 1:
        error = DuplicateResource(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    elif infos is None:
        error = ResourceNotFound(
            f"Attempt to describe a user credential that does not exist: {name}"
        )
    else:
        return DescribedScramUser(name, credential_infos=infos)
    return DescribedScramUser(name, error.code, error.message)
