"""Slows down whoever guesses passwords: each failure from an address delays the next answer."""

from __future__ import annotations

from typing import Final

from sharegroup.model.limits import FAILING_HOSTS_MAX, FAILURE_DELAY_DOUBLINGS_MAX

FORGOTTEN_MS: Final = 60_000
"""An address without failures for this long begins anew."""


class FailingHosts:
    """Addresses whose authentications have failed lately."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, int]] = {}  # in the order of the latest failure

    def delay_ms(self, host: str, first_ms: int, now_ms: int) -> int:
        """Count a failure from ``host``; returns how long its answer waits.

        Args:
            first_ms: the delay of a first failure.
        """
        count, last_ms = self._failures.pop(host, (0, now_ms))
        if now_ms - last_ms > FORGOTTEN_MS:
            count = 0
        if len(self._failures) >= FAILING_HOSTS_MAX:
            self._failures.pop(next(iter(self._failures)))
        self._failures[host] = count + 1, now_ms
        return int(first_ms) << min(count, FAILURE_DELAY_DOUBLINGS_MAX)

    def succeeded(self, host: str) -> None:
        """An authentication from ``host`` went well, so the failures may have been mistakes."""
        self._failures.pop(host, None)
