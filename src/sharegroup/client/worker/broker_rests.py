"""Failed records that rest at the broker, which has them back: nobody holds them, and a worker that
dies loses no pause.

The worker only counts them until they are due. If all records fail, more would fail too: with many
that rest, no more are fetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count


class BrokerRests:
    """See the module.

    Args:
        ended: called when a pause is over.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._numbers = count()
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """How many records are not due yet."""
        return len(self._timers)

    def begin(self, pause_s: float) -> None:
        """A record begins to rest."""
        number = next(self._numbers)
        loop = asyncio.get_running_loop()
        self._timers[number] = loop.call_later(pause_s, self._end, number)

    def _end(self, number: int) -> None:
        del self._timers[number]
        self._ended()

    def close(self) -> None:
        """Count no more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
