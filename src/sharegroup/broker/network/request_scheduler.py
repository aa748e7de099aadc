"""Which connection starts its requests next: connections with waiting requests take turns.

A request costs processor time when it is started; waiting for a disk or for records afterwards
costs nothing. So each step of the event loop starts a few requests, spread over the connections
that have some. A connection that has sent thousands of requests waits in the same line as one that
has sent a single one. A lone request on an idle broker is started at once. A connection that has
been alone for a while gets larger steps: they cost less, and no other connection waits. Another
connection whose answer is outstanding counts as company: the answer waits for a disk, and the event
loop notices the disk only between two steps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from sharegroup.model.limits import STEP_REQUESTS, STEP_REQUESTS_ALONE, TURN_REQUESTS

COMPANY_S: Final = 0.1
"""Steps stay small for this long after another connection had a turn or an answer."""


class Player(Protocol):
    """A connection, as this module sees it."""

    @property
    def wants_turn(self) -> bool:
        """Whether it has a request that it may start now."""
        ...

    def take_turn(self) -> int:
        """Start the next request if one may start. Returns its cost in requests, 0 for none."""
        ...


class _Mark:
    """A place in line. It starts no request."""

    wants_turn = False

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def take_turn(self) -> int:
        self._call()
        return 0


class RequestScheduler:
    """The line of all connections of one broker that have requests to start."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._line: deque[Player] = deque()
        self._resting: deque[Player] = deque()  # they have used up their share of this step
        self._in_line: set[Player] = set()
        self._size = STEP_REQUESTS_ALONE  # what all may start in one step
        self._left = self._size
        self._started: dict[Player, int] = {}
        self._latest: Player | None = None
        self._company_until_s = 0.0
        self._owed: dict[Player, int] = {}  # answers outstanding
        self._each = self._size  # what one player may start in this step
        self._next_step: asyncio.Handle | None = None

    def enter(self, player: Player) -> None:
        """Add ``player`` to the line unless it is there; start requests at once where possible."""
        if player not in self._in_line:
            if player is not self._latest or self._in_line:  # others may never leave the line
                self._latest = player
                self._company_until_s = self._loop.time() + COMPANY_S
                self._each = TURN_REQUESTS
                self._left -= self._size - STEP_REQUESTS
                self._size = STEP_REQUESTS
            if not self._line and self._left > self._size // 2 and player not in self._started:
                count = player.take_turn()  # as almost always: nobody waits
                self._left -= count
                if not (count and player.wants_turn):
                    return
                self._started[player] = count
            self._in_line.add(player)
            full = self._started.get(player, 0) >= self._each
            (self._resting if full else self._line).append(player)
            self._play()

    async def owing(self, player: Player, answering: Awaitable[None]) -> None:
        """Await ``answering``; until it is done, ``player`` is company for others. Not meant for
        requests that wait for records: a consumer without work would make everybody's steps small.
        """
        self._owed[player] = self._owed.get(player, 0) + 1
        try:
            await answering
        finally:
            left = self._owed.pop(player) - 1
            if left:
                self._owed[player] = left

    def after_those_in_line(self, call: Callable[[], None]) -> None:
        """Call ``call`` once everything that has come until now has had its chance: bytes in
        sockets are read, and each connection in line has had one turn. If there is nothing, this
        still takes two steps of the loop.
        """
        soon = self._loop.call_soon
        # After a long step some event loops look at their timers before their sockets.
        soon(soon, self._queue, _Mark(call))

    def _queue(self, mark: _Mark) -> None:
        if self._line or self._resting:
            self._in_line.add(mark)
            self._line.append(mark)
        else:
            mark.take_turn()

    def _play(self) -> None:
        """Start requests of the players in line until the budget of this loop step is spent."""
        while self._line and self._left > 0:
            player = self._line.popleft()
            count = player.take_turn()
            self._left -= count
            if not (count and player.wants_turn):
                self._in_line.discard(player)
                continue
            started = self._started.get(player, 0) + count
            self._started[player] = started
            (self._line if started < self._each else self._resting).append(player)
        waiting = self._line or self._resting
        if self._next_step is None and (waiting or self._left < self._size // 2):
            self._next_step = self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._next_step = None
        self._started.clear()
        if self._size < STEP_REQUESTS_ALONE:
            self._look_for_company()
        self._left = self._size
        if self._line or self._resting:
            self._line += self._resting
            self._resting.clear()
            self._play()

    def _look_for_company(self) -> None:
        """Make the steps large again if no other connection has been here for a while."""
        now_s = self._loop.time()
        if len(self._owed) > 1:
            self._company_until_s = now_s + COMPANY_S
        elif now_s > self._company_until_s:
            self._size = self._each = STEP_REQUESTS_ALONE
