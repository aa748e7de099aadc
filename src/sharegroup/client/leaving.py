"""What becomes of records when the application leaves a loop, and does not come back at once."""

from __future__ import annotations

import asyncio
from typing import Final

from sharegroup.client.committer import Committer
from sharegroup.client.core.holdings import Holdings, Iteration
from sharegroup.client.receiver import Receiver

KEEP_S: Final = 1.0
"""How long after the end of a loop its records that were not given wait for the next loop."""
_TURNS_UNTIL_LEFT: Final = 4
"""Turns of the event loop until an async generator that somebody has left, and one within it, are
closed, and the loop in it has ended."""


class Leaving:
    """See the module."""

    def __init__(self, holdings: Holdings, committer: Committer, receiver: Receiver) -> None:
        self._holdings = holdings
        self._committer = committer
        self._receiver = receiver
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """The consumer runs on this loop."""
        self._loop = asyncio.get_running_loop()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """What the consumer runs on; None: it was not started."""
        return self._loop

    def stop(self) -> None:
        """The consumer asks for records, or is closed: nothing is given back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def leave(self, iteration: Iteration) -> None:
        """The application has left the loop. From any thread."""
        iteration.ended = True
        loop = self._loop
        if iteration is self._holdings.iteration and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        """Release what the loop had in work, at once. In explicit mode the application says."""
        if self._end() and self._holdings.implicit:
            self._committer.queue(self._holdings.take_decided())
            self._committer.flush()

    def _end(self) -> bool:
        """End the iteration whose loop was left, if there is one. What it was not given waits a
        moment for another loop.
        """
        iteration = self._holdings.iteration
        if iteration is None or not iteration.ended:
            return False
        self._holdings.end_iteration()
        self._timer = asyncio.get_running_loop().call_later(KEEP_S, self._give_back)
        return True

    def _give_back(self) -> None:
        self._timer = None
        self._committer.later(self._receiver.give_back())

    # --- commits ----------------------------------------------------------------------------------

    async def generators_closed(self) -> None:
        """An async generator around a loop, once left, is closed by the event loop some turns
        later; what the loop had in work is not to be taken for done until then.
        """
        iteration = self._holdings.iteration
        if iteration is not None and iteration.in_work:
            for _ in range(_TURNS_UNTIL_LEFT):
                await asyncio.sleep(0)

    def may_accept_work(self, asker: object) -> bool:
        """Whether a commit by this task or thread may accept what a loop has in work."""
        self._end()
        iteration = self._holdings.iteration
        return iteration is None or iteration.asker == asker
