"""``fdatasync``, and how long the disk took for it."""

from __future__ import annotations

import os
import time

from sharegroup.records.compiled import sync_with
from sharegroup.records.walk import LIBRARY

_compiled = sync_with(LIBRARY)


def timed_sync(fd: int) -> float:
    """Sync, and return how many seconds it took. Raises OSError.

    Measured in Python, the time includes the wait for the interpreter's lock after the sync, which
    is milliseconds beside a busy loop. Measured in C, it does not.
    """
    if _compiled is None:
        started_s = time.perf_counter()
        os.fdatasync(fd)
        return time.perf_counter() - started_s
    nanoseconds = _compiled(fd)
    if nanoseconds < 0:
        raise OSError(-nanoseconds, os.strerror(-nanoseconds))
    return nanoseconds / 1e9
