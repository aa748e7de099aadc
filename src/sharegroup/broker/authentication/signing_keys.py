"""The public keys that tokens are signed with: a JWKS document, from a file or by HTTP.

The document is fetched on a thread, kept, and fetched again when it is old, or when it lacks a key
that a token names (then at most every ten seconds). While it cannot be fetched, the old keys hold.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from sharegroup.broker.event_counters import Counters
from sharegroup.model.environment import Clock, Disk
from sharegroup.model.limits import JWKS_BYTES_MAX
from sharegroup.sasl.server import LoginRefused

FETCH_S: Final = 10.0
"""The longest that a fetch may take."""
KNOWN_S: Final = 1.0
"""How long a login whose key is known waits for newer keys. A client gives up after some seconds,
and the server that has the keys may stand still for longer."""
AGAIN_MS: Final = 10_000
"""The least time between two fetches for the sake of a key that the document lacks."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key. ``algorithm``: the only algorithm that it signs with; None if the document
    names no algorithm."""

    key_id: str | None
    public: Any
    algorithm: str | None


class SigningKeys:
    """The keys of one listener.

    Args:
        url: a file, http or https URL.
        refresh_ms: the age at which the keys are fetched again.
    """

    def __init__(
        self,
        url: Callable[[], str],
        refresh_ms: Callable[[], int],
        clock: Clock,
        disk: Disk,
        counters: Counters,
    ) -> None:
        self._url = url
        self._refresh_ms = refresh_ms
        self._clock = clock
        self._disk = disk
        self._counters = counters
        self._keys: list[SigningKey] = []
        self._tried_ms: int | None = None
        self._failed = False
        self._lock = asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """Fetch the keys again at the next token; the old keys hold until then."""
        self._tried_ms = None

    async def find(self, key_id: str | None) -> SigningKey:
        """The key of a token; without ``key_id``, the only one.

        Raises:
            LoginRefused: there is no such key.
        """
        if not self._fresh(self._refresh_ms()):
            await self._wait_for_fresh(known=self._find(key_id) is not None)
        found = self._find(key_id)
        if found is None:
            await self._refresh(AGAIN_MS)
            found = self._find(key_id)
        if found is None:
            raise LoginRefused("a token that no key of the JWKS document has signed")
        return found

    async def _wait_for_fresh(self, *, known: bool) -> None:
        """Wait until the keys are fetched again; if the token's key is known, not for long."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh(self._refresh_ms()))
        await asyncio.wait({self._refreshing}, timeout=KNOWN_S if known else None)
        if self._refreshing.done():
            self._refreshing.result()

    def _find(self, key_id: str | None) -> SigningKey | None:
        if key_id is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.key_id == key_id), None)

    def _fresh(self, age_ms: int) -> bool:
        tried_ms = self._tried_ms
        wait_ms = min(age_ms, AGAIN_MS) if self._failed else age_ms
        return tried_ms is not None and self._clock.monotonic_ms() - tried_ms < wait_ms

    async def _refresh(self, age_ms: int) -> None:
        async with self._lock:
            if self._fresh(age_ms):
                return
            self._tried_ms = self._clock.monotonic_ms()
            self._failed = True
            try:
                async with asyncio.timeout(FETCH_S):
                    self._keys = parse_keys(await self._read(self._url()))
                self._failed = False
            except (OSError, ValueError, TimeoutError) as error:
                why = str(error) or f"no answer within {FETCH_S:.0f} s"
                sentence = f"the keys of tokens cannot be read from {self._url()}: {why}"
                self._counters.say(logging.ERROR, "token_keys_failures", sentence)

    async def _read(self, url: str) -> bytes:
        parts = urlsplit(url)
        if parts.scheme == "file":
            return self._disk.read_file(unquote(parts.path))
        return await asyncio.to_thread(_fetch, url)


def parse_keys(document: bytes) -> list[SigningKey]:
    """The keys of a document that sign; keys for other uses are skipped.

    Raises:
        ValueError: the document is no JWKS document.
    """
    import jwt

    try:
        described = json.loads(document)["keys"]
        keys = []
        for each in described:
            if each.get("use", "sig") != "sig" or each.get("kty") == "oct":
                continue
            try:
                public = jwt.PyJWK(each).key
                keys.append(SigningKey(each.get("kid"), public, each.get("alg")))
            except jwt.PyJWTError:
                continue  # this kind of key is not known here
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("it is no JWKS document") from None
    if not keys:
        raise ValueError("it has no keys")
    return keys


def _fetch(url: str) -> bytes:
    from urllib.request import Request, urlopen

    request = Request(url, headers={"Accept": "application/json"})
    with urlopen(request, timeout=FETCH_S) as response:
        document: bytes = response.read(JWKS_BYTES_MAX + 1)
    if len(document) > JWKS_BYTES_MAX:
        raise ValueError(f"it is longer than {JWKS_BYTES_MAX} bytes")
    return document
