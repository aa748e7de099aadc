"""How often to ask for something that may have changed: the longer an answer takes, the rarer."""

from __future__ import annotations

from typing import Final

LOOK_S: Final = 0.5
"""Between two questions, at least: a change is noticed within a second."""
LONGEST_S: Final = 2.0
"""Where there are many topics, a change is noticed in this time and that of an answer."""
REST: Final = 20
"""So no more than a twentieth of the time somebody works on an answer."""


class Pace:
    """See the module; times in seconds of one clock.

    Args:
        longest_s: between two questions, at most.
        rest: so many times as long as an answer has taken, nothing is asked.
    """

    def __init__(self, longest_s: float = LONGEST_S, rest: float = REST) -> None:
        self._longest_s = longest_s
        self._rest = rest
        self._due_s = 0.0

    def is_due(self, now_s: float) -> bool:
        """Whether to ask now."""
        return now_s >= self._due_s

    def asked(self, began_s: float, now_s: float) -> None:
        """An answer has come, or an error."""
        rest_s = max(LOOK_S, min(self._longest_s, self._rest * (now_s - began_s)))
        self._due_s = began_s + rest_s
