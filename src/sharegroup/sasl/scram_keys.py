"""What a SCRAM server stores of a password, and the keys of RFC 5802.

A stored credential does not let its reader log in: that needs the client key, which only the
password gives. Source: RFC 5802, RFC 7677; Kafka classes ScramFormatter, ScramMechanism.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from sharegroup.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512

ITERATIONS_MIN: Final = 4096
"""As in Kafka."""
ITERATIONS_MAX: Final = 16384
"""As in Kafka: more would let one login take a second of processor time."""


class ScramMechanism(IntEnum):
    """The numbers of Kafka's protocol (class ScramMechanism)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def hash_name(self) -> str:
        """The name of the hash function in :mod:`hashlib`."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def sasl_name(self) -> str:
        """The name of the mechanism in SASL."""
        return SCRAM_SHA_256 if self is ScramMechanism.SHA_256 else SCRAM_SHA_512


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What the server keeps of a password."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def salt_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Hi() of RFC 5802. It takes milliseconds on purpose: keep it off a busy event loop."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def client_key(mechanism: ScramMechanism, salted_password: bytes) -> bytes:
    """The key that proves knowledge of the password."""
    return hmac.digest(salted_password, b"Client Key", mechanism.hash_name)


def server_key(mechanism: ScramMechanism, salted_password: bytes) -> bytes:
    """The key by which the server proves that it knows the credential."""
    return hmac.digest(salted_password, b"Server Key", mechanism.hash_name)


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    """The hash of a client key: what the server compares with."""
    return hashlib.new(mechanism.hash_name, key).digest()


def credential(
    mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """What the server keeps of a salted password."""
    return ScramCredential(
        salt=salt,
        stored_key=stored_key(mechanism, client_key(mechanism, salted_password)),
        server_key=server_key(mechanism, salted_password),
        iterations=iterations,
    )
