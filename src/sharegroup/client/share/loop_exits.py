"""What happens to held records when the application leaves a loop and asks for no more at once."""

from __future__ import annotations

import asyncio
from typing import Final

from sharegroup.client.core.held_deliveries import Holdings, Iteration
from sharegroup.client.share.committer import AcknowledgementCommitter
from sharegroup.client.share.receiver import Receiver

KEEP_S: Final = 1.0
"""How long, in seconds, records that an ended loop had not reached are kept for the next loop."""
_TURNS_UNTIL_LEFT: Final = 4
"""Turns of the event loop until an abandoned async generator, and another one inside it, are closed
and have ended the loop over the consumer in them."""


class LoopExits:
    """See the module."""

    def __init__(
        self, holdings: Holdings, committer: AcknowledgementCommitter, receiver: Receiver
    ) -> None:
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
        """The event loop of the consumer; None: it was not started."""
        return self._loop

    def stop(self) -> None:
        """The consumer asks for records or is closed: cancel the pending release."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def leave(self, iteration: Iteration) -> None:
        """Note that the application has left the loop. Any thread may call it."""
        iteration.ended = True
        loop = self._loop
        if iteration is self._holdings.iteration and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        """Release the loop's work at once; in explicit mode the application decides."""
        if self._end() and self._holdings.implicit:
            self._committer.queue(self._holdings.take_decided())
            self._committer.flush()

    def _end(self) -> bool:
        """End the iteration whose loop was left, if any. Its unreached records are kept for a
        moment, for another loop.
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
        """Wait until abandoned async generators are closed. The event loop closes them some turns
        later; until then, a loop's record in work must not count as done.
        """
        iteration = self._holdings.iteration
        if iteration is not None and iteration.in_work:
            for _ in range(_TURNS_UNTIL_LEFT):
                await asyncio.sleep(0)

    def may_accept_work(self, asker: object) -> bool:
        """Whether a commit by this task or thread may accept a loop's record in work."""
        self._end()
        iteration = self._holdings.iteration
        return iteration is None or iteration.asker == asker
