"""What the broker counts.

One flat table of named numbers: cheap to bump, easy to show.
"""

from __future__ import annotations

import logging
from collections import Counter

logger = logging.getLogger("sharegroup.broker")


class Counters:
    """Counts by name and label; the first of each bad kind is logged, all are counted."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, label: str = "", amount: int = 1) -> None:
        """Add ``amount`` to the count of ``name``, ``label``."""
        self._counts[name, label] += amount

    def trouble(self, name: str, label: str, detail: str) -> None:
        """Count something bad, and log it when it is the first of its name and label."""
        self._counts[name, label] += 1
        if self._counts[name, label] == 1:
            logger.warning("%s: %s: %s (further ones are only counted)", name, label, detail)

    def statistics(self) -> dict[tuple[str, str], int]:
        """A copy of all counts."""
        return dict(self._counts)
