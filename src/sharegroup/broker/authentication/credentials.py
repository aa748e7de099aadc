"""What a listener knows about its users: passwords of PLAIN, credentials of SCRAM.

An unknown user is answered like a wrong password: with a false credential, after as much work.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from sharegroup.broker.authentication.password_checks import PasswordChecks
from sharegroup.model.limits import USERS_COMPARED_MAX
from sharegroup.sasl.mechanisms import PLAIN
from sharegroup.sasl.password_hash import PasswordHash
from sharegroup.sasl.scram_keys import ITERATIONS_MIN, ScramCredential, ScramMechanism
from sharegroup.sasl.users_file import FileUsers

Scram = Mapping[tuple[str, ScramMechanism], ScramCredential]

_NONCE_BYTES: Final = 24
_SALT_BYTES: Final = 16
_ALPHABET: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""The characters of which Kafka's tools make salts."""


class Credentials:
    """The users of one listener.

    Args:
        stored: SCRAM credentials that clients have created.
        file: users of ``sasl.users.file``.
        jaas: passwords by user, from ``plain.sasl.jaas.config``.
        secret: salts of unknown users are derived from it.
        entropy: returns so many random bytes.
    """

    def __init__(
        self,
        *,
        stored: Callable[[], Scram],
        file: Callable[[], FileUsers],
        jaas: Callable[[], Mapping[str, str]],
        secret: bytes,
        entropy: Callable[[int], bytes],
        checks: PasswordChecks,
    ) -> None:
        self._stored = stored
        self._file = file
        self._jaas = jaas
        self._secret = secret
        self._entropy = entropy
        self._checks = checks

    def nonce(self) -> str:
        """A new nonce of the server, its part of the exchange's nonce."""
        return base64.b64encode(self._entropy(_NONCE_BYTES)).decode()

    async def has_password(
        self, user: str, password: str, host: str, left: Callable[[], bool]
    ) -> bool:
        """Whether ``password`` is the user's. The check takes as long for unknown users.

        Args:
            host: the client's address.
            left: whether the client is gone by now.
        """
        passwords = self._file().passwords
        kept = passwords.get(user)
        in_file = False
        if passwords:  # for every name, so that the time does not tell whose hash is here
            nobodys = self._no_password(next(iter(passwords.values())))
            some = kept or nobodys
            in_file = await self._checks.matches(some, password, host, left) and kept is not None
        in_jaas = hmac.compare_digest(
            self._digest(self._jaas().get(user, "")), self._digest(password)
        )
        return in_file or (in_jaas and user in self._jaas())

    def knows(self, user: str, mechanism: str) -> bool:
        """Whether there is such a user of PLAIN or of SCRAM. Always true for tokens: their users
        are not known here."""
        if mechanism == PLAIN:
            return user in self._file().passwords or user in self._jaas()
        for scram in ScramMechanism:
            if scram.sasl_name == mechanism:
                return (user, scram) in self._stored() or (user, scram) in self._file().credentials
        return True

    def scram(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """The credential of a user; for an unknown user a false one."""
        # All three are looked up in any case, so that the time tells nothing.
        stored = self._stored().get((user, mechanism))
        in_file = self._file().credentials.get((user, mechanism))
        false = self._false(user, mechanism)
        return stored or in_file or false

    def _no_password(self, like: PasswordHash) -> PasswordHash:
        return PasswordHash(like.n, like.r, like.p, like.salt, bytes(len(like.hash)))

    def _false(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """A false credential. Its salt and iterations, which a client sees, look like real ones."""
        kinds = Counter(
            (kept.iterations, len(kept.salt), kept.salt.isalnum())
            for users in (self._stored(), self._file().credentials)
            for (user, of), kept in islice(users.items(), USERS_COMPARED_MAX)
            if of is mechanism and user
        )
        usual = min(kinds, key=lambda kind: (-kinds[kind], kind)) if kinds else None
        iterations, size, text = usual or (ITERATIONS_MIN, _SALT_BYTES, False)
        salt = hashlib.shake_256(self._digest(f"{mechanism} {user}")).digest(size)
        if text:
            salt = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in salt)
        size = hashlib.new(mechanism.hash_name).digest_size
        # Random, so nobody knows a client key whose hash it is.
        return ScramCredential(
            salt=salt,
            stored_key=self._entropy(size),
            server_key=self._entropy(size),
            iterations=iterations,
        )

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(), "sha256")
