"""Freed memory goes back to the system when it has not been used again for a while.

glibc keeps what is freed between two blocks that are in use. After 800 members of a group with
150 kB of metadata each had left, that was 120 MiB until the broker stopped. ``malloc_trim`` gives
such memory back, and holds up everything that allocates: 0.3 to 0.85 ms for each MiB. So it is
called seldom: when much is free, for several looks in a row, and the broker has little to do. A
busy broker keeps its memory, which it is about to use.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
from collections.abc import Callable
from io import FileIO
from typing import Final

from sharegroup.app.allocator import KEPT_BYTES

logger = logging.getLogger("sharegroup.broker")

LOOK_S: Final = 2.0
LOOKS: Final = 3
"""This many looks in a row must find the memory free."""
WORTH_BYTES: Final = 2 * KEPT_BYTES
"""Less free memory than this is kept."""
BUSY_REQUESTS: Final = 200
"""With more requests between two looks the broker is busy."""

_RESIDENT: Final = "/proc/self/statm"
_PAGE_BYTES: Final = 4096


class _Mallinfo2(ctypes.Structure):
    """Source: mallinfo2(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


class IdleMemory:
    """Decides when to give memory back, by how much is resident and how much is free, in bytes."""

    def __init__(self, resident: int) -> None:
        self._resident_least = resident
        self._free_least = 0
        self._looks = 0

    def may_be_much(self, resident: int) -> bool:
        """Whether enough memory has become resident that it is worth asking how much is free."""
        self._resident_least = min(self._resident_least, resident)
        if resident - self._resident_least < WORTH_BYTES:
            self._looks = 0
        return resident - self._resident_least >= WORTH_BYTES

    def is_idle(self, free: int, requests: int) -> bool:
        """Whether the ``free`` memory should go back; ``requests`` came since the last look. Memory
        that was free when memory last went back does not count: it is not resident."""
        self._free_least = min(self._free_least, free)
        much = free - self._free_least >= WORTH_BYTES
        self._looks = self._looks + 1 if much and requests <= BUSY_REQUESTS else 0
        return self._looks >= LOOKS

    def given_back(self, resident: int, free: int) -> None:
        """Memory went back; ``resident`` and ``free`` bytes are left."""
        self._resident_least, self._free_least, self._looks = resident, free, 0


async def give_back_idle_memory(requests: Callable[[], int]) -> None:
    """Look until cancelled. ``requests``: how many there were since the start. Returns at once with
    another C library than glibc 2.33 or later."""
    try:
        library = ctypes.CDLL(None)
        info, trim = library.mallinfo2, library.malloc_trim
    except (OSError, AttributeError):
        return
    info.restype = _Mallinfo2
    # Open from the start: a broker that is out of descriptors must not end the looks.
    with _open_statm() as statm:
        memory, before = IdleMemory(_resident_bytes(statm)), requests()
        while True:
            await asyncio.sleep(LOOK_S)
            now = requests()
            answered, before = now - before, now
            resident = _resident_bytes(statm)
            if not memory.may_be_much(resident):
                continue
            free = info().fordblks
            logger.debug(
                "%d MiB resident, %d MiB free, %d requests", resident >> 20, free >> 20, answered
            )
            if memory.is_idle(free, answered):
                trim(0)
                left = _resident_bytes(statm)
                memory.given_back(left, info().fordblks)
                logger.info(
                    "%d MiB of free memory went back to the system", (resident - left) >> 20
                )


def _open_statm() -> FileIO:
    return FileIO(_RESIDENT)


def _resident_bytes(statm: FileIO) -> int:
    return int(os.pread(statm.fileno(), 100, 0).split()[1]) * _PAGE_BYTES
