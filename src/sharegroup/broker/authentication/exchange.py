"""One SASL exchange of one connection, whatever its mechanism."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

from sharegroup.broker.authentication.credentials import Credentials
from sharegroup.broker.authentication.tokens import Tokens
from sharegroup.sasl.mechanisms import OAUTHBEARER, PLAIN, SCRAM_SHA_256
from sharegroup.sasl.scram_keys import ScramCredential, ScramMechanism
from sharegroup.sasl.server import (
    LoginRefused,
    ScramServer,
    parse_bearer,
    parse_plain,
    shown,
    token_refusal,
)

_ABORT: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class ExchangeStep:
    """The answer to a client's message.

    Attributes:
        answer: what to send.
        user: who the client is, if the exchange is complete; else None.
        expires_ms: wall time at which the client's token expires; None: it never expires.
    """

    answer: bytes = field(repr=False)
    user: str | None = None
    expires_ms: int | None = None


class ClaimingClient(Protocol):
    """The client that makes a claim, as this module sees it."""

    host: str

    def left(self) -> bool:
        """Whether the client is gone."""
        ...

    def turn(self, user: str) -> AbstractAsyncContextManager[None]:
        """Wait until it may be checked whether the client is ``user``."""
        ...


class LoginExchange(Protocol):
    """The server's side of one exchange."""

    async def evaluate(self, message: bytes) -> ExchangeStep:
        """The answer to the client's next message.

        Raises:
            Refused: the exchange has failed.
        """
        ...


class PlainExchange:
    """PLAIN: one message."""

    def __init__(self, credentials: Credentials, client: ClaimingClient) -> None:
        self._credentials = credentials
        self._client = client

    async def evaluate(self, message: bytes) -> ExchangeStep:
        """Check the password."""
        claimed = parse_plain(message)
        user, client = claimed.user, self._client
        async with client.turn(user):
            right = await self._credentials.has_password(
                user, claimed.password, client.host, client.left
            )
        if not right:
            raise LoginRefused(
                f"unknown user or wrong password: {shown(user)}",
                "Authentication failed: Invalid username or password",
            )
        return ExchangeStep(b"", user)


class ScramExchange:
    """SCRAM: two messages."""

    def __init__(
        self, credentials: Credentials, mechanism: ScramMechanism, client: ClaimingClient
    ) -> None:
        def find(user: str) -> ScramCredential:
            return credentials.scram(user, mechanism)

        self._server = ScramServer(mechanism, find, credentials.nonce())
        self._begun = False
        self._client = client

    async def evaluate(self, message: bytes) -> ExchangeStep:
        """The answer to the first message, then to the last one."""
        if not self._begun:
            self._begun = True
            return ExchangeStep(self._server.first(message))
        async with self._client.turn(self._server.user):
            return ExchangeStep(self._server.final(message), self._server.user)


class BearerExchange:
    """OAUTHBEARER: one message; a second one after a refusal."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._refused: LoginRefused | None = None

    async def evaluate(self, message: bytes) -> ExchangeStep:
        """Check the token. A refusal is answered, and the exchange fails with the client's next
        message, whatever it is."""
        if self._refused is not None:
            raise self._refused
        bearer = parse_bearer(message)
        try:
            claims = await self._tokens.check(bearer.token)
            if bearer.authorization_id not in ("", claims.user):
                raise LoginRefused(
                    f"{shown(claims.user)} asks to act as {shown(bearer.authorization_id)}"
                )
        except LoginRefused as error:
            answer = token_refusal(self._tokens.scope_for(error))
            self._refused = LoginRefused(str(error), answer.decode())
            return ExchangeStep(answer)
        return ExchangeStep(b"", claims.user, claims.expires_ms)


def begin(
    mechanism: str, credentials: Credentials, tokens: Tokens, client: ClaimingClient
) -> LoginExchange:
    """A new exchange of one of the known mechanisms."""
    if mechanism == PLAIN:
        return PlainExchange(credentials, client)
    if mechanism == OAUTHBEARER:
        return BearerExchange(tokens)
    is_256 = mechanism == SCRAM_SHA_256
    hashing = ScramMechanism.SHA_256 if is_256 else ScramMechanism.SHA_512
    return ScramExchange(credentials, hashing, client)
