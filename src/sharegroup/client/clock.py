"""The client's only use of the wall clock: a record without a timestamp gets the time at which it
is sent.
"""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
