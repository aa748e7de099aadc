"""The production environment: the loop's clock, the machine's wall clock, local files."""

from __future__ import annotations

import asyncio
import os
import time

from sharegroup.app.descriptors import descriptor_limit
from sharegroup.app.low_priority import low_priority
from sharegroup.model.environment import Environment
from sharegroup.storage.descriptors import cached_files
from sharegroup.storage.disk import LocalDisk


class LoopClock:
    """Wall time of the machine, and monotonic time of the running event loop, so that timers and
    deadlines agree."""

    def monotonic_ms(self) -> int:
        """Milliseconds of the event loop's clock."""
        return int(asyncio.get_running_loop().time() * 1000)

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000


def local_environment() -> Environment:
    """The environment of this machine."""
    return Environment(
        clock=LoopClock(),
        disk=LocalDisk(cached_files(descriptor_limit())),
        entropy=os.urandom,
        descriptors=descriptor_limit,
        low_priority=low_priority(),
    )
