"""Conditions that need attention: logged once when they begin, and once when they end."""

from __future__ import annotations

import logging
from collections.abc import Hashable

log = logging.getLogger("sharegroup.client")


class Conditions:
    """The conditions that hold now, each under its own key. All lines are WARNINGs: Python prints
    these to stderr if the program has not set up logging.
    """

    def __init__(self) -> None:
        self._hold: set[Hashable] = set()

    def begins(self, key: Hashable, text: str, *arguments: object) -> None:
        """Log that the condition begins, unless it holds already."""
        if key not in self._hold:
            self._hold.add(key)
            log.warning(text, *arguments)

    def holds(self, key: Hashable) -> bool:
        """Whether the condition has begun, and not ended."""
        return key in self._hold

    def ends(self, key: Hashable, text: str, *arguments: object) -> None:
        """Log that the condition ends, if it held."""
        if key in self._hold:
            self._hold.discard(key)
            log.warning(text, *arguments)
