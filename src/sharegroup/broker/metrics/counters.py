"""What the broker counts, and what it says of what peers do.

One flat table of named numbers: cheap to bump, easy to show. What a peer can bring about as often
as it likes is counted each time and said now and then.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from sharegroup.model.printable import EscapedMessages

logger = logging.getLogger("sharegroup.broker")
logger.addFilter(EscapedMessages())
logging.getLogger("sharegroup.authorizer").addFilter(EscapedMessages())

SAY_EVERY_MS: Final = 10_000
"""Of what peers bring about, one line of a kind in this time."""


class NowAndThen:
    """Log lines that peers can cause at will: of each kind the first, and then one in a while that
    says how many were left out.

    Kinds are ours, not the peers': they are few.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._said: dict[str, tuple[int, int]] = {}

    def due(self, kind: str) -> str | None:
        """What to put at the end of the line, if one of this kind is to be written now: nothing,
        or how many were not."""
        now_ms = self._now_ms()
        last_ms, left_out = self._said.get(kind, (now_ms - SAY_EVERY_MS, 0))
        if now_ms - last_ms < SAY_EVERY_MS:
            self._said[kind] = (last_ms, left_out + 1)
            return None
        self._said[kind] = (now_ms, 0)
        return f" ({left_out} more like this were not shown)" if left_out else ""


class Counters:
    """Counts by name and label; the first of each bad kind is logged, all are counted."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self.now_and_then = NowAndThen(now_ms)

    def add(self, name: str, label: str = "", amount: int = 1) -> None:
        """Add ``amount`` to the count of ``name``, ``label``."""
        self._counts[name, label] += amount

    def trouble(self, name: str, label: str, detail: str) -> None:
        """Count something bad, and log it when it is the first of its name and label."""
        self._counts[name, label] += 1
        if self._counts[name, label] == 1:
            logger.warning("%s: %s: %s (further ones are only counted)", name, label, detail)

    def say(
        self, level: int, name: str, sentence: str, label: str = "", *, traceback: bool = False
    ) -> None:
        """Count what a peer has brought about, and log it now and then.

        Args:
            traceback: that of the exception that is being handled goes with the line.
        """
        self._counts[name, label] += 1
        left_out = self.now_and_then.due(f"{name} {label}")
        if left_out is not None:
            logger.log(level, "%s%s", sentence, left_out, exc_info=traceback)

    def statistics(self) -> dict[tuple[str, str], int]:
        """A copy of all counts."""
        return dict(self._counts)
