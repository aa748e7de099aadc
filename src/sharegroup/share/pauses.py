"""Pauses: a record that comes back is not delivered again before it is due.

A pause is a lock that nobody holds. The record stays in the window as DELAYED, under a
:class:`~sharegroup.share.locks.Lock` of the member :data:`NOBODY` that ends when the record is due.
So a pause costs what a lock costs: one entry for all records that are due in the same step of time.

A group without back-off has no pauses, and pays nothing for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sharegroup.share.locks import NOBODY, Lock, LockTable

STEP_MAX_MS: Final = 25
"""A pause is made longer by at most so much, so that many records end theirs together."""
_STEPS_PER_PAUSE: Final = 64
_MIX: Final = 0x9E3779B97F4A7C15
_JITTER_BITS: Final = 16


class BackOff(NamedTuple):
    """How long a record rests after its n-th delivery has failed: ``first_ms * multiplier ** (n -
    1)``, at most ``max_ms``, longer or shorter by up to the fraction ``jitter``."""

    first_ms: int
    max_ms: int
    multiplier: float = 2.0
    jitter: float = 0.2

    def pause_ms(self, delivery_count: int, offset: int) -> int:
        """The pause after this delivery. ``offset``: of the record; it makes the jitter, so that
        the core needs no chance."""
        grown = self.first_ms * self.multiplier ** min(delivery_count - 1, 64)
        pause = min(grown, float(self.max_ms))
        mixed = ((offset + 1) * _MIX * (delivery_count + 1)) >> (64 - _JITTER_BITS)
        share = (mixed & ((1 << _JITTER_BITS) - 1)) / ((1 << _JITTER_BITS) - 1)  # 0 to 1
        return max(0, round(pause * (1 + self.jitter * (2 * share - 1))))


def end_ms(now_ms: int, pause_ms: int) -> int:
    """When a pause of ``pause_ms`` ends that begins now."""
    step = max(1, min(STEP_MAX_MS, pause_ms // _STEPS_PER_PAUSE))
    return -(-(now_ms + pause_ms) // step) * step


class Pauses:
    """The pauses that one call begins."""

    def __init__(self, locks: LockTable, back_off: BackOff | None, now_ms: int) -> None:
        self._locks = locks
        self._back_off = back_off
        self._now_ms = now_ms

    def begin(self, first: int, last: int, delivery_count: int, pause_ms: int | None) -> Lock:
        """The pause of the records ``first`` … ``last``, which were delivered ``delivery_count``
        times; ``pause_ms`` replaces what the group's back-off says. The caller must point a span to
        it."""
        if pause_ms is None:
            assert self._back_off is not None, "a pause that nobody has asked for"
            pause_ms = self._back_off.pause_ms(delivery_count, first)
        lock = self._locks.take(NOBODY, end_ms(self._now_ms, pause_ms))
        lock.add_range(first, last)
        return lock
