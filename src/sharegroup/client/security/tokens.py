"""Bearer tokens: fixed, from a file, from a function, or from a token endpoint; kept while good."""

from __future__ import annotations

import asyncio
import base64
import binascii
import inspect
import json
import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from sharegroup.client.clock import wall_ms
from sharegroup.client.security.limited_calls import LimitedCalls, Overdue
from sharegroup.client.security.settings import Security
from sharegroup.model import errors
from sharegroup.tls.secret_file import read_secret

log = logging.getLogger("sharegroup.client")

_GOOD_PART: Final = 0.8
"""The part of its life for which a token is used; as Kafka's sasl.login.refresh.window.factor."""


TOKEN_S: Final = 6.0
"""How long, in seconds, to wait for a token: less than a client's start."""


class _Kept(NamedTuple):
    """A token, until when it is used without asking for another, and when it expires."""

    token: str
    good_until_ms: float
    expires_ms: float


class TokenSource:
    """The token of each login. It gets a new token when the last one has lived for most of its
    life, or does not say how long it lives. If there is no new token, the last one is used for as
    long as it lives. Any thread may ask: threads that ask at the same time share a token.

    Args:
        now_ms: the wall clock.

    Raises:
        ConfigError: the function that ``token_provider`` names does not exist.
    """

    def __init__(self, security: Security, now_ms: Callable[[], int] = wall_ms) -> None:
        self._security = security
        self._now_ms = now_ms
        provider = security.token_provider
        self._provider = None if provider is None else token_function(provider)
        self._calls = LimitedCalls(self._new)
        self._kept: _Kept | None = None
        self._warned = False

    def token(self, limit_s: float = TOKEN_S) -> str:
        """A token; may block for ``limit_s`` seconds.

        Raises:
            SaslAuthenticationFailed: the function, the file or the endpoint gives no token.
            NetworkException: there was no token in time, or there is none now and may be later.
        """
        if self._security.token is not None:
            return self._security.token
        kept = self._kept
        if kept is not None and self._now_ms() < kept.good_until_ms:
            return kept.token
        try:
            token = self._in_time(limit_s)
        except errors.KafkaError as error:
            kept = self._kept
            if kept is None or self._now_ms() >= kept.expires_ms:
                raise
            if not self._warned:
                log.warning("%s; the token from before is used for as long as it holds", error)
            self._warned = True
            return kept.token
        self._warned = False
        return token

    def _in_time(self, limit_s: float) -> str:
        try:
            return self._calls.result(limit_s)
        except Overdue as error:
            raise self._late(error) from None

    def _late(self, error: Overdue) -> errors.NetworkException:
        security = self._security
        if security.token_location is not None:
            return errors.NetworkException(
                f"reading the token file {security.token_location} {error}"
            )
        if security.token_endpoint_url is not None:
            from sharegroup.client.security.token_endpoint import shown_url

            shown = shown_url(security.token_endpoint_url)
            return errors.NetworkException(f"asking the token endpoint {shown} {error}")
        assert self._provider is not None
        return errors.NetworkException(f"the token function {name_of(self._provider)} {error}")

    def _new(self, limit_s: float) -> str:
        """A new token. It is kept, even if nobody waits for it any more."""
        security, now_ms = self._security, self._now_ms()
        if security.token_location is not None:
            token = _in_file(security.token_location)
            expires_ms = expiry_ms(token)
            # The file is read for each login.
            self._kept = _Kept(token, 0.0, math.inf if expires_ms is None else expires_ms)
            return token
        if security.token_endpoint_url is not None:
            from sharegroup.client.security.token_endpoint import ask_for_token

            token, seconds = ask_for_token(security)
            expires_ms = None if seconds is None else now_ms + seconds * 1000
        else:
            token, expires_ms = self._provided(limit_s)
        if expires_ms is None:
            expires_ms = expiry_ms(token)
        ends_ms = now_ms if expires_ms is None else expires_ms
        if self._kept is None or ends_ms >= self._kept.expires_ms:  # not one of a late call
            self._kept = _Kept(token, now_ms + _GOOD_PART * (ends_ms - now_ms), ends_ms)
        return token

    def _provided(self, limit_s: float) -> tuple[str, float | None]:
        """The token that the user's function returns, and when it expires, if it says so."""
        assert self._provider is not None
        try:
            given = self._provider()
            if inspect.isawaitable(given):
                given = asyncio.run(_awaited(given, limit_s))
        except Overdue as error:
            raise self._late(error) from None
        except (errors.KafkaError, errors.ConfigError) as error:
            if isinstance(error, errors.RetriableError):
                raise
            raise self._failed(f"there is no token: {error}", lasting=True) from None
        except Exception as error:  # noqa: BLE001  whatever a user's function raises
            # The error's text is left out: it may have the secret that the token was made with.
            said = f"the token provider raised {type(error).__name__}"
            raise self._failed(said, lasting=not isinstance(error, OSError)) from None
        token, expires_s = given if isinstance(given, tuple) else (given, None)
        if not isinstance(token, str) or not token:
            raise errors.SaslAuthenticationFailed(
                f"the token provider returned {type(token).__name__} instead of a token"
            )
        return token, None if expires_s is None else float(expires_s) * 1000

    def _failed(self, sentence: str, *, lasting: bool) -> errors.KafkaError:
        """The error if the function gives no token. A function that has given a token before may
        give one again, whatever it raised now."""
        if lasting and self._kept is None:
            return errors.SaslAuthenticationFailed(sentence)
        return errors.NetworkException(sentence)


def _in_file(location: str) -> str:
    try:
        return read_secret(location)
    except errors.ConfigError as error:
        raise errors.SaslAuthenticationFailed(f"there is no token: {error}") from None


async def _awaited(given: Awaitable[Any], limit_s: float) -> Any:
    """The result of an asynchronous function. If it hangs it is cancelled, so that its thread ends.

    Raises:
        Overdue: the function did not return in time.
    """
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await given
    except TimeoutError:
        if limit.expired():
            raise Overdue(limit_s) from None
        raise


def name_of(provider: Callable[..., Any]) -> str:
    """A function's full name, as in an import; for another object, the name of its class."""
    if isinstance(provider, partial):
        return name_of(provider.func)
    named = provider if hasattr(provider, "__qualname__") else type(provider)
    return f"{named.__module__}.{named.__qualname__}"


def token_function(provider: Callable[[], Any] | str) -> Callable[[], Any]:
    """The function of a dotted name: ``package.module:function`` or ``package.module.function``.

    Raises:
        ConfigError: there is no such function.
    """
    if not isinstance(provider, str):
        return provider
    module, _, name = provider.partition(":") if ":" in provider else provider.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        found = None
    if not callable(found):
        raise errors.ConfigError(
            f"there is no function {provider!r}: token_provider is package.module:function"
        )
    function: Callable[[], Any] = found
    return function


def expiry_ms(token: str) -> float | None:
    """When a JSON Web Token says that it expires; None: it does not say, or is no such token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"]) * 1000
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
