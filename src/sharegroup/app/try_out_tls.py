"""``--tls-self-signed DIR``: TLS for a try, with an authority of one's own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from sharegroup.app.addresses import machine_name
from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listeners import (
    PLAINTEXT,
    SASL_PLAINTEXT,
    SASL_PROTOCOLS,
    SASL_SSL,
    SSL,
    TLS_PROTOCOLS,
    Listener,
    is_every_interface,
)
from sharegroup.model.errors import ConfigError

AUTHORITY: Final = "ca.pem"
AUTHORITY_KEY: Final = "ca.key"
BROKER: Final = "broker.pem"
CLIENT: Final = "client.pem"
_ELSEWHERE: Final = ", which would overwrite it: name another folder"
_ENCRYPTED: Final = {PLAINTEXT: SSL, SASL_PLAINTEXT: SASL_SSL}


def with_try_out_tls(
    config: BrokerConfig, listeners: Sequence[Listener], folder: str
) -> tuple[BrokerConfig, list[Listener], list[str]]:
    """Let listeners speak TLS with certificates in ``folder``, which are made if the folder has
    none. A listener with a name of its own keeps the protocol that listener.security.protocol.map
    has for it. Returns settings, listeners, and the lines for the properties file of a client.

    Raises:
        ConfigError: the folder cannot be used.
    """
    path = Path(folder)
    encrypted = [_encrypted(config, listener) for listener in listeners]
    hosts = {listener.host for listener in (*encrypted, *config.advertised_listeners)}
    wants_certificates = any(
        config.listener(listener.name).text("ssl.client.auth") != "none" for listener in encrypted
    )
    try:
        _make(path, hosts, client=wants_certificates)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--tls-self-signed {folder} cannot be used: {error}") from None
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(path / BROKER),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(path / AUTHORITY),
        **config.static,
    }
    if "advertised.listeners" in config.static:
        told = [_encrypted(config, listener) for listener in config.advertised_listeners]
        settings["advertised.listeners"] = ",".join(map(str, told))
    secured = replace(config, static=settings).listening(encrypted)
    first = next((each for each in encrypted if config.protocol(each.name) in TLS_PROTOCOLS), None)
    if first is None:
        raise ConfigError(
            "--tls-self-signed: every listener has a name of its own, and none speaks SSL or "
            "SASL_SSL by listener.security.protocol.map"
        )
    return secured, encrypted, _client_lines(secured, first, path, wants_certificates)


def _encrypted(config: BrokerConfig, listener: Listener) -> Listener:
    """A listener whose name is its protocol gets the name of the encrypted protocol."""
    protocol = config.protocol(listener.name)
    if listener.name == protocol:
        return listener._replace(name=_ENCRYPTED.get(protocol, protocol))
    return listener


def _make(folder: Path, hosts: Iterable[str], *, client: bool) -> None:
    """Make the files that are missing, and the broker's certificate anew at each start: the
    certificate is for the names of this start, and never expires before the authority does."""
    from sharegroup.tls.self_signed import Identity, authority, signed

    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / AUTHORITY, folder / AUTHORITY_KEY
    own = None
    if certificate.exists() and key.exists():
        own = Identity.load(certificate.read_text(), key.read_text())
        if not own.for_a_try:
            raise ValueError(f"{AUTHORITY} is of another authority{_ELSEWHERE}")
    else:
        _refuse_others(folder)
    if own is None or own.expired:
        own = authority()
        (folder / CLIENT).unlink(missing_ok=True)
        _write(key, own.key_pem)
        certificate.write_text(own.certificate_pem)
    names = {"localhost", "127.0.0.1", "::1", machine_name()}
    names |= {host for host in hosts if not is_every_interface(host)}
    broker = signed(own, "broker", hosts=sorted(names))
    _write(folder / BROKER, broker.key_pem + broker.certificate_pem + own.certificate_pem)
    if client and not (folder / CLIENT).exists():
        made = signed(own, "client")
        _write(folder / CLIENT, made.key_pem + made.certificate_pem)


def _refuse_others(folder: Path) -> None:
    """Raise ValueError if a file that would be written is there already: it is somebody else's."""
    for name in (AUTHORITY, AUTHORITY_KEY, BROKER, CLIENT):
        if (folder / name).exists():
            raise ValueError(f"{name} is there and not made by this command{_ELSEWHERE}")


def _write(path: Path, secret: str) -> None:
    """Write a file that only this user can read, from its first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)
        file.write(secret)


def _client_lines(
    config: BrokerConfig, listener: Listener, folder: Path, certificate: bool
) -> list[str]:
    protocol = config.protocol(listener.name)
    lines = [
        f"security.protocol={protocol}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={(folder / AUTHORITY).resolve()}",
    ]
    if certificate:
        lines += [
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={(folder / CLIENT).resolve()}",
        ]
    if protocol in SASL_PROTOCOLS:
        (mechanism, *_) = config.listener(listener.name).names("sasl.enabled.mechanisms")
        lines.append(f"sasl.mechanism={mechanism}")
    return lines
