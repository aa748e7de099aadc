"""The messages of SCRAM, read and written (RFC 5802, section 7)."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Final

from sharegroup.model.errors import MalformedMessage

_PRINTABLE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
"""A nonce: printable ASCII without comma."""
_NAME: Final = re.compile(r"(?:[^=,\0]|=2C|=3D)+")
_ITERATIONS: Final = re.compile(r"[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFirst:
    """``gs2-header client-first-message-bare``.

    Attributes:
        gs2_header: up to the second comma; the last message must repeat it.
        binding: ``n``, ``y``, or ``p=…``: what the client says about channel binding.
        authorization_id: whom the client wants to act as; empty: itself.
        bare: what both sides prove to have seen.
        extensions: what comes after the nonce, as Kafka's ``tokenauth=true``.
    """

    gs2_header: str
    binding: str
    authorization_id: str
    user: str
    nonce: str
    bare: str
    extensions: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFirst:
    """``r=nonce,s=salt,i=iterations``."""

    nonce: str
    salt: bytes = field(repr=False)
    iterations: int

    def __str__(self) -> str:
        return f"r={self.nonce},s={to_base64(self.salt)},i={self.iterations}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFinal:
    """``c=binding,r=nonce,p=proof``. ``without_proof``: the part of the message that is proved."""

    channel_binding: bytes
    nonce: str
    proof: bytes = field(repr=False)
    without_proof: str


def parse_client_first(message: bytes) -> ClientFirst:
    """The first message of a client.

    Raises:
        MalformedMessage: the bytes are not such a message.
    """
    text = _text(message)
    binding, comma, rest = text.partition(",")
    authorization, second, bare = rest.partition(",")
    if not (comma and second and (binding in ("n", "y") or binding.startswith("p="))):
        raise MalformedMessage("SCRAM: the first message has no GS2 header")
    if authorization and not authorization.startswith("a="):
        raise MalformedMessage("SCRAM: the first message has a wrong GS2 header")
    fields = bare.split(",", 2)
    if len(fields) < 2 or not (fields[0].startswith("n=") and fields[1].startswith("r=")):
        raise MalformedMessage("SCRAM: the first message is not n=NAME,r=NONCE")
    return ClientFirst(
        gs2_header=f"{binding},{authorization},",
        binding=binding,
        authorization_id=_name(authorization[2:]) if authorization else "",
        user=_name(fields[0][2:]),
        nonce=_nonce(fields[1][2:]),
        bare=bare,
        extensions=fields[2] if len(fields) > 2 else "",
    )


def parse_server_first(message: bytes) -> ServerFirst:
    """The first message of a server.

    Raises:
        MalformedMessage: the bytes are not such a message.
    """
    fields = _text(message).split(",", 3)
    if len(fields) < 3 or [each[:2] for each in fields[:3]] != ["r=", "s=", "i="]:
        raise MalformedMessage("SCRAM: the server's message is not r=NONCE,s=SALT,i=ITERATIONS")
    if not _ITERATIONS.fullmatch(fields[2][2:]):
        raise MalformedMessage("SCRAM: the server's iterations are no number")
    return ServerFirst(
        nonce=_nonce(fields[0][2:]),
        salt=from_base64(fields[1][2:]),
        iterations=int(fields[2][2:]),
    )


def parse_client_final(message: bytes) -> ClientFinal:
    """The last message of a client.

    Raises:
        MalformedMessage: the bytes are not such a message.
    """
    text = _text(message)
    without_proof, comma, proof = text.rpartition(",p=")
    fields = without_proof.split(",", 2)
    if not comma or len(fields) < 2 or [each[:2] for each in fields[:2]] != ["c=", "r="]:
        raise MalformedMessage("SCRAM: the last message is not c=BINDING,r=NONCE,p=PROOF")
    return ClientFinal(
        channel_binding=from_base64(fields[0][2:]),
        nonce=_nonce(fields[1][2:]),
        proof=from_base64(proof),
        without_proof=without_proof,
    )


def to_base64(data: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(data).decode()


def from_base64(text: str) -> bytes:
    """The bytes of a base64 text.

    Raises:
        MalformedMessage: the text is no base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedMessage("SCRAM: a field is no base64") from None


def escaped(name: str) -> str:
    """A name with the escapes that it has in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise MalformedMessage("SCRAM: a name is empty, or not escaped")
    return text.replace("=2C", ",").replace("=3D", "=")


def _nonce(text: str) -> str:
    if not _PRINTABLE.fullmatch(text):
        raise MalformedMessage("SCRAM: a nonce is empty, or not printable")
    return text


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise MalformedMessage("SCRAM: a message is no UTF-8") from None
