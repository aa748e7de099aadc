"""The client's only look at the wall clock: a record that is given no timestamp gets the time
of its sending.
"""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
