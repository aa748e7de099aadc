"""Bearer tokens: one that was given, from a function, or from a token endpoint; kept while good."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from sharegroup.client.clock import wall_ms
from sharegroup.client.security.settings import Security
from sharegroup.model.errors import (
    ConfigError,
    KafkaError,
    NetworkException,
    RetriableError,
    SaslAuthenticationFailed,
)
from sharegroup.tls.secret_file import read_secret

log = logging.getLogger("sharegroup.client")

_GOOD_PART: Final = 0.8
"""The part of its life for which a token is used; as Kafka's sasl.login.refresh.window.factor."""


class TokenSource:
    """The token of each login. It asks for a new one when the last has lived for most of its life,
    or when it does not say how long it lives. If there is no new one, the last one is used for as
    long as it lives.

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
        self._expires_ms = 0.0
        self._warned = False

    def token(self) -> str:
        """A token; may block.

        Raises:
            SaslAuthenticationFailed: the function, the file or the endpoint gives none.
            NetworkException: likewise, and it may later.
        """
        if self._security.token is not None:
            return self._security.token
        now_ms = self._now_ms()
        if self._token is not None and now_ms < self._good_until_ms:
            return self._token
        try:
            self._token = self._new(now_ms)
            self._warned = False
        except KafkaError as error:
            if self._token is None or now_ms >= self._expires_ms:
                raise
            if not self._warned:
                log.warning("%s; the token from before is used for as long as it holds", error)
            self._warned = True
        return self._token

    def _new(self, now_ms: int) -> str:
        """A new token. Notes how long it is used, and when it expires."""
        security = self._security
        if security.token_location is not None:
            token = _in_file(security.token_location)
            expires_ms = _expiry_ms(token)
            self._expires_ms = math.inf if expires_ms is None else expires_ms
            return token  # the file is read for each login
        if security.token_endpoint_url is not None:
            from sharegroup.client.security.token_endpoint import ask_for_token

            token, seconds = ask_for_token(security)
            expires_ms = None if seconds is None else now_ms + seconds * 1000
        else:
            token, expires_ms = self._provided()
        if expires_ms is None:
            expires_ms = _expiry_ms(token)
        self._expires_ms = now_ms if expires_ms is None else expires_ms
        self._good_until_ms = now_ms + _GOOD_PART * (self._expires_ms - now_ms)
        return token

    def _provided(self) -> tuple[str, float | None]:
        """What the function returns: a token, and when it expires, if that was said."""
        assert self._provider is not None
        try:
            given = self._provider()
        except (KafkaError, ConfigError) as error:
            if isinstance(error, RetriableError):
                raise
            raise self._failed(f"there is no token: {error}", lasting=True) from None
        except Exception as error:  # noqa: BLE001  whatever a user's function raises
            # Its text may have the secret that it was made with.
            said = f"the token provider raised {type(error).__name__}"
            raise self._failed(said, lasting=not isinstance(error, OSError)) from None
        token, expires_s = given if isinstance(given, tuple) else (given, None)
        if not isinstance(token, str) or not token:
            raise SaslAuthenticationFailed(
                f"the token provider returned {type(token).__name__} instead of a token"
            )
        return token, None if expires_s is None else float(expires_s) * 1000

    def _failed(self, sentence: str, *, lasting: bool) -> KafkaError:
        """The error for a function without a token. One that has given a token before may give one
        again, whatever it raised."""
        if lasting and self._token is None:
            return SaslAuthenticationFailed(sentence)
        return NetworkException(sentence)


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
