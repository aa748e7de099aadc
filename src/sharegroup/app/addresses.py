"""The addresses where a broker listens, and the addresses that its clients are told."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from ipaddress import ip_address

from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listeners import Listener, is_every_interface
from sharegroup.model.errors import ConfigError

logger = logging.getLogger("sharegroup.broker")


def listeners(listen: str | None, config: BrokerConfig) -> list[Listener]:
    """The configured listeners. ``listen`` ([NAME://]HOST:PORT) replaces the address of the first
    listener, and its name if ``listen`` has a name.

    Raises:
        ConfigError: ``listen`` cannot be parsed.
    """
    first, *others = config.listeners
    if listen is not None:
        name, scheme, place = listen.rpartition("://")
        name = name.strip().upper() if scheme else first.name
        first = Listener(name, *address("--listen", place))
    return [first, *others]


def address(option: str, text: str) -> tuple[str, int]:
    """Host and port of ``text``; an empty host means every interface.

    Raises:
        ConfigError: ``text`` is not HOST:PORT.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{option} takes HOST:PORT, such as 127.0.0.1:9092, not {text!r}")
    return host.strip("[]") or "0.0.0.0", int(port)


def name_for_clients(config: BrokerConfig, opened: Sequence[Listener]) -> str:
    """The name of this machine if a listener on every interface needs it, else empty.

    Clients of such a listener need a name, because they cannot connect to 0.0.0.0.

    Raises:
        ConfigError: the machine's name has no address, so that no client could connect to it.
    """
    needed = [each for each in opened if is_every_interface(each.host) and not _told(config, each)]
    if not needed:
        return ""
    first = needed[0]
    name = machine_name()
    line = f"-o advertised.listeners={first.name}://HOST:{first.port}"
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(name, None)}
    except OSError:
        raise ConfigError(
            f"clients cannot be told how to reach {first.host or '*'}:{first.port}: this machine's "
            f"name, {name}, has no address. Set an address that they can reach: {line}"
        ) from None
    if all(ip_address(each.partition("%")[0]).is_loopback for each in found):
        logger.warning(
            "clients are told to connect to %s, which is %s on this machine. "
            "For clients on other machines: %s",
            name,
            ", ".join(sorted(found)),
            line,
        )
    else:
        logger.info("clients are told to connect to %s. To tell them another host: %s", name, line)
    return name


def _told(config: BrokerConfig, listener: Listener) -> bool:
    told = config.advertised(listener.name)
    return told is not None and bool(told.host)


def machine_name() -> str:
    """The host name, with its domain if known. Many hosts files give localhost as the full name;
    then the plain host name is used."""
    full = socket.getfqdn()
    return socket.gethostname() if full.split(".")[0] in ("localhost", "ip6-localhost") else full
