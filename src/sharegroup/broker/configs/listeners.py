"""``listeners`` and ``advertised.listeners``: where to accept connections, and the addresses told
to clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from sharegroup.model.errors import InvalidConfig

_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]]*):(\d{1,5})")
PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
SASL_PROTOCOLS: Final = (SASL_PLAINTEXT, SASL_SSL)
TLS_PROTOCOLS: Final = (SSL, SASL_SSL)


class Listener(NamedTuple):
    """One endpoint. An empty host means every interface, port 0 any free port."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listeners(
    setting: str, texts: Iterable[str], not_opened: Iterable[str]
) -> list[Listener]:
    """The endpoints of a list of ``NAME://HOST:PORT``, without those whose name is among
    ``not_opened``.

    Raises:
        InvalidConfig: one cannot be parsed, its port is invalid, or its name occurs twice.
    """
    found = [_parse(setting, text) for text in texts]
    names = [listener.name for listener in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidConfig(f"{setting}: the listener name {name} occurs twice")
    passed_over = {name.upper() for name in not_opened}
    return [listener for listener in found if listener.name not in passed_over]


def parse_protocols(texts: Iterable[str]) -> dict[str, str]:
    """Protocol by listener name, from ``NAME:PROTOCOL`` texts.

    Raises:
        InvalidConfig: one cannot be read.
    """
    protocols: dict[str, str] = {}
    for text in texts:
        name, colon, protocol = text.partition(":")
        if not (name and colon and protocol):
            raise InvalidConfig(f"listener.security.protocol.map: {text!r} is not NAME:PROTOCOL")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_counts(setting: str, texts: Iterable[str]) -> dict[str, int]:
    """Count by host, from ``HOST:COUNT`` texts.

    Raises:
        InvalidConfig: one cannot be read.
    """
    counts: dict[str, int] = {}
    for text in texts:
        host, colon, count = text.rpartition(":")
        if not (host and colon and count.isascii() and count.isdigit()):
            raise InvalidConfig(f"{setting}: {text!r} is not HOST:COUNT")
        counts[host.strip().strip("[]")] = int(count)
    return counts


def check_protocols(listeners: Iterable[Listener], protocols: Mapping[str, str]) -> None:
    """Refuse a listener whose protocol is not known.

    Raises:
        InvalidConfig: no protocol is set for its name, or there is no such protocol.
    """
    for listener in listeners:
        protocol = protocols.get(listener.name)
        if protocol is None:
            raise InvalidConfig(
                f"listeners: {listener.name} has no protocol; "
                f"add {listener.name}:SASL_SSL to listener.security.protocol.map "
                f"({', '.join(PROTOCOLS)})"
            )
        if protocol not in PROTOCOLS:
            raise InvalidConfig(
                f"listener.security.protocol.map: {protocol} is none of {', '.join(PROTOCOLS)}"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``."""
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_every_interface(host: str) -> bool:
    """Whether ``host`` stands for every interface, so that clients cannot connect to it."""
    try:
        return not host or ip_address(host).is_unspecified
    except ValueError:
        return False


def check_advertised(listeners: Iterable[Listener]) -> None:
    """Refuse addresses that no client can connect to, as Kafka does.

    Raises:
        InvalidConfig: an address that stands for every interface.
    """
    for listener in listeners:
        if listener.host and is_every_interface(listener.host):
            raise InvalidConfig(
                f"advertised.listeners: clients cannot connect to {listener.host}; "
                "write a name or an address that they reach"
            )


def _parse(setting: str, text: str) -> Listener:
    match = _LISTENER.fullmatch(text)
    port = int(match.group(3)) if match else -1
    if match is None or port > 65_535:
        raise InvalidConfig(f"{setting}: {text!r} is not PLAINTEXT://HOST:PORT")
    return Listener(match.group(1).upper(), match.group(2).strip("[]"), port)
