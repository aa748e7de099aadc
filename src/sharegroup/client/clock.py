"""The client's only clocks besides the event loop's."""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Milliseconds since 1970: a record without a timestamp gets the time at which it is sent."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds that never go back, for limits outside of an event loop."""
    return time.monotonic()
