"""A timer for the next deadline of a machine of the core."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sharegroup.model.environment import Clock


class DeadlineTimer:
    """Calls ``due`` at the earliest deadline that it was set to. ``due`` sets it again.

    A deadline that moves to a later time costs nothing: the timer fires early, and is set again.
    """

    __slots__ = ("_at_ms", "_clock", "_closed", "_due", "_timer")

    def __init__(self, clock: Clock, due: Callable[[], None]) -> None:
        self._clock = clock
        self._due = due
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = 0
        self._closed = False

    def set(self, deadline_ms: int | None) -> None:
        """Fire at ``deadline_ms`` of the monotonic clock or earlier; None sets nothing."""
        if deadline_ms is None or self._closed:
            return
        if self._timer is not None:
            if self._at_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._at_ms = deadline_ms
        delay_s = max(0, deadline_ms - self._clock.monotonic_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def close(self) -> None:
        """Never fire again."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self._timer = None
        self._due()
