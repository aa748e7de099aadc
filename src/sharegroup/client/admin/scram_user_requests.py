"""``Admin``'s requests about users of SCRAM: one attempt each; errors are raised (KIP-554)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final

from sharegroup.client.admin.descriptions import ScramUser
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import error_from_code
from sharegroup.sasl.scram_keys import ScramMechanism, salt_password
from sharegroup.wire import apis
from sharegroup.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from sharegroup.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    ScramUserName,
)

ITERATIONS_DEFAULT: Final = 8192
SALT_BYTES: Final = 24
_MECHANISMS: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


async def describe_scram_users(cluster: Cluster, names: Sequence[str]) -> list[ScramUser]:
    """DescribeUserScramCredentials of these users, or of all; sorted."""
    request = DescribeUserScramCredentialsRequest([ScramUserName(name) for name in names] or None)
    response = await cluster.send_to_any(apis.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
    if response.error_code:
        raise error_from_code(response.error_code, response.error_message)
    users = []
    for user in response.results:
        if user.error_code:
            raise error_from_code(user.error_code, user.error_message)
        known = {kind.value: kind.sasl_name for kind in ScramMechanism}
        iterations = {
            known[info.mechanism]: info.iterations
            for info in user.credential_infos
            if info.mechanism in known
        }
        users.append(ScramUser(name=user.user, iterations=iterations))
    return sorted(users, key=lambda user: user.name)


async def salted_password(
    name: str, password: str, mechanism: str, iterations: int, salt: bytes | None
) -> ScramCredentialUpsertion:
    """The change that sets a user's password, for :func:`upsert_scram_user`. The password is salted
    in a thread, because it takes milliseconds; a retry sends the same change again.
    """
    kind = _MECHANISMS[mechanism]
    own = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    salted = await asyncio.to_thread(salt_password, kind, password, own, iterations)
    return ScramCredentialUpsertion(name, kind, iterations, own, salted)


async def upsert_scram_user(cluster: Cluster, change: ScramCredentialUpsertion) -> None:
    """AlterUserScramCredentials with one change: Apache Kafka refuses two changes of one user."""
    await _alter(cluster, AlterUserScramCredentialsRequest(upsertions=[change]))


async def delete_scram_user(cluster: Cluster, name: str, mechanism: str) -> None:
    """AlterUserScramCredentials that deletes a user's credential of one mechanism."""
    change = ScramCredentialDeletion(name, _MECHANISMS[mechanism])
    await _alter(cluster, AlterUserScramCredentialsRequest(deletions=[change]))


async def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    response = await cluster.send_to_any(apis.ALTER_USER_SCRAM_CREDENTIALS, request)
    for result in response.results:
        if result.error_code:
            raise error_from_code(result.error_code, result.error_message)
