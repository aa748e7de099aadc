"""Notes that the event loop turns, while an answer is awaited.

An application that blocks the loop leaves an answer unread, so the time of reading says little. The
time of asking says little about a fetch that waits at the broker. But an answer is read at once by
a loop that turns: so it came after the loop was last seen to turn before it stood still.
"""

from __future__ import annotations

import asyncio
from typing import Final

_BEAT_S: Final = 0.05


class LoopPulse:
    """See the module. It begins to beat when it is made, which is when the request is sent."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._before = self._last
        self._timer = self._loop.call_later(_BEAT_S, self._beat)

    def _beat(self) -> None:
        self._before, self._last = self._last, self._loop.time()
        self._timer = self._loop.call_later(_BEAT_S, self._beat)

    def end(self) -> float:
        """The answer was just read, or there is none. Returns a time before it came, in seconds of
        the loop's time: of two beats the first, because one may lie between its coming and now.
        """
        self._timer.cancel()
        return self._before
