"""One look at the broker for all who watch the same thing, and none while nobody watches."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from sharegroup.console.limits import VIEWERS_MAX
from sharegroup.model.errors import NetworkException, SharegroupError

log = logging.getLogger("sharegroup.console")

INTERVAL_S: Final = 2.0
"""Between two looks."""
SOON_S: Final = 0.05
"""Before the next look, as long as there is ``more`` that was not looked at yet."""
SHARE_MAX: Final = 0.2
"""Of the time: a look that takes long is followed by a longer pause."""

Ask = Callable[[], Awaitable[dict[str, Any]]]


class TooManyViewers(Exception):
    """No more event streams are served."""


class Seats:
    """How many event streams are open."""

    def __init__(self) -> None:
        self.taken = 0


class Watches:
    """What one user watches, by name. ``viewers``: how many event streams of it are open.

    Args:
        seats: the open event streams of all users.
    """

    def __init__(self, seats: Seats) -> None:
        self.viewers = 0
        self._seats = seats
        self._watches: dict[str, _Watch] = {}
        self._closed = False

    async def close(self) -> None:
        """End all views."""
        self._closed = True
        for watch in [*self._watches.values()]:
            await watch.end()

    async def views(self, name: str, ask: Ask) -> AsyncIterator[bytes]:
        """What ``ask`` returns, as JSON, each time that it is another, until the console ends. A
        slow viewer misses what is no longer the newest.

        Raises:
            TooManyViewers: at once.
        """
        if self._seats.taken >= VIEWERS_MAX:
            raise TooManyViewers
        self._seats.taken += 1
        self.viewers += 1
        watch = self._watches.get(name)
        if watch is None:
            watch = self._watches[name] = _Watch(ask)
        watch.viewers += 1
        try:
            seen = 0
            while not self._closed:
                seen, newest = await watch.after(seen)
                if not self._closed:
                    yield newest
        finally:
            self._seats.taken -= 1
            self.viewers -= 1
            watch.viewers -= 1
            if not watch.viewers:
                self._watches.pop(name, None)
                await watch.end()


class _Watch:
    """One thing that is watched. ``viewers``: how many do."""

    def __init__(self, ask: Ask) -> None:
        self.viewers = 0
        self._ask = ask
        self._newest = b""
        self._number = 0
        self._ended = False
        self._changed = asyncio.Condition()
        self._looking = asyncio.create_task(self._look(), name="console watch")

    async def after(self, seen: int) -> tuple[int, bytes]:
        """The newest view, when it is another than number ``seen`` or the watch ends; and its
        number."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._ended or self._number > seen)
            return self._number, self._newest

    async def end(self) -> None:
        """Look no more."""
        self._looking.cancel()
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def _look(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            began_s, away = clock(), False
            try:
                found = await self._ask()
            except SharegroupError as error:
                found = {"error": str(error)}
                away = isinstance(error, NetworkException)  # the look has cost no broker anything
            except Exception:  # the viewers must hear of it, and the next look may succeed
                log.exception("a look at the broker has failed")
                found = {"error": "the console has failed: its log says how"}
            text = json.dumps(found).encode()
            async with self._changed:
                if text != self._newest:
                    self._newest = text
                    self._number += 1
                    self._changed.notify_all()
            took_s = clock() - began_s
            pause_s = INTERVAL_S if away else max(INTERVAL_S - took_s, took_s * (1 / SHARE_MAX - 1))
            await asyncio.sleep(SOON_S if found.get("more") else pause_s)
