"""The file of users that ``sharegroup users --file`` writes and ``sasl.users.file`` names.

One line for each user and mechanism: ``NAME:scrypt$…`` for PLAIN, ``NAME:SCRAM-SHA-256$ITERATIONS$
SALT$STORED_KEY$SERVER_KEY`` (or 512) for SCRAM. Names are percent-encoded. Lines that begin with
``#`` are comments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from sharegroup.model.errors import ConfigError, MalformedMessage
from sharegroup.sasl.password_hash import PasswordHash
from sharegroup.sasl.scram_keys import ScramCredential, ScramMechanism, credential, salt_password
from sharegroup.sasl.scram_messages import from_base64, to_base64

_SCRAM = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


@dataclass(frozen=True, slots=True)
class FileUsers:
    """The users of a file."""

    passwords: Mapping[str, PasswordHash] = field(default_factory=dict, repr=False)
    credentials: Mapping[tuple[str, ScramMechanism], ScramCredential] = field(
        default_factory=dict, repr=False
    )

    @property
    def names(self) -> list[str]:
        """The names of all users, sorted."""
        return sorted({*self.passwords, *(user for user, _ in self.credentials)})


def parse_users(text: str, where: str) -> FileUsers:
    """The users of a file's text.

    Raises:
        ConfigError: a line is wrong; the sentence has its number, not its text.
    """
    passwords: dict[str, PasswordHash] = {}
    credentials: dict[tuple[str, ScramMechanism], ScramCredential] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = _bare(line)
        if not line or line.startswith("#"):
            continue
        name, _, value = line.partition(":")
        scheme, _, rest = value.partition("$")
        user = unquote(name)
        try:
            if not user:
                raise MalformedMessage("a line is written NAME:scrypt$… or NAME:SCRAM-SHA-256$…")
            if scheme in _SCRAM:
                credentials[user, _SCRAM[scheme]] = _credential(rest)
            else:
                passwords[user] = PasswordHash.parse(value)
        except MalformedMessage as error:
            raise ConfigError(f"{where}, line {number}: {error}") from None
    return FileUsers(passwords, credentials)


def user_lines(name: str, password: str, salt: bytes, iterations: int) -> list[str]:
    """The lines of a new user, for every mechanism. To make them takes a tenth of a second.

    Args:
        salt: 48 random bytes; each line takes 16 bytes of its own.
    """
    key = quote(name, safe="")
    lines = [f"{key}:{PasswordHash.of(password, salt[:16]).text}"]
    for number, mechanism in enumerate(ScramMechanism, start=1):
        own = salt[16 * number : 16 * (number + 1)]
        salted = salt_password(mechanism, password, own, iterations)
        kept = credential(mechanism, salted, own, iterations)
        texts = (kept.salt, kept.stored_key, kept.server_key)
        encoded = "$".join(map(to_base64, texts))
        lines.append(f"{key}:{mechanism.sasl_name}${iterations}${encoded}")
    return lines


def without(text: str, name: str) -> str:
    """A file's text without the lines of a user, however its name is written there."""
    return "".join(line for line in text.splitlines(keepends=True) if _user_of(line) != name)


def _user_of(line: str) -> str | None:
    """The user of a line; None: the line is a comment."""
    line = _bare(line)
    if line.startswith("#"):
        return None
    return unquote(line.partition(":")[0])


def _bare(line: str) -> str:
    """A line without blanks around it, and without the BOM that an editor may write before the
    first one."""
    return line.removeprefix("\ufeff").strip()


def _credential(text: str) -> ScramCredential:
    try:
        iterations, salt, stored, server = text.split("$")
        count = int(iterations)
    except ValueError:
        raise MalformedMessage(
            "a SCRAM credential is written ITERATIONS$SALT$STORED_KEY$SERVER_KEY"
        ) from None
    if not 1 <= count <= 1_000_000:
        raise MalformedMessage("a SCRAM credential with too many iterations")
    return ScramCredential(
        salt=from_base64(salt),
        stored_key=from_base64(stored),
        server_key=from_base64(server),
        iterations=count,
    )
