"""One SASL exchange of one connection, whatever its mechanism."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from sharegroup.broker.authentication.credentials import Credentials
from sharegroup.broker.authentication.tokens import Tokens
from sharegroup.sasl.mechanisms import OAUTHBEARER, PLAIN, SCRAM_SHA_256
from sharegroup.sasl.scram_keys import ScramCredential, ScramMechanism
from sharegroup.sasl.server import (
    Refused,
    ScramServer,
    parse_bearer,
    parse_plain,
    shown,
    token_refusal,
)

_ABORT: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class Step:
    """The answer to a client's message.

    Attributes:
        answer: what to send.
        user: who the client is, if the exchange is complete; else None.
        expires_ms: wall time at which the client's token ends; None: it does not.
    """

    answer: bytes = field(repr=False)
    user: str | None = None
    expires_ms: int | None = None


class Exchange(Protocol):
    """The server's side of one exchange."""

    async def evaluate(self, message: bytes) -> Step:
        """The answer to the client's next message.

        Raises:
            Refused: the exchange has failed.
        """
        ...


class PlainExchange:
    """PLAIN: one message."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def evaluate(self, message: bytes) -> Step:
        """Check the password."""
        claimed = parse_plain(message)
        if not await self._credentials.has_password(claimed.user, claimed.password):
            raise Refused(
                f"unknown user or wrong password: {shown(claimed.user)}",
                "Authentication failed: Invalid username or password",
            )
        return Step(b"", claimed.user)


class ScramExchange:
    """SCRAM: two messages."""

    def __init__(self, credentials: Credentials, mechanism: ScramMechanism) -> None:
        def find(user: str) -> ScramCredential:
            return credentials.scram(user, mechanism)

        self._server = ScramServer(mechanism, find, credentials.nonce())
        self._begun = False

    async def evaluate(self, message: bytes) -> Step:
        """The first message, then the last."""
        if not self._begun:
            self._begun = True
            return Step(self._server.first(message))
        return Step(self._server.final(message), self._server.user)


class BearerExchange:
    """OAUTHBEARER: one message; a second one after a refusal."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._refused: Refused | None = None

    async def evaluate(self, message: bytes) -> Step:
        """Check the token. A refusal is answered, and the exchange fails with the client's next
        message, whatever it is."""
        if self._refused is not None:
            raise self._refused
        bearer = parse_bearer(message)
        try:
            claims = await self._tokens.check(bearer.token)
            if bearer.authorization_id not in ("", claims.user):
                raise Refused(
                    f"{shown(claims.user)} asks to act as {shown(bearer.authorization_id)}"
                )
        except Refused as error:
            answer = token_refusal(self._tokens.scope_for(error))
            self._refused = Refused(str(error), answer.decode())
            return Step(answer)
        return Step(b"", claims.user, claims.expires_ms)


def begin(mechanism: str, credentials: Credentials, tokens: Tokens) -> Exchange:
    """A new exchange of one of the known mechanisms."""
    if mechanism == PLAIN:
        return PlainExchange(credentials)
    if mechanism == OAUTHBEARER:
        return BearerExchange(tokens)
    is_256 = mechanism == SCRAM_SHA_256
    return ScramExchange(credentials, ScramMechanism.SHA_256 if is_256 else ScramMechanism.SHA_512)
