"""Salted hashes of passwords for PLAIN, as text: ``scrypt$N$r$p$SALT$HASH`` (RFC 7914).

A hash takes some 50 ms and 16 MiB on purpose: call these functions off the event loop.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from sharegroup.model.errors import MalformedMessage
from sharegroup.sasl.scram_messages import from_base64, to_base64

_N: Final = 2**14
_R: Final = 8
_P: Final = 1
_N_MAX: Final = 2**18
_HASH_BYTES: Final = 32
_MEMORY_MAX: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """One salted hash and what it cost."""

    n: int
    r: int
    p: int
    salt: bytes = field(repr=False)
    hash: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, salt: bytes) -> PasswordHash:
        """The hash of a new password; ``salt`` are 16 random bytes."""
        return cls(_N, _R, _P, salt, _scrypt(password, salt, _N, _R, _P))

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """The hash that :meth:`text` wrote.

        Raises:
            MalformedMessage: the text is not such a hash.
        """
        try:
            scheme, n, r, p, salt, digest = text.split("$")
            costs = int(n), int(r), int(p)
        except ValueError:
            raise MalformedMessage("a password hash is written scrypt$N$r$p$SALT$HASH") from None
        power_of_two = costs[0] > 1 and costs[0] & (costs[0] - 1) == 0
        if scheme != "scrypt" or not power_of_two or costs[0] > _N_MAX:
            raise MalformedMessage("a password hash is written scrypt$N$r$p$SALT$HASH")
        if not (1 <= costs[1] <= 32 and 1 <= costs[2] <= 16):
            raise MalformedMessage("a password hash with r over 32, or p over 16")
        return cls(*costs, from_base64(salt), from_base64(digest))

    @property
    def text(self) -> str:
        """The hash as text, for a file."""
        salt, digest = to_base64(self.salt), to_base64(self.hash)
        return f"scrypt${self.n}${self.r}${self.p}${salt}${digest}"

    def matches(self, password: str) -> bool:
        """Whether it is the hash of ``password``."""
        found = _scrypt(password, self.salt, self.n, self.r, self.p)
        return hmac.compare_digest(found, self.hash)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=n, r=r, p=p, dklen=_HASH_BYTES, maxmem=_MEMORY_MAX
    )
