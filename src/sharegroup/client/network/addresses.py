"""Bootstrap addresses as users write them: ``host:port,host:port``, a list of addresses,
``[::1]:9092``, ``SASL_SSL://host:port``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from sharegroup.model.errors import ConfigError

DEFAULT_PORT: Final = 9092
_PROTOCOL: Final = re.compile(r"^\w+://")
"""Services show their addresses with a protocol before them; Java's clients skip it, too."""
_NOT_IN_HOST: Final = re.compile(r"[\s/;@'\"\[\]]")


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(servers: str | Iterable[str]) -> list[Address]:
    """The addresses of ``bootstrap_servers``; a missing port is 9092.

    Raises:
        ConfigError: there is no address, or one is not ``host:port``.
    """
    text = servers if isinstance(servers, str) else ",".join(servers)
    addresses = [_parse(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigError("bootstrap_servers is empty: write host:port, for example 127.0.0.1:9092")
    return addresses


def without_protocol(address: str) -> str:
    """The address without ``SASL_SSL://`` or the like before it."""
    return _PROTOCOL.sub("", address)


def _parse(text: str) -> Address:
    plain = without_protocol(text)
    host, colon, port = plain.rpartition(":")
    if not colon or plain.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = plain, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not _is_host(host) or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ConfigError(f"bootstrap_servers: {text!r} is not host:port")
    return Address(host, int(port))


def _is_host(host: str) -> bool:
    """Whether the text can be a host's name or address; whether that host exists is not asked."""
    try:
        if ":" in host:
            return bool(IPv6Address(host))
        host.encode("idna")  # as the system's resolver will
    except ValueError:
        return False
    return bool(host) and not _NOT_IN_HOST.search(host)
