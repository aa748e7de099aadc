"""Which TLS handshake begins next: each takes up to a millisecond of a processor, so only so many
begin in a second, and addresses take turns.

A flood of handshakes therefore costs other clients a part of a processor, and a client at another
address does not have to wait until it is over.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

from sharegroup.model.limits import HANDSHAKES_AT_ONCE_MAX, HANDSHAKES_PER_SECOND_MAX

_GAP_S: Final = 1 / HANDSHAKES_PER_SECOND_MAX


class Handshake(Protocol):
    """A TLS handshake, as this module sees it."""

    def begin(self) -> bool:
        """Its turn has come. False if the handshake has ended meanwhile, which costs nothing."""
        ...


class HandshakeTurns:
    """The lines of handshakes that wait, one line for each address."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: OrderedDict[str, dict[Handshake, None]] = OrderedDict()
        self._allowed = float(HANDSHAKES_AT_ONCE_MAX)
        self._counted_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, handshake: Handshake, host: str) -> None:
        """Begin a handshake now, or when its turn comes."""
        self._lines.setdefault(host, {})[handshake] = None
        if self._timer is None:
            self._play()

    def leave(self, handshake: Handshake, host: str) -> None:
        """Take a handshake that has ended out of its line; one that does not wait is ignored."""
        line = self._lines.get(host)
        if line is not None:
            line.pop(handshake, None)
            if not line:
                del self._lines[host]

    def close(self) -> None:
        """Begin no handshake any more."""
        self._lines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _play(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        more = (now_s - self._counted_s) / _GAP_S
        self._allowed = min(HANDSHAKES_AT_ONCE_MAX, self._allowed + more)
        self._counted_s = now_s
        while self._lines and self._allowed >= 1:
            host, line = self._lines.popitem(last=False)
            handshake = next(iter(line))
            del line[handshake]
            if line:
                self._lines[host] = line
            self._allowed -= handshake.begin()
        if self._lines:
            self._timer = self._loop.call_later(_GAP_S, self._play)
