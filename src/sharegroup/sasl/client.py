"""The client's side of a SASL login, without the connection: one machine for each connection.

A login sends :meth:`Login.first`, and answers each message of the server by :meth:`Login.next`,
until :attr:`Login.done`. The frames around the messages are the caller's.

Source: RFC 4616 (PLAIN), RFC 5802 and RFC 7677 (SCRAM), RFC 7628 (OAUTHBEARER).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from sharegroup.model.errors import SaslAuthenticationFailed
from sharegroup.model.limits import (
    OAUTH_REFUSAL_CHARACTERS_MAX,
    SCRAM_CLIENT_ITERATIONS_MAX,
    SCRAM_MESSAGE_BYTES_MAX,
)
from sharegroup.model.printable import printable
from sharegroup.sasl.mechanisms import OAUTHBEARER, PLAIN
from sharegroup.sasl.scram_keys import (
    ITERATIONS_MIN,
    ScramMechanism,
    client_key,
    salt_password,
    server_key,
    stored_key,
)

_NO_CHANNEL_BINDING: Final = "n,,"
_SEPARATOR: Final = "\x01"
_SUCCESS_STATUS: Final = frozenset(("", "success"))


class Login(Protocol):
    """One login; it is used once."""

    @property
    def mechanism(self) -> str:
        """The name that SaslHandshake asks for."""
        ...

    @property
    def done(self) -> bool:
        """The mechanism needs nothing more from the server."""
        ...

    @property
    def refusal(self) -> str | None:
        """Why the server refuses, where the mechanism has words for it."""
        ...

    def first(self) -> bytes:
        """The first message to the server."""
        ...

    def next(self, message: bytes) -> bytes:
        """The answer to a message of the server; empty where :attr:`done`.

        Raises:
            SaslAuthenticationFailed: the message does not follow the mechanism, or does not come
                from a server that knows the password.
        """
        ...


NewLogin = Callable[[], Login]
"""Makes the login of one connection."""


class PlainLogin:
    """User and password as they are; RFC 4616."""

    mechanism = PLAIN
    refusal: str | None = None

    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()
        self.done = False

    def first(self) -> bytes:
        """User and password."""
        return self._message

    def next(self, message: bytes) -> bytes:
        """Nothing: the server accepts the login."""
        if message:
            raise SaslAuthenticationFailed("the broker's answer to PLAIN is not empty")
        self.done = True
        return b""


class ScramLogin:
    """A proof that both sides know the password, which is not sent; RFC 5802.

    Args:
        nonce: random characters, fresh for each login; no comma among them.
    """

    refusal: str | None = None

    def __init__(self, mechanism: ScramMechanism, username: str, password: str, nonce: str) -> None:
        self.mechanism = mechanism.sasl_name
        self.done = False
        self._hash = mechanism
        self._password = password
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        """The user and our nonce."""
        return (_NO_CHANNEL_BINDING + self._first_bare).encode()

    def next(self, message: bytes) -> bytes:
        """The client's proof; at the second call nothing, after a check of the server's proof."""
        if self._server_signature is None:
            return self._prove(message)
        self._verify(message, self._server_signature)
        self.done = True
        return b""

    def _prove(self, message: bytes) -> bytes:
        server_first = _text(message)
        fields = _fields(server_first, ("r", "s", "i"))
        nonce = fields["r"]
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise _bad("its nonce does not continue the client's")
        salt, iterations = _decoded(fields["s"]), _iterations(fields["i"])
        salted = salt_password(self._hash, self._password, salt, iterations)
        channel = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        unproven = f"c={channel},r={nonce}"
        signed = f"{self._first_bare},{server_first},{unproven}".encode()
        key = client_key(self._hash, salted)
        signature = hmac.digest(stored_key(self._hash, key), signed, self._hash.hash_name)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self._server_signature = hmac.digest(
            server_key(self._hash, salted), signed, self._hash.hash_name
        )
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, message: bytes, expected: bytes) -> None:
        text = _text(message)
        if text.startswith("e="):
            raise SaslAuthenticationFailed(f"the broker refuses: {printable(text[2:])}")
        if not hmac.compare_digest(_decoded(_fields(text, ("v",))["v"]), expected):
            raise SaslAuthenticationFailed(
                "the broker does not know this user's password: it may be another server that "
                "pretends to be the broker"
            )


class OAuthBearerLogin:
    """A bearer token; RFC 7628, KIP-255.

    Args:
        extensions: name → value, as the server wants them (Confluent Cloud: ``logicalCluster``).
    """

    mechanism = OAUTHBEARER

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self._token = token
        self._extensions = dict(extensions or {})
        self.done = False
        self.refusal: str | None = None

    def first(self) -> bytes:
        """The token and the extensions."""
        pairs = [("auth", f"Bearer {self._token}"), *self._extensions.items()]
        fields = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs)
        return f"{_NO_CHANNEL_BINDING}{_SEPARATOR}{fields}{_SEPARATOR}".encode()

    def next(self, message: bytes) -> bytes:
        """Nothing; or, to a refusal, one byte: after it the server ends the login."""
        if not message:
            self.done = True
            return b""
        if self.refusal is not None:
            raise SaslAuthenticationFailed(f"the broker refuses the token: {self.refusal}")
        self.refusal = _refusal(message)
        return _SEPARATOR.encode()


def _refusal(message: bytes) -> str:
    """The server's JSON in words: ``status``, and what it says besides."""
    text = _text(message)[:OAUTH_REFUSAL_CHARACTERS_MAX]
    try:
        fields = json.loads(text)
    except ValueError:
        return printable(text)
    if not isinstance(fields, dict) or str(fields.get("status", "")) in _SUCCESS_STATUS:
        return printable(text)
    more = (f"{name} {value}" for name, value in fields.items() if name != "status" and value)
    return printable(", ".join((str(fields["status"]), *more)))


def _text(message: bytes) -> str:
    if len(message) > SCRAM_MESSAGE_BYTES_MAX:
        raise _bad(f"it is {len(message)} bytes long")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise _bad("it is not text") from None


def _fields(text: str, names: tuple[str, ...]) -> dict[str, str]:
    """The first attributes of a SCRAM message, in this order. Other attributes may follow."""
    parts = text.split(",")
    if len(parts) < len(names):
        raise _bad("attributes are missing")
    found = {}
    for name, part in zip(names, parts, strict=False):
        if not part.startswith(f"{name}="):
            raise _bad(f"attribute {name!r} is missing")
        found[name] = part[2:]
    return found


def _iterations(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise _bad("the number of iterations is not a number")
    iterations = int(text)
    if not ITERATIONS_MIN <= iterations <= SCRAM_CLIENT_ITERATIONS_MAX:
        raise _bad(
            f"{iterations} iterations are not within {ITERATIONS_MIN} to "
            f"{SCRAM_CLIENT_ITERATIONS_MAX}"
        )
    return iterations


def _decoded(text: str) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _bad("it has invalid base64") from None
    if not decoded:
        raise _bad("an attribute is empty")
    return decoded


def _bad(why: str) -> SaslAuthenticationFailed:
    return SaslAuthenticationFailed(f"the broker's SASL message is not valid: {why}")
