"""When to try again: pauses that grow with each failure, with jitter, as Kafka's clients make them
(KIP-580).

All pauses between two attempts are computed here: at a request (``network/retrying.py`` waits for
the pause to end), at a lost connection, and at a record whose handler failed (``worker/retry.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

JITTER: Final = 0.2
_EXPONENT_MAX: Final = 60  # beyond it every pause is the longest one, and floats may overflow

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How the pauses grow.

    Args:
        first_ms: the pause after the first failure.
        max_ms: the longest pause, before jitter.
        factor: how much longer each pause is than the one before.
        jitter: each pause is made longer or shorter by up to this fraction, so that many clients do
            not retry all at once.
    """

    first_ms: float
    max_ms: float
    factor: float = 2
    jitter: float = JITTER

    def pause_ms(self, failures: int, draw: float) -> float:
        """The pause after this many failures in a row, in milliseconds.

        Args:
            failures: at least 1.
            draw: a random number, 0 ≤ ``draw`` < 1.
        """
        pause = min(self.max_ms, self.first_ms * self.factor ** min(failures - 1, _EXPONENT_MAX))
        shortest, longest = 1 - self.jitter, 1 + self.jitter
        return pause * (shortest + (longest - shortest) * draw)


class Pauses:
    """The pauses of one thing that is tried again and again.

    Args:
        draw: gives random numbers from 0 to 1, without 1.

    Attributes:
        failures: how many attempts in a row have failed.
    """

    def __init__(self, policy: RetryPolicy, draw: Callable[[], float]) -> None:
        self._policy = policy
        self._draw = draw
        self.failures = 0

    def next_ms(self) -> int:
        """Count a failure. Returns the pause before the next attempt, in milliseconds."""
        self.failures += 1
        return int(self._policy.pause_ms(self.failures, self._draw()))

    def next_within(self, now_ms: float, deadline_ms: float) -> int | None:
        """As :meth:`next_ms`; None if the pause would end after the deadline: give up."""
        pause_ms = self.next_ms()
        return None if now_ms + pause_ms > deadline_ms else pause_ms

    def reset(self) -> None:
        """Note a success: the next failure counts as the first one."""
        self.failures = 0


class PausesByKey(Generic[K]):
    """The pauses of several things, such as nodes. True if any of them has failed and not yet
    recovered.

    Args:
        new: makes the pauses of one thing.
    """

    def __init__(self, new: Callable[[], Pauses]) -> None:
        self._new = new
        self._failing: dict[K, Pauses] = {}

    def __bool__(self) -> bool:
        return bool(self._failing)

    def next_ms(self, key: K) -> int:
        """Count a failure of ``key``. Returns the pause before its next attempt."""
        if key not in self._failing:
            self._failing[key] = self._new()
        return self._failing[key].next_ms()

    def reset(self, key: K) -> bool:
        """Note a success, or forget ``key``. Returns whether it had failed before."""
        return self._failing.pop(key, None) is not None
