"""The admin client's calls about users of SCRAM (KIP-554)."""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import error_from_code
from sharegroup.sasl.mechanisms import SCRAM_SHA_512
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

T = TypeVar("T")

ITERATIONS_DEFAULT: Final = 8192
SALT_BYTES: Final = 24
_MECHANISMS: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUser:
    """A user; ``iterations`` by mechanism."""

    name: str
    iterations: dict[str, int]


class ScramUserCalls(ABC):
    """See the module. The admin client sets the attributes."""

    _cluster: Cluster

    @abstractmethod
    async def _trying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry until success, an error that is not transient, or the time-out."""

    async def describe_scram_users(self, *names: str) -> list[ScramUser]:
        """These users of SCRAM, or all; sorted. The result has neither passwords nor keys.

        Raises:
            ResourceNotFound: there is no such user.
            ClusterAuthorizationFailed: this client is not allowed to do it.
        """
        found = await self._trying(lambda: _describe(self._cluster, names))
        return sorted(found, key=lambda user: user.name)

    async def upsert_scram_user(
        self,
        name: str,
        password: str,
        *,
        mechanisms: Iterable[str] = (SCRAM_SHA_512,),
        iterations: int = ITERATIONS_DEFAULT,
        salt: bytes | None = None,
    ) -> None:
        """Create a user of SCRAM, or change the password. The password itself is not sent.

        Args:
            salt: random bytes; None: 24 new bytes for each mechanism.

        Raises:
            UnacceptableCredential: too few iterations, or too many.
            ClusterAuthorizationFailed: this client is not allowed to do it.
        """
        for mechanism in dict.fromkeys(mechanisms):
            kind = _MECHANISMS[mechanism]
            own = secrets.token_bytes(SALT_BYTES) if salt is None else salt
            salted = await asyncio.to_thread(salt_password, kind, password, own, iterations)
            change = ScramCredentialUpsertion(name, kind, iterations, own, salted)
            await self._alter(AlterUserScramCredentialsRequest(upsertions=[change]))

    async def delete_scram_user(self, name: str, *mechanisms: str) -> None:
        """Delete a user's credentials of these mechanisms, or all of them.

        Raises:
            ResourceNotFound: there is no such user.
            ClusterAuthorizationFailed: this client is not allowed to do it.
        """
        kept = mechanisms or tuple((await self.describe_scram_users(name))[0].iterations)
        for mechanism in kept:
            change = ScramCredentialDeletion(name, _MECHANISMS[mechanism])
            await self._alter(AlterUserScramCredentialsRequest(deletions=[change]))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        """Send a request with one change: Apache Kafka refuses two changes of one user."""
        await self._trying(lambda: _alter(self._cluster, request))


async def _describe(cluster: Cluster, names: Sequence[str]) -> list[ScramUser]:
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
    return users


async def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    response = await cluster.send_to_any(apis.ALTER_USER_SCRAM_CREDENTIALS, request)
    for result in response.results:
        if result.error_code:
            raise error_from_code(result.error_code, result.error_message)
