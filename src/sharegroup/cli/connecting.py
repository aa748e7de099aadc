"""Which broker a command speaks to, and how: --command-config, and the environment.

``--command-config FILE`` has the properties of Java's clients or of librdkafka. A security
property can also be set as a variable: ``sasl.mechanism`` as ``SHAREGROUP_SASL_MECHANISM``. A
property in the file wins over its variable. No password is an option of a command: it would be
seen in ``ps``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from sharegroup.client.security.properties import is_security_property, parse_security
from sharegroup.client.security.settings import NO_SECURITY, SASL_PLAINTEXT, Security
from sharegroup.model.errors import ConfigError
from sharegroup.sasl.mechanisms import OAUTHBEARER, PASSWORDS, SCRAM_SHA_512

PREFIX: Final = "SHAREGROUP_"
SERVERS: Final = "bootstrap.servers"
PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
_OF_SOMEBODY: Final = ("sasl.jaas.config", "sasl.username", "sasl.password")
_OF_TOKENS: Final = "sasl.oauthbearer."
_LOGINS: Final = {
    "password": (PASSWORDS, SCRAM_SHA_512, {"sasl.username": "-", "sasl.password": "-"}),
    "token": ((OAUTHBEARER,), OAUTHBEARER, {"sasl.oauthbearer.token": "-"}),
}
"""How viewers log in → the mechanisms, the usual one, and what is to be replaced."""
_HARMLESS: Final = {
    "client.dns.lookup": ("use_all_dns_ips",),
    "acks": ("all", "-1"),
    "session.timeout.ms": ("45000",),
}
"""Property → values that change nothing, because a command works like that anyway; many files have
them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """The addresses of a command's broker, and how to connect to it."""

    servers: str
    security: Security = NO_SECURITY
    client_id: str | None = None
    request_timeout_ms: int | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for a client, besides its servers."""
        found: dict[str, Any] = {"security": self.security}
        if self.client_id is not None:
            found["client_id"] = self.client_id
        if self.request_timeout_ms is not None:
            found["request_timeout_ms"] = self.request_timeout_ms
        return found


def broker_of(
    bootstrap_server: str, command_config: str | None = None, *, anybody: str | None = None
) -> BrokerAddress:
    """The broker of a command's options.

    Args:
        anybody: who connects is not known yet: the settings are for a login by "password", with a
            name and a password to be replaced, or by "token", with a token to be replaced.

    Raises:
        ConfigError: the file cannot be read, or a property is wrong.
    """
    given = {} if command_config is None else read_config(command_config)
    security = {name: text for name, text in given.items() if is_security_property(name)}
    rest = {name: text for name, text in given.items() if name not in security}
    rest.pop(SERVERS, None)  # the option --bootstrap-server has it already
    client_id = rest.pop("client.id", None)
    timeout = rest.pop("request.timeout.ms", None)
    for name, text in rest.items():
        if text not in _HARMLESS.get(name, ()):
            raise ConfigError(
                f"{name} in {command_config} means nothing to this command: take it out"
            )
    security = {**properties_of(os.environ), **security}
    return BrokerAddress(
        servers=bootstrap_server,
        security=_of_anybody(security, anybody) if anybody else parse_security(security),
        client_id=client_id or None,
        request_timeout_ms=None if timeout is None else _milliseconds(timeout),
    )


def _of_anybody(properties: Mapping[str, str], login: str) -> Security:
    named = [name for name in properties if name in _OF_SOMEBODY or name.startswith(_OF_TOKENS)]
    if named:
        raise ConfigError(f"each viewer logs in: take {named[0]} out")
    mechanisms, usual, somebody = _LOGINS[login]
    given = {PROTOCOL: SASL_PLAINTEXT, MECHANISM: usual, **properties}
    if given[MECHANISM] not in mechanisms:
        raise ConfigError(
            f"viewers log in by a {login}, and {MECHANISM}={given[MECHANISM]} knows none: set "
            f"{', '.join(mechanisms)}"
        )
    return parse_security({**given, **somebody})


@cache
def read_config(location: str) -> Mapping[str, str]:
    """The properties in a file, in Java's syntax.

    Raises:
        ConfigError: the file cannot be read.
    """
    from sharegroup.broker.configs.properties import parse_properties

    try:
        return parse_properties(Path(location).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{location} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise ConfigError(f"{location} is not text") from None


def properties_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The security properties among the variables."""
    found = {
        name.removeprefix(PREFIX).lower().replace("_", "."): text
        for name, text in environment.items()
        if name.startswith(PREFIX)
    }
    return {name: text for name, text in found.items() if is_security_property(name)}


def _milliseconds(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ConfigError(f"request.timeout.ms is {text!r}: write a number of milliseconds")
    return int(text)
