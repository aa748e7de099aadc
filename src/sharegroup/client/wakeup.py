"""How ``wakeup()`` ends a wait without losing the records that the wait would have brought."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sharegroup.client.errors import Wakeup


class WakeupCall:
    """:meth:`ring` ends the waits inside :meth:`answering`, or else the next one, with
    :class:`Wakeup` (Java: KafkaConsumer.wakeup). The code awaited inside must tolerate
    cancellation.
    """

    def __init__(self) -> None:
        self._rung = False
        self._muted = False
        self._waits: set[asyncio.Timeout] = set()

    def mute(self) -> None:
        """End nothing any more: the client closes, and its callbacks commit for the last time."""
        self._muted = True

    def ring(self) -> None:
        """End the waits. From the loop's thread only."""
        if self._muted:
            return
        now = asyncio.get_running_loop().time()
        waits, self._waits = self._waits, set()
        self._rung = not waits
        for wait in waits:
            wait.reschedule(now)

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """A wait that may be ended.

        Raises:
            Wakeup: :meth:`ring` was called during the wait or before it.
        """
        if self._rung and not self._muted:
            self._rung = False
            raise Wakeup("wakeup() was called")
        wait = asyncio.timeout(None)
        try:
            async with wait:
                self._waits.add(wait)
                try:
                    yield
                finally:
                    self._waits.discard(wait)
            if wait.when() is not None:  # it was rung in the moment when the answer came
                self._rung = True
        except TimeoutError:
            if wait.expired():
                raise Wakeup("wakeup() was called") from None
            raise
