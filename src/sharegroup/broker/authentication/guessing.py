"""Slows down whoever guesses passwords.

A claim is the attempt of a client at one address to log in as one user. Claims from one address for
one user are checked a few at a time. After a wrong claim, the next such claim is checked only when
the delay of the wrong claim's answer is over, and the delay doubles. So it helps neither to guess
over many connections at once, nor to leave without waiting for the answers. Other users, and this
user at other addresses, are not delayed: nobody can lock them out.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from sharegroup.model.environment import Clock
from sharegroup.model.limits import (
    CLAIMS_AT_ONCE_MAX,
    CLAIMS_FOLLOWED_MAX,
    CLAIMS_USER_CHARACTERS,
    FAILURE_DELAY_DOUBLINGS_MAX,
)
from sharegroup.sasl.server import LoginRefused

FORGOTTEN_MS: Final = 60_000
"""After this time without a wrong claim, the delay begins anew."""


class ClientLeft(LoginRefused):
    """The client has left before its claim was checked."""

    def __init__(self) -> None:
        super().__init__("the client has left")


class _Claims:
    """The claims from one address for one user."""

    def __init__(self) -> None:
        self.failures = 0
        self.failed_ms = 0
        self.next_ms = 0  # no further claim is checked before this time
        self.waiting = 0
        self.few = asyncio.Semaphore(CLAIMS_AT_ONCE_MAX)
        self.alone = asyncio.Lock()


class Guessing:
    """Args:
    first_ms: the delay of the answer to a first wrong claim.
    """

    def __init__(self, clock: Clock, first_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._first_ms = first_ms
        self._claims: OrderedDict[tuple[str, str], _Claims] = OrderedDict()

    def __len__(self) -> int:
        return len(self._claims)

    @asynccontextmanager
    async def turn(self, host: str, user: str, left: Callable[[], bool]) -> AsyncIterator[None]:
        """Wait until a claim may be checked. Then :meth:`failed` or :meth:`succeeded` must be
        called.

        Raises:
            Left: the client has left meanwhile.
        """
        claims = self._of(host, user)
        claims.waiting += 1
        try:
            async with claims.few:
                if not claims.failures:
                    _check(left)
                    yield
                    return
                async with claims.alone:
                    _check(left)
                    await asyncio.sleep(max(0, claims.next_ms - self._clock.monotonic_ms()) / 1000)
                    yield
        finally:
            claims.waiting -= 1
            self._forget(host, user, claims)

    def failed(self, host: str, user: str) -> int:
        """Count a wrong claim. Returns for how many milliseconds its answer must be delayed."""
        claims, now_ms = self._of(host, user), self._clock.monotonic_ms()
        if now_ms - claims.failed_ms > FORGOTTEN_MS:
            claims.failures = 0
        delay_ms = int(self._first_ms()) << min(claims.failures, FAILURE_DELAY_DOUBLINGS_MAX)
        claims.failures += 1
        claims.failed_ms = now_ms
        claims.next_ms = now_ms + delay_ms
        return delay_ms

    def succeeded(self, host: str, user: str) -> None:
        """A claim was right: forget earlier wrong ones, which may have been mistakes."""
        claims = self._of(host, user)
        claims.failures = 0
        self._forget(host, user, claims)

    def _of(self, host: str, user: str) -> _Claims:
        key = _key(host, user)
        claims = self._claims.setdefault(key, _Claims())
        self._claims.move_to_end(key)
        if len(self._claims) > CLAIMS_FOLLOWED_MAX:
            self._claims.popitem(last=False)
        return claims

    def _forget(self, host: str, user: str, claims: _Claims) -> None:
        key = _key(host, user)
        if not (claims.failures or claims.waiting) and self._claims.get(key) is claims:
            del self._claims[key]


def _key(host: str, user: str) -> tuple[str, str]:
    return host, user[:CLAIMS_USER_CHARACTERS]


def _check(left: Callable[[], bool]) -> None:
    if left():
        raise ClientLeft
