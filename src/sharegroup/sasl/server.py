"""The server's side of the SASL mechanisms, as machines without input and output.

A message that cannot be read, or that proves nothing, raises :class:`LoginRefused`. Sources: RFC
4616 (PLAIN), RFC 5802 and 7677 (SCRAM), RFC 7628 (OAUTHBEARER); Kafka classes PlainSaslServer,
ScramSaslServer, OAuthBearerSaslServer.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sharegroup.model.errors import MalformedMessage, SharegroupError
from sharegroup.sasl.scram_keys import ScramCredential, ScramMechanism, stored_key
from sharegroup.sasl.scram_messages import (
    ClientFirst,
    ServerFirst,
    parse_client_final,
    parse_client_first,
    to_base64,
)

_SHOWN: Final = 100


class LoginRefused(SharegroupError):
    """The client has not proved who it is.

    The text is for the log. ``told`` is for the client; None: what Kafka says for wrong
    credentials.
    """

    def __init__(self, reason: str, told: str | None = None) -> None:
        super().__init__(reason)
        self.told = told


@dataclass(frozen=True, slots=True)
class Password:
    """What a PLAIN client claims."""

    user: str
    password: str = field(repr=False)


def shown(name: str) -> str:
    """A name that a client claims, for a log line."""
    return repr(name if len(name) <= _SHOWN else name[:_SHOWN] + "…")


def parse_plain(message: bytes) -> Password:
    """The one message of PLAIN: ``[authzid] NUL authcid NUL password``.

    Raises:
        Refused: the bytes are not such a message, or the client asks to act as somebody else.
    """
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise LoginRefused("a PLAIN message that is no UTF-8") from None
    if len(parts) != 3:
        told = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
        raise LoginRefused("a PLAIN message of the wrong form", told)
    authorization_id, user, password = parts
    for what, value in (("username", user), ("password", password)):
        if not value:
            told = f"Authentication failed: {what} not specified"
            raise LoginRefused(f"a PLAIN message without {what}", told)
    if authorization_id not in ("", user):
        raise LoginRefused(
            f"{shown(user)} asks to act as {shown(authorization_id)}",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        )
    return Password(user, password)


class ScramServer:
    """One exchange of SCRAM: :meth:`first`, then :meth:`final`.

    Args:
        find: the credential of a user. For an unknown user it must return a false credential, so
            that a client cannot tell unknown users from wrong passwords.
        nonce: the server's part of the nonce: fresh random text, printable and without comma.
    """

    def __init__(
        self, mechanism: ScramMechanism, find: Callable[[str], ScramCredential], nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._own_nonce = nonce
        self._client: ClientFirst | None = None
        self._server = ""
        self._nonce = ""
        self._credential: ScramCredential | None = None

    @property
    def user(self) -> str:
        """The user that the client claims to be; after :meth:`final` the claim is proved."""
        return self._client.user if self._client else ""

    def first(self, message: bytes) -> bytes:
        """The answer to the client's first message.

        Raises:
            Refused: the message cannot be read, or asks for something that is not offered.
        """
        try:
            client = parse_client_first(message)
        except MalformedMessage as error:
            raise LoginRefused(str(error)) from None
        if client.binding.startswith("p="):
            raise LoginRefused("SCRAM with channel binding, which is not offered")
        if client.authorization_id not in ("", client.user):
            raise LoginRefused(
                f"{shown(client.user)} asks to act as {shown(client.authorization_id)}",
                "Authentication failed: Client requested an authorization id that is different "
                "from username",
            )
        if client.extensions.startswith("m=") or "tokenauth=true" in client.extensions:
            raise LoginRefused("SCRAM with an extension that is not known here")
        self._client = client
        self._credential = credential = self._find(client.user)
        self._nonce = client.nonce + self._own_nonce
        answer = ServerFirst(
            nonce=self._nonce, salt=credential.salt, iterations=credential.iterations
        )
        self._server = str(answer)
        return self._server.encode()

    def final(self, message: bytes) -> bytes:
        """The answer to the client's last message: the server's own proof.

        Raises:
            Refused: the client has not proved that it knows the password.
        """
        client, credential = self._client, self._credential
        assert client is not None, "first() comes first"
        assert credential is not None
        try:
            final = parse_client_final(message)
        except MalformedMessage as error:
            raise LoginRefused(str(error)) from None
        seen = f"{client.bare},{self._server},{final.without_proof}".encode()
        name = self._mechanism.hash_name
        signature = hmac.digest(credential.stored_key, seen, name)
        proved = len(final.proof) == len(signature) and hmac.compare_digest(
            stored_key(self._mechanism, _xor(final.proof, signature)), credential.stored_key
        )
        if final.nonce != self._nonce:
            raise LoginRefused("SCRAM with the nonce of another exchange")
        if final.channel_binding != client.gs2_header.encode():
            raise LoginRefused("SCRAM whose last message does not repeat the GS2 header")
        if not proved:
            raise LoginRefused(f"unknown user or wrong password: {shown(client.user)}")
        return b"v=" + to_base64(hmac.digest(credential.server_key, seen, name)).encode()


_TOKEN: Final = re.compile(
    r"(?P<binding>[ny]),(?:a=(?P<authzid>[^,\x01]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01]*\x01)*)\x01"
)
_BEARER: Final = re.compile(r"Bearer +([-_.~+/=A-Za-z0-9]+) *", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BearerToken:
    """What an OAUTHBEARER client shows."""

    token: str = field(repr=False)
    authorization_id: str


def parse_bearer(message: bytes) -> BearerToken:
    """The first message of OAUTHBEARER.

    Raises:
        Refused: the bytes are not such a message.
    """
    try:
        match = _TOKEN.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise LoginRefused("OAUTHBEARER: a message of the wrong form")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise LoginRefused("OAUTHBEARER: a message without bearer token")
    return BearerToken(bearer.group(1), match["authzid"] or "")


def token_refusal(scope: str = "") -> bytes:
    """The server's answer to a token that it refuses (RFC 7628, section 3.2.2). The client answers
    with one byte 0x01; then the exchange has failed.

    Args:
        scope: the scopes to name in the refusal; empty if the token is refused for another reason.
    """
    status = "insufficient_scope" if scope else "invalid_token"
    told = {"status": status, **({"scope": scope} if scope else {})}
    return json.dumps(told, separators=(",", ":")).encode()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
