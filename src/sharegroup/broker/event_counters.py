"""The broker's counters, and rate-limited log lines about what peers do.

The counters are one flat table of named numbers: cheap to increment, easy to show. Events that a
peer can cause at will are all counted, but logged only now and then.
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
"""At most one log line of each kind in this time, for events that peers cause."""


class NowAndThen:
    """Rate limit for log lines that peers can cause at will: the first line of each kind is logged,
    then one per interval, with the number of lines left out.

    The broker chooses the kinds, not the peers, so there are few.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._said: dict[str, tuple[int, int]] = {}

    def due(self, kind: str) -> str | None:
        """The suffix for a line of this kind if it may be logged now, else None. The suffix is
        empty, or tells how many lines were left out."""
        now_ms = self._now_ms()
        last_ms, left_out = self._said.get(kind, (now_ms - SAY_EVERY_MS, 0))
        if now_ms - last_ms < SAY_EVERY_MS:
            self._said[kind] = (last_ms, left_out + 1)
            return None
        self._said[kind] = (now_ms, 0)
        return f" ({left_out} more like this were not shown)" if left_out else ""


class Counters:
    """Counts by name and label. Every event is counted; of each bad kind the first is logged."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self.now_and_then = NowAndThen(now_ms)

    def add(self, name: str, label: str = "", amount: int = 1) -> None:
        """Add ``amount`` to the count of ``name``, ``label``."""
        self._counts[name, label] += amount

    def trouble(self, name: str, label: str, detail: str) -> None:
        """Count a problem, and log the first one of its name and label."""
        self._counts[name, label] += 1
        if self._counts[name, label] == 1:
            logger.warning("%s: %s: %s (further ones are only counted)", name, label, detail)

    def say(
        self, level: int, name: str, sentence: str, label: str = "", *, traceback: bool = False
    ) -> None:
        """Count an event that a peer has caused, and log it now and then.

        Args:
            traceback: whether to log the traceback of the current exception.
        """
        self._counts[name, label] += 1
        left_out = self.now_and_then.due(f"{name} {label}")
        if left_out is not None:
            logger.log(level, "%s%s", sentence, left_out, exc_info=traceback)

    def statistics(self) -> dict[tuple[str, str], int]:
        """A copy of all counts."""
        return dict(self._counts)
