"""Bearer tokens: one that was given, from a function, or from a token endpoint; kept while good."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from sharegroup.client.clock import wall_ms
from sharegroup.client.security.settings import Security
from sharegroup.model.errors import ConfigError, KafkaError, SaslAuthenticationFailed
from sharegroup.tls.secret_file import read_secret

_GOOD_PART: Final = 0.8
"""The part of its life for which a token is used; as Kafka's sasl.login.refresh.window.factor."""


class TokenSource:
    """The token of each login. It asks for a new one when the last has lived for most of its life,
    or when it does not say how long it lives.

    Args:
        now_ms: the wall clock.

    Raises:
        ConfigError: there is no such function.
    """

    def __init__(self, security: Security, now_ms: Callable[[], int] = wall_ms) -> None:
        self._security = security
        self._now_ms = now_ms
        provider = security.token_provider
        self._provider = None if provider is None else token_function(provider)
        self._token: str | None = None
        self._good_until_ms = 0.0

    def token(self) -> str:
        """A token; may block.

        Raises:
            SaslAuthenticationFailed: the function, the file or the endpoint gives none.
            NetworkException: the endpoint cannot be reached.
        """
        if self._security.token is not None:
            return self._security.token
        if self._security.token_location is not None:
            return _in_file(self._security.token_location)
        now_ms = self._now_ms()
        if self._token is None or now_ms >= self._good_until_ms:
            token, expires_ms = self._new()
            if expires_ms is None:
                expires_ms = _expiry_ms(token)
            self._token = token
            life_ms = 0 if expires_ms is None else expires_ms - now_ms
            self._good_until_ms = now_ms + _GOOD_PART * life_ms
        return self._token

    def _new(self) -> tuple[str, float | None]:
        """The token, and when it expires, if that was said."""
        security = self._security
        if security.token_endpoint_url is not None:
            from sharegroup.client.security.token_endpoint import ask_for_token

            token, seconds = ask_for_token(security)
            return token, None if seconds is None else self._now_ms() + seconds * 1000
        assert self._provider is not None
        try:
            given = self._provider()
        except KafkaError:
            raise
        except ConfigError as error:
            raise SaslAuthenticationFailed(f"there is no token: {error}") from None
        except Exception as error:  # noqa: BLE001  whatever a user's function raises
            # Its text may have the secret that it was made with.
            raise SaslAuthenticationFailed(
                f"the token provider raised {type(error).__name__}"
            ) from None
        token, expires_s = given if isinstance(given, tuple) else (given, None)
        if not isinstance(token, str) or not token:
            raise SaslAuthenticationFailed(
                f"the token provider returned {type(token).__name__} instead of a token"
            )
        return token, None if expires_s is None else float(expires_s) * 1000


def _in_file(location: str) -> str:
    try:
        return read_secret(location)
    except ConfigError as error:
        raise SaslAuthenticationFailed(f"there is no token: {error}") from None


def token_function(provider: Callable[[], Any] | str) -> Callable[[], Any]:
    """The function of a dotted name: ``package.module:function`` or ``package.module.function``.

    Raises:
        ConfigError: there is none.
    """
    if not isinstance(provider, str):
        return provider
    module, _, name = provider.partition(":") if ":" in provider else provider.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        found = None
    if not callable(found):
        raise ConfigError(
            f"there is no function {provider!r}: token_provider is package.module:function"
        )
    function: Callable[[], Any] = found
    return function


def _expiry_ms(token: str) -> float | None:
    """When a JSON Web Token expires, by its own words; None: it does not say, or is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"]) * 1000
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
