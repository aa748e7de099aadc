"""How long to wait before trying again: exponential, with jitter, as Kafka's clients do
(KIP-580).
"""

from __future__ import annotations

import random
from typing import Final

JITTER: Final = 0.2


class Backoff:
    """Growing pauses. ``next_ms()`` gives the next one, ``reset()`` starts again at the first.

    Args:
        first_ms: the first pause.
        max_ms: no pause is longer, jitter apart.
        jitter: the source of the ±20 %, so that many clients do not retry all at once.
    """

    def __init__(self, first_ms: int, max_ms: int, jitter: random.Random) -> None:
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._jitter = jitter
        self._failures = 0

    def next_ms(self) -> int:
        """Count a failure. Returns the pause before the next attempt, in milliseconds."""
        pause = min(self._max_ms, self._first_ms * 2 ** min(self._failures, 30))
        self._failures += 1
        return int(pause * self._jitter.uniform(1 - JITTER, 1 + JITTER))

    def reset(self) -> None:
        """Note a success: the next failure counts as the first one."""
        self._failures = 0
