"""Slows down whoever guesses passwords: each failure from an address delays the next answer."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from sharegroup.model.limits import FAILING_HOSTS_MAX, FAILURE_DELAY_DOUBLINGS_MAX

FORGOTTEN_MS: Final = 60_000
"""An address without failures for this long begins anew."""


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_ms: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class FailingHosts:
    """Addresses whose authentications have failed lately."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Failures] = {}  # in the order of the latest failure

    def turn(self, host: str) -> AbstractAsyncContextManager[object]:
        """To hold while a claim from ``host`` is checked. Claims from an address with failures are
        checked one at a time, so that a flood of wrong passwords leaves room for other addresses.
        """
        failures = self._hosts.get(host)
        return nullcontext() if failures is None else failures.turn

    def delay_ms(self, host: str, first_ms: int, now_ms: int) -> int:
        """Count a failure from ``host``; returns how long its answer waits.

        Args:
            first_ms: the delay of a first failure.
        """
        failures = self._hosts.pop(host, None) or _Failures(last_ms=now_ms)
        if now_ms - failures.last_ms > FORGOTTEN_MS:
            failures.count = 0
        if len(self._hosts) >= FAILING_HOSTS_MAX:
            del self._hosts[next(iter(self._hosts))]
        self._hosts[host] = failures
        delay_ms = first_ms << min(failures.count, FAILURE_DELAY_DOUBLINGS_MAX)
        failures.count += 1
        failures.last_ms = now_ms
        return delay_ms

    def succeeded(self, host: str) -> None:
        """An authentication from ``host`` went well, so the failures may have been mistakes."""
        self._hosts.pop(host, None)
