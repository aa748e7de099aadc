"""How ``wakeup()`` ends a wait without losing what the wait would have brought."""

from __future__ import annotations

import asyncio
from typing import Any

from sharegroup.client.errors import Wakeup


class WakeupCall:
    """One caller waits inside ``async with``; :meth:`ring` ends that wait, or else the next one,
    with :class:`Wakeup` (Java: KafkaConsumer.wakeup). What is awaited inside must bear being
    cancelled.
    """

    def __init__(self) -> None:
        self._rung = False
        self._wait: asyncio.Timeout | None = None

    def ring(self) -> None:
        """End the wait. From the loop's thread only."""
        if self._wait is not None and not self._rung:
            self._wait.reschedule(asyncio.get_running_loop().time())
        self._rung = True

    async def __aenter__(self) -> None:
        wait = asyncio.timeout(0 if self._rung else None)
        await wait.__aenter__()
        self._wait = wait

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        wait, self._wait = self._wait, None
        assert wait is not None, "left without having been entered"
        try:
            await wait.__aexit__(kind, error, trace)
        except TimeoutError:
            self._rung = False
            raise Wakeup("wakeup() was called") from None
