"""Records what clients ask and are told, in the form that ``sharegroup check`` reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class Recorder:
    """A history, one line of JSON an event.

    Args:
        now_s: the clock, in seconds.
        write: takes each line.
    """

    def __init__(self, now_s: Callable[[], float], write: Callable[[str], object]) -> None:
        self._now_s = now_s
        self._write = write
        self._calls = 0

    def tell(self, op: str, **fields: Any) -> None:
        """An event happens now."""
        self._write(json.dumps({"op": op, "t": self.now_ms(), **fields}))

    def now_ms(self) -> float:
        """The time of an event that happens now."""
        return round(self._now_s() * 1000, 3)

    def call(self, op: str, **fields: Any) -> int:
        """A call is made. Returns its number, for the event of its return."""
        self._calls += 1
        self.tell(op, n=self._calls, **fields)
        return self._calls
