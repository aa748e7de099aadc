"""``fdatasync``, and how long the disk took for it."""

from __future__ import annotations

import os
import time

from sharegroup.records.compiled import sync_with
from sharegroup.records.walk import LIBRARY

_compiled = sync_with(LIBRARY)


def timed_sync(fd: int) -> float:
    """Sync, and return its seconds. Raises OSError.

    In Python they include the wait for the interpreter's lock after it, which is milliseconds
    beside a busy loop; in C they do not.
    """
    if _compiled is None:
        started_s = time.perf_counter()
        os.fdatasync(fd)
        return time.perf_counter() - started_s
    nanoseconds = _compiled(fd)
    if nanoseconds < 0:
        raise OSError(-nanoseconds, os.strerror(-nanoseconds))
    return nanoseconds / 1e9
