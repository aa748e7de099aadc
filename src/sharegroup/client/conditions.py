"""What somebody must look after: said once when it begins, and once when it is over."""

from __future__ import annotations

import logging
from collections.abc import Hashable

log = logging.getLogger("sharegroup.client")


class Conditions:
    """The conditions that hold now, each under a key of its own. All lines are WARNINGs, which a
    program shows on stderr when it has set up no logging.
    """

    def __init__(self) -> None:
        self._hold: set[Hashable] = set()

    def begins(self, key: Hashable, text: str, *arguments: object) -> None:
        """Say so, unless it holds already."""
        if key not in self._hold:
            self._hold.add(key)
            log.warning(text, *arguments)

    def ends(self, key: Hashable, text: str, *arguments: object) -> None:
        """Say so, if it held."""
        if key in self._hold:
            self._hold.discard(key)
            log.warning(text, *arguments)
