"""How the C library gives memory back to the system.

A fetch of some megabytes allocates its answer and frees it. By default glibc returns such memory at
once, and the system clears each page again for the next answer: that is half of the processor time
of a fetch. So the process keeps some freed memory.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Final

KEPT_BYTES: Final = 32 << 20
"""Freed memory that stays with the process; also the largest block that glibc takes from its
heap."""

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_VARIABLES: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Keep up to :data:`KEPT_BYTES` of freed memory. Returns False if this was not set: there is
    another C library than glibc, or ``environment`` tells glibc something itself.

    Source: mallopt(3).
    """
    if any(name in environment for name in _VARIABLES):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    # Both: one alone would leave the other at its small first value.
    thresholds = (_TRIM_THRESHOLD, _MMAP_THRESHOLD)
    return all(mallopt(threshold, KEPT_BYTES) == 1 for threshold in thresholds)
