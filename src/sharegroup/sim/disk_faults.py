"""A disk that is full, slow or broken for a while."""

from __future__ import annotations

import errno
import os
from typing import Final

from sharegroup.sim.disk import Trouble

SLOW_S: Final = 0.5
QUICK_S: Final = 0.002


class DiskFaults(Trouble):
    """What is wrong with the disk of a simulated broker at this moment.

    Attributes:
        full: writes fail with ENOSPC.
        slow: syncs take :data:`SLOW_S`.
        fails: the next ``write`` or ``sync`` fails with EIO; ``all``: each one.
    """

    def __init__(self) -> None:
        self.full = False
        self.slow = False
        self.fails = ""

    def before(self, operation: str, path: str) -> None:
        """Raise what is to be raised."""
        if operation == self.fails or (self.fails == "all" and operation in ("write", "sync")):
            if self.fails != "all":
                self.fails = ""
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        if self.full and operation != "sync":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def sync_s(self) -> float:
        """How long the next sync takes."""
        return SLOW_S if self.slow else QUICK_S
