"""The environment of a simulated broker."""

from __future__ import annotations

import asyncio
import random

from sharegroup.model.environment import Environment
from sharegroup.sim.disk import MemoryDisk

EPOCH_MS = 1_767_225_600_000
"""Wall-clock time at the start of a simulation: 2026-01-01 UTC."""


class SimulatedClock:
    """Time of the simulated loop.

    Attributes:
        ahead_ms: how far the wall clock is ahead: somebody set it.
    """

    def __init__(self) -> None:
        self.ahead_ms = 0

    def monotonic_ms(self) -> int:
        """Virtual milliseconds since the loop was made."""
        return round(asyncio.get_running_loop().time() * 1000)

    def wall_ms(self) -> int:
        """Virtual milliseconds since 1970."""
        return EPOCH_MS + self.monotonic_ms() + self.ahead_ms


def simulated_environment(
    disk: MemoryDisk, seed: int = 0, clock: SimulatedClock | None = None
) -> Environment:
    """An environment with a virtual clock, ``disk``, and randomness determined by ``seed``. The
    disk takes the times of its files from that clock."""
    clock = clock or SimulatedClock()
    disk.wall_ms = clock.wall_ms
    return Environment(
        clock=clock,
        disk=disk,
        entropy=random.Random(seed).randbytes,
    )
