"""Bootstrap addresses as users write them: ``host:port,host:port``, a list of such,
``[::1]:9092``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sharegroup.model.errors import ConfigError

DEFAULT_PORT: Final = 9092


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(servers: str | Iterable[str]) -> list[Address]:
    """The addresses of ``bootstrap_servers``; a missing port is 9092.

    Raises:
        ConfigError: there is none, or one is not ``host:port``.
    """
    text = servers if isinstance(servers, str) else ",".join(servers)
    addresses = [_parse(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigError("bootstrap_servers is empty: write host:port, for example 127.0.0.1:9092")
    return addresses


def _parse(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ConfigError(f"bootstrap_servers: {text!r} is not host:port")
    return Address(host, int(port))
