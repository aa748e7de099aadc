"""The OpenID provider of ``sharegroup console --login-oidc``, as its file of settings names it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from sharegroup.broker.configs.listeners import is_loopback
from sharegroup.model.errors import ConfigError
from sharegroup.tls.contexts import client_context
from sharegroup.tls.stores import KeyStore, TrustStore

DEFAULTS: Final[Mapping[str, str | None]] = {
    "issuer": None,
    "client.id": None,
    "client.secret": "",
    "scope": "openid profile email",
    "broker.token": "access_token",
    "ca.location": "",
}
"""The settings, with their defaults; None: must be given."""
BROKER_TOKENS: Final = ("access_token", "id_token")


class Provider(NamedTuple):
    """The OpenID provider, and what it knows the console by.

    Attributes:
        issuer: its address, without ``/.well-known/openid-configuration``.
        client_secret: None: the console is a public client.
        scope: what is asked for.
        broker_token: which of the provider's two tokens the broker gets.
        tls: trusts the provider's certificate; None: the system's authorities do.
    """

    issuer: str
    client_id: str
    client_secret: str | None
    scope: str
    broker_token: str
    tls: ssl.SSLContext | None


def provider_of(given: Mapping[str, str], file: str) -> Provider:
    """The provider of these settings, which stand in ``file``.

    Raises:
        ConfigError: a setting is missing, wrong or unknown.
    """
    for name in given:
        if name not in DEFAULTS:
            raise ConfigError(
                f"{name} in {file} means nothing here: the settings are {', '.join(DEFAULTS)}"
            )
    settings: dict[str, str] = {}
    for name, default in DEFAULTS.items():
        text = given.get(name) or default
        if text is None:
            raise ConfigError(f"{file} lacks {name}")
        settings[name] = text
    if "openid" not in settings["scope"].split():
        raise ConfigError(f"scope in {file} lacks openid")
    if settings["broker.token"] not in BROKER_TOKENS:
        raise ConfigError(
            f"broker.token in {file} is {settings['broker.token']!r}: write "
            f"{' or '.join(BROKER_TOKENS)}"
        )
    location = settings["ca.location"]
    return Provider(
        issuer=_issuer(settings["issuer"], file),
        client_id=settings["client.id"],
        client_secret=settings["client.secret"] or None,
        scope=settings["scope"],
        broker_token=settings["broker.token"],
        tls=client_context(TrustStore(location=location), KeyStore()) if location else None,
    )


def _issuer(text: str, file: str) -> str:
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(f"issuer in {file} is {text!r}: write https://…")
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError(f"issuer in {file} would send tokens in the clear: write https://…")
    return text.rstrip("/")
